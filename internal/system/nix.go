package system

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/prose"
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
	CodeKernelChanged  engine.Code = "booted-with-another-kernel"
	CodeCannotSwitch   engine.Code = "cannot-be-switched-while-it-runs"
	CodeUnitsFailed    engine.Code = "units-failed"
	CodeOldGenerations engine.Code = "old-generations"
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
	// already, or a new one if that is 0. Intact is as in the record.
	Point struct {
		Generation int    `json:"generation,omitempty"`
		Path       string `json:"path"`
		Again      bool   `json:"again,omitempty"`
		Intact     bool   `json:"intact,omitempty"`
	}
	// Start starts switch-to-configuration in a session of its own.
	Start struct {
		Mode  string        `json:"mode"`
		Path  string        `json:"path"`
		Run   string        `json:"run"`
		At    clock.Instant `json:"at"`
		Again bool          `json:"again,omitempty"`
		Why   string        `json:"why,omitempty"` // of a boot: what cannot be switched while it runs
	}
	// Stop kills the switch that runs, for a reason that its result is to say.
	Stop struct {
		Result SwitchState `json:"result"`
	}
	// Stage records what waits for a reboot.
	Stage struct {
		Component string `json:"component"`
	}
	// Prune deletes generations of the profile.
	Prune struct {
		Run         string `json:"run"`
		Generations []int  `json:"generations"`
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
func (Prune) ActionName() string   { return "prune" }
func (Forget) ActionName() string  { return "forget" }

// Disrupts reports whether a system that runs is switched over.
func (a Point) Disrupts() bool { return a.Again }

// Disrupts reports whether a system that runs is switched over, which a boot never does.
func (a Start) Disrupts() bool { return a.Again && a.Mode == ModeSwitch }

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
	Why      string        `json:"why,omitempty"` // see Start
	// Intact means that what runs is a whole system: since its own switch or boot only the
	// profile and the boot loader were changed.
	Intact bool `json:"intact,omitempty"`
	// Pruned is the run in which old generations were deleted last.
	Pruned string `json:"pruned,omitempty"`
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
	// Pending is what was booted otherwise than the desired path has it, and Surplus the
	// generations that are beyond those to keep.
	Pending []string
	Surplus []int
}

// intact reports whether what runs is a whole system, which no switch has touched since.
func (o *NixObserved) intact() bool {
	rec := &o.Record
	switch {
	case o.Running == "" || o.State == SwitchRunning:
		return false
	case !o.Begun, rec.Boot != "" && rec.Boot != o.Boot, rec.Intact && rec.Mode != ModeSwitch:
		return true
	}
	return rec.Mode != "" && rec.Path == o.Running && o.State == SwitchEnded && o.Exit == 0
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
	again      bool   // it was converged in this generation
	mode       string // by which the path is put into effect
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
		intact := o.intact()
		quiet := d.Nix.Mode == fleet.NixBoot || intact && o.Running == t.path // what runs goes on
		return engine.Do(Point{Generation: t.generation, Path: t.path, Again: t.again && !quiet, Intact: intact}, engine.NewReason(CodePointProfile, o.Path))
	}
	// Where the path runs already, and as a whole, only the boot loader has to know of it.
	if t.mode = ModeSwitch; d.Nix.Mode == fleet.NixBoot || o.Begun && o.Record.Intact && o.Running == t.path {
		t.mode = ModeBoot
	}
	return decideSwitch(r, o, t, now)
}

