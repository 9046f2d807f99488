package system

import (
	"regexp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of Nix systems.
const (
	CodeFetchSystem    engine.Code = "system-not-in-store"
	CodePointProfile   engine.Code = "profile-points-elsewhere"
	CodeSwitchSystem   engine.Code = "system-not-switched"
	CodeSwitching      engine.Code = "switching"
	CodeStageSystem    engine.Code = "staging-for-reboot"
	CodeSwitchFailed   engine.Code = "switch-failed"
	CodeSwitchTimeout  engine.Code = "switch-timed-out"
	CodeSwitchUnwanted engine.Code = "switch-no-longer-wanted"
	CodeNotInEffect    engine.Code = "switched-and-not-in-effect"
	CodeBackToSystem   engine.Code = "back-to-system-before"
)

// Modes of switch-to-configuration.
const (
	ModeSwitch = "switch"
	ModeBoot   = "boot"
)

// The actions on a Nix system. Again means that it was converged: what runs is
// switched over.
type (
	// Realise brings the path into the store.
	Realise struct{}
	// Point makes the profile point at the path: at a generation that it has
	// already, or a new one if that is 0.
	Point struct {
		Generation int    `json:"generation,omitempty"`
		Path       string `json:"path"`
		Again      bool   `json:"again,omitempty"`
	}
	// Start starts switch-to-configuration in a session of its own.
	Start struct {
		Mode  string        `json:"mode"`
		Path  string        `json:"path"`
		Run   string        `json:"run"`
		At    clock.Instant `json:"at"`
		Again bool          `json:"again,omitempty"`
	}
	// Stop kills the switch that runs, for a reason that its result is to say.
	Stop struct {
		Result SwitchState `json:"result"`
	}
	// Stage records what waits for a reboot.
	Stage struct {
		Component string `json:"component"`
	}
	// Forget drops what is known of switches.
	Forget struct{}
)

// ActionName names the actions.
func (Realise) ActionName() string { return "realise" }
func (Point) ActionName() string   { return "point" }
func (Start) ActionName() string   { return "start" }
func (Stop) ActionName() string    { return "stop" }
func (Stage) ActionName() string   { return "stage" }
func (Forget) ActionName() string  { return "forget" }

// Disrupts reports whether a system that runs is switched over.
func (a Point) Disrupts() bool { return a.Again }

// Disrupts reports whether a system that runs is switched over.
func (a Start) Disrupts() bool { return a.Again }

// SwitchState is the state of the last switch.
type SwitchState string

// The states. A switch that is not running and left no result was lost, to a power
// cut or to somebody who killed it.
const (
	SwitchNone     SwitchState = ""
	SwitchRunning  SwitchState = "running"
	SwitchEnded    SwitchState = "ended"
	SwitchTimedOut SwitchState = "timed-out"
	SwitchStopped  SwitchState = "stopped"
	SwitchLost     SwitchState = "lost"
)

// SwitchRecord is written before anything changes: what is switched, and where the
// profile pointed before the agent first touched it.
type SwitchRecord struct {
	Seq      int           `json:"seq"`
	Run      string        `json:"run,omitempty"`
	Path     string        `json:"path,omitempty"`
	Mode     string        `json:"mode,omitempty"` // empty: not started since the profile was pointed
	Boot     string        `json:"boot,omitempty"`
	Started  clock.Instant `json:"started,omitempty"`
	From     int           `json:"from"` // generation; 0 if the profile had none
	FromPath string        `json:"fromPath,omitempty"`
}

// NixObserved is what is seen of a Nix system.
type NixObserved struct {
	Begun  bool // there is a record
	Record SwitchRecord
	State  SwitchState
	Exit   int    // of a switch that ended
	Tail   string // of its output
	// Path is where the profile points; Back the newest generation of the profile
	// that is the desired path, 0 if none.
	Path    string
	Back    int
	Present bool   // the desired path is in the store
	Running string // where the link to what runs points; empty if there is none
	Boot    string // the present boot
	Staged  bool   // it is recorded that a reboot is waited for in this boot
}

// Poll intervals of a switch that runs.
const (
	pollSoon  = 200 * clock.Millisecond
	pollLater = 2 * clock.Second
	pollEarly = 10 * clock.Second
)

type nixTarget struct {
	path, run  string
	generation int
	again      bool // it was converged in this generation
}

// decideNix finishes what was begun, whatever of it happened: it looks only at what
// is there now.
func decideNix(r engine.Resource[SystemDesired], o NixObserved, now clock.Instant) engine.Decision {
	d := r.Desired
	t := nixTarget{path: d.Nix.Path, run: d.Run, generation: o.Back, again: !r.Delete && r.Status.ConvergedGeneration == r.Generation}
	switch {
	case d.Released && r.Delete && o.Begun, r.Delete && o.Begun && o.Record.From == 0 && o.State != SwitchRunning:
		return engine.Do(Forget{}, engine.NewReason(CodeBackToSystem, "nothing to go back to"))
	case d.Released, r.Delete && !o.Begun:
		return engine.IsConverged(engine.Reason{})
	case r.Delete:
		t.path, t.generation, t.run = o.Record.FromPath, o.Record.From, "undo of "+d.Run
	}
	if o.State == SwitchRunning {
		end := o.Record.Started.Add(d.Nix.Timeout)
		switch {
		case o.Record.Path != t.path:
			return engine.Do(Stop{SwitchStopped}, engine.NewReason(CodeSwitchUnwanted, o.Record.Path))
		case now >= end:
			return engine.Do(Stop{SwitchTimedOut}, engine.NewReason(CodeSwitchTimeout, o.Record.Path))
		}
		every := pollSoon
		if now.Sub(o.Record.Started) > pollEarly {
			every = pollLater
		}
		return engine.WaitUntil(min(end, now.Add(every)).Time(), engine.NewReason(CodeSwitching, o.Record.Path))
	}
	if o.Path != t.path {
		if !r.Delete && !o.Present {
			return engine.Do(Realise{}, engine.NewReason(CodeFetchSystem, t.path))
		}
		return engine.Do(Point{Generation: t.generation, Path: t.path, Again: t.again}, engine.NewReason(CodePointProfile, o.Path))
	}
	return decideSwitch(r, o, t, now)
}

// decideSwitch decides when the profile points where it should and nothing runs.
func decideSwitch(r engine.Resource[SystemDesired], o NixObserved, t nixTarget, now clock.Instant) engine.Decision {
	start := func(mode string, code engine.Code) engine.Decision {
		return engine.Do(Start{Mode: mode, Path: t.path, Run: t.run, At: now, Again: t.again}, engine.NewReason(code, t.path))
	}
	rec := o.Record
	if rec.Path != t.path || rec.Mode == "" {
		// A system that ran before the agent came is accepted as it is.
		if !o.Begun && o.Running == t.path {
			return engine.IsConverged(engine.Reason{})
		}
		return start(ModeSwitch, CodeSwitchSystem)
	}
	failed := func(code engine.Code, message string) engine.Decision {
		if rec.Run != t.run {
			return start(ModeSwitch, CodeSwitchSystem)
		}
		return engine.Fail(engine.NewReason(code, message))
	}
	switch {
	case o.State == SwitchTimedOut:
		return failed(CodeSwitchTimeout, strings.TrimSuffix("it ran for longer than "+r.Desired.Nix.Timeout.String()+": "+o.Tail, ": "))
	case o.State != SwitchEnded:
		return start(ModeSwitch, CodeSwitchSystem)
	case rec.Mode == ModeSwitch && slices.Contains(r.Desired.Nix.Reboot, o.Exit) && o.Boot != "":
		return start(ModeBoot, CodeStageSystem)
	case rec.Mode == ModeSwitch && o.Exit != 0 && inhibitor(o.Tail) != "" && o.Boot != "":
		return start(ModeBoot, CodeStageSystem)
	case o.Exit != 0:
		return failed(CodeSwitchFailed, rec.Mode+": "+Outcome{ExitCode: o.Exit, Tail: o.Tail}.String())
	case rec.Mode == ModeBoot && rec.Boot == o.Boot && !o.Staged:
		return engine.Do(Stage{Component: component(o.Tail)}, engine.NewReason(CodeStageSystem, component(o.Tail)))
	case rec.Mode == ModeBoot && rec.Boot == o.Boot:
		return engine.Wait(engine.NewReason(CodeNeedsReboot, component(o.Tail)))
	case o.Running != "" && o.Running != t.path:
		if rec.Run != t.run || t.again {
			return start(ModeSwitch, CodeNotInEffect)
		}
		code := CodeNotInEffect
		if rec.Mode == ModeBoot {
			code = CodeNotBooted
		}
		return engine.Fail(engine.NewReason(code, o.Running+" runs"))
	case r.Delete:
		return engine.Do(Forget{}, engine.NewReason(CodeBackToSystem, t.path))
	}
	return engine.IsConverged(engine.Reason{})
}

var componentName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// refusedSwitch is what NixOS prints of a check before the switch that failed.
var refusedSwitch = regexp.MustCompile(`(?i)pre-switch check '([^']*)' failed`)

// inhibitor is the check by which NixOS refuses to switch while the system runs, and asks for a boot instead: a change
// of what is declared a switch inhibitor, such as the message bus. Other checks refuse the system itself.
func inhibitor(tail string) string {
	for _, m := range refusedSwitch.FindAllStringSubmatch(tail, -1) {
		if strings.Contains(strings.ToLower(m[1]), "inhibitor") {
			return m[1]
		}
	}
	return ""
}

// component is what cannot be switched while it runs: the last line of the output
// if that is a name, else init, which is all that NixOS means by its exit code.
func component(tail string) string {
	last := strings.TrimSpace(tail[strings.LastIndexByte(tail, '\n')+1:])
	if componentName.MatchString(last) {
		return last
	}
	return "init"
}