// decideSwitch decides when the profile points where it should and nothing runs.
func decideSwitch(r engine.Resource[SystemDesired], o NixObserved, t nixTarget, now clock.Instant) engine.Decision {
	start := func(mode string, code engine.Code, why string) engine.Decision {
		return engine.Do(Start{Mode: mode, Path: t.path, Run: t.run, At: now, Again: t.again, Why: why}, engine.NewReason(code, t.path))
	}
	rec, n := o.Record, r.Desired.Nix
	if rec.Path != t.path || rec.Mode == "" {
		// A system that ran before the agent came is accepted as it is.
		if !o.Begun && o.Running == t.path {
			return inEffect(r, o, t)
		}
		if n.Mode == fleet.NixBoot && o.Boot == "" && o.Running != t.path {
			return engine.Fail(engine.NewReason(CodeNotBooted, "its mode is boot, and this machine does not tell one boot from the next"))
		}
		return start(t.mode, CodeSwitchSystem, "")
	}
	failed := func(code engine.Code, message string) engine.Decision {
		if rec.Run != t.run {
			return start(t.mode, CodeSwitchSystem, "")
		}
		return engine.Fail(engine.NewReason(code, message))
	}
	here := o.Running == t.path && rec.Intact // and ran all the time
	switch {
	case o.State == SwitchTimedOut:
		return failed(CodeSwitchTimeout, strings.TrimSuffix("it ran for longer than "+n.Timeout.String()+": "+o.Tail, ": "))
	case o.State != SwitchEnded:
		return start(t.mode, CodeSwitchSystem, "")
	case refusesSwitch(n, &o) && n.Mode == fleet.NixSwitch && !r.Delete:
		return failed(CodeCannotSwitch, "it cannot be switched to while the system runs, and its mode is switch; mode auto or boot stages it for a reboot: "+
			Outcome{ExitCode: o.Exit, Tail: o.Tail}.String())
	case refusesSwitch(n, &o) && o.Boot != "":
		return start(ModeBoot, CodeStageSystem, whyStaged(&o))
	case o.Exit == exitUnits && rec.Mode == ModeSwitch:
		return failed(CodeUnitsFailed, "it was switched to, and units failed: "+Outcome{ExitCode: o.Exit, Tail: o.Tail}.String())
	case o.Exit != 0:
		return failed(CodeSwitchFailed, rec.Mode+": "+Outcome{ExitCode: o.Exit, Tail: o.Tail}.String())
	case rec.Mode == ModeBoot && rec.Boot == o.Boot && !here && n.Mode == fleet.NixSwitch && rec.Run != t.run:
		return start(ModeSwitch, CodeSwitchSystem, "") // it was staged under another mode
	case rec.Mode == ModeBoot && rec.Boot == o.Boot && !here:
		return waitForBoot(o, bootReason(n, &o))
	case o.Running != "" && o.Running != t.path:
		if rec.Run != t.run || t.again {
			return start(t.mode, CodeNotInEffect, "")
		}
		code := CodeNotInEffect
		if rec.Mode == ModeBoot {
			code = CodeNotBooted
		}
		return engine.Fail(engine.NewReason(code, o.Running+" runs"))
	}
	return inEffect(r, o, t)
}

// inEffect decides when the system runs: whether that is all, or what it takes beyond.
func inEffect(r engine.Resource[SystemDesired], o NixObserved, t nixTarget) engine.Decision {
	n := r.Desired.Nix
	switch {
	case r.Delete:
		return engine.Do(Forget{}, engine.NewReason(CodeBackToSystem, t.path))
	case n.OnKernelChange == fleet.RebootKernel && len(o.Pending) > 0 && o.Boot != "":
		return waitForBoot(o, strings.Join(o.Pending, ", "))
	case len(o.Surplus) > 0 && o.Begun && !t.again && o.Record.Pruned != t.run:
		return engine.Do(Prune{Run: t.run, Generations: o.Surplus},
			engine.NewReason(CodeOldGenerations, prose.Count(len(o.Surplus), "generation")+" of "+n.Profile+" beyond the newest "+strconv.Itoa(n.KeepGenerations)))
	}
	return engine.IsConverged(engine.Reason{})
}

// waitForBoot records once in each boot that it is waited for the next, and why.
func waitForBoot(o NixObserved, why string) engine.Decision {
	if !o.Staged {
		return engine.Do(Stage{Component: why}, engine.NewReason(CodeStageSystem, why))
	}
	return engine.Wait(engine.NewReason(CodeNeedsReboot, why))
}

// exitUnits is how switch-to-configuration of NixOS ends where units could not be started.
const exitUnits = 4

// refusesSwitch reports whether the last switch ended since the path needs a boot.
func refusesSwitch(n *fleet.Nix, o *NixObserved) bool {
	return o.Record.Mode == ModeSwitch && (slices.Contains(n.Reboot, o.Exit) || o.Exit != 0 && inhibitor(o.Tail) != "")
}

// whyStaged names what kept a path from being switched to; empty where the output of the boot
// is to name it.
func whyStaged(o *NixObserved) string {
	check := inhibitor(o.Tail)
	if check == "" {
		return ""
	}
	return cmp.Or(strings.Join(o.Pending, ", "), check)
}

// BootMode is the reason of a system that is always staged.
const BootMode = "mode boot"

// bootReason says why a path that was staged waits for a boot.
func bootReason(n *fleet.Nix, o *NixObserved) string {
	switch {
	case n.Mode == fleet.NixBoot && len(o.Pending) > 0:
		return BootMode + ": " + strings.Join(o.Pending, ", ")
	case n.Mode == fleet.NixBoot:
		return BootMode
	}
	return cmp.Or(o.Record.Why, component(o.Tail))
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
