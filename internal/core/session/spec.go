// Package session decides how a tree of time-boxed sessions comes up on hosts and is gone in
// time: Session → Part → Pod, and the phases of a part. Its reconcilers are the pure half of
// kinds of package reconcile; see that for retries, deadlines, escalation and the cascade.
package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// The kinds of rows. Ids are paths: NAME, NAME/PART, NAME/PART/POD and NAME/PART/PHASE.
const (
	KindSession = "session"
	KindPart    = "part"
	KindPod     = "pod"
	KindPhase   = "phase"
)

// Spec is what is desired of a session.
type Spec struct {
	Owner string `json:"owner"` // who asked for it
	// Created is when. It tells a session from an earlier one of its name.
	Created  time.Time `json:"created,omitzero"`
	Timeslot Timeslot  `json:"timeslot"`
	Template string    `json:"template,omitempty"` // that it was made of
	// Calls are the hosts that its jobs may call: those that the owner of the template allows.
	Calls []string `json:"calls,omitempty"`
	// OnFailure is what a part that failed does to the session: continue, the default, leaves
	// the other parts alone; abort ends them in reverse order.
	OnFailure engine.FailureAction `json:"onFailure,omitempty"`
	Parts     []Part               `json:"parts"`
}

// Timeslot bounds a session; its instants follow each other. Images and containers come from
// ProvisionAt on and are to be ready by Start. At End the session is taken down, and whatever
// still runs at CleanupDeadline ends on its host, cut off or not.
type Timeslot struct {
	ProvisionAt     time.Time `json:"provisionAt"`
	Start           time.Time `json:"start"`
	End             time.Time `json:"end"`
	CleanupDeadline time.Time `json:"cleanupDeadline"`
}

// Part is a piece of a session that is ready, fails and is taken down as one.
type Part struct {
	Name string `json:"name"`
	// After are gates, all of which open before the part comes up.
	After []Gate `json:"after,omitempty"`
	// OnFailure is what a pod or phase that failed does to the part: abort, the default, ends
	// the others and fails the part; continue leaves it degraded.
	OnFailure engine.FailureAction `json:"onFailure,omitempty"`
	// Moves has a pod go to another host when its own is lost or drained, once the lease is over by
	// which the old host ends what runs there alone; Duplicates allowed: at once.
	Moves      bool   `json:"moves,omitempty"`
	Duplicates string `json:"duplicates,omitempty"`
	Stopped    bool   `json:"stopped,omitempty"`
	// Late is set of a part that was started after the start of the session: it cannot be ready by then.
	Late   bool    `json:"late,omitempty" doc:"set by the server"`
	Pods   []Pod   `json:"pods,omitempty"`
	Phases []Phase `json:"phases,omitempty"`
}

// DuplicatesAllowed lets two of a pod run for a while, where it moves.
const DuplicatesAllowed = "allowed"

// Pod is a group of resources that run on one host.
type Pod struct {
	Name string `json:"name"`
	// Selector, Arch, MilliCPU, Memory, GPU, Spread and AntiAffinity choose the host; see package
	// place. An empty selector is every host.
	Selector     fleet.Selector   `json:"selector,omitzero"`
	Arch         string           `json:"arch,omitempty"`
	Resources    place.Resources  `json:"resources,omitzero"`
	GPU          place.GPURequest `json:"gpu,omitzero"`
	Spread       *place.Spread    `json:"spread,omitempty"`
	AntiAffinity []string         `json:"antiAffinity,omitempty"`
	// Secrets are made for the pod, and named by its workloads; see SecretRef.
	Secrets []string `json:"secrets,omitempty"`
	// Workloads are resources of the managed layer, as a Compose fragment makes them.
	Workloads []Workload `json:"workloads"`
}

// Workload is one resource of a pod.
type Workload struct {
	Kind string          `json:"kind"`
	Name string          `json:"name"`
	Spec json.RawMessage `json:"spec"`
}

// ID is kind/name.
func (w *Workload) ID() string { return w.Kind + "/" + w.Name }

// Phase is a step of a part, begun once the part's pods are ready and the phases before it
// are over. Its job is a call or a command; without either nothing is asked for.
type Phase struct {
	Name    string   `json:"name"`
	Call    *Call    `json:"call,omitempty"`
	Command *Command `json:"command,omitempty"`
	// Await is the type of the event that ends it; empty: the job itself does.
	Await string `json:"await,omitempty"`
	// Timeout is how long the event may take, from when the job was accepted.
	Timeout clock.Duration `json:"timeout,omitempty"`
	// Retries is how many attempts follow the first one, whether its job failed or its event did not come. Nil:
	// a job that fails is attempted as often as the server is set to, and an event that does not come fails the phase.
	Retries *int `json:"retries,omitempty"`
	// Attempts is what the server is set to, from when the session was asked for.
	Attempts int `json:"attempts,omitempty" doc:"set by the server"`
}

// Call is an HTTP request of a job.
type Call struct {
	Method string          `json:"method,omitempty"` // POST if empty
	URL    string          `json:"url"`
	Body   json.RawMessage `json:"body,omitempty"`
}

// Command is a program that a job runs in a workspace of a pod of the same part. It was done if its exit code is
// 0, and may run more than once.
type Command struct {
	Pod       string   `json:"pod"`
	Workspace string   `json:"workspace"` // by its whole name
	Argv      []string `json:"argv"`
}

// Bounds of a session.
const (
	MaxParts     = 64
	MaxPods      = 64 // of a part
	MaxPhases    = 64 // of a part
	MaxWorkloads = 64 // of a pod
	MaxLength    = 90 * 24 * time.Hour
	MaxAhead     = 5 * 365 * 24 * time.Hour // of its cleanup deadline
	MaxGrace     = 7 * 24 * time.Hour
	MaxRetries   = 10
	MaxWait      = clock.Duration(7 * 24 * time.Hour / time.Millisecond)
	maxArgv      = 16 << 10 // bytes of a command
)

// Problem is what is wrong with a field, by its path.
type Problem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// Problems are all that is wrong with a session.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, x := range p {
		lines[i] = x.Path + ": " + x.Message
	}
	return strings.Join(lines, "\n")
}

func (p *Problems) add(path, format string, args ...any) {
	*p = append(*p, Problem{path, fmt.Sprintf(format, args...)})
}

// Validate finds all that is wrong with a session that is asked for now, and puts what its workloads
// are into the form in which hosts keep it. It returns Problems.
func Validate(name string, s *Spec, now time.Time) error {
	var p Problems
	if err := fleet.CheckName(name); err != nil {
		p.add("name", "%v", err)
	}
	slot := s.Timeslot
	if slot.validate(&p, now); len(p) > 0 { // pods are checked all the same, in a timeslot that is sound
		slot = Timeslot{ProvisionAt: now, Start: now, End: now.Add(time.Hour), CleanupDeadline: now.Add(time.Hour)}
	}
	checkAction(&p, "onFailure", s.OnFailure)
	if len(s.Parts) == 0 || len(s.Parts) > MaxParts {
		p.add("parts", "there are %d; expected 1 to %d", len(s.Parts), MaxParts)
	}
	seen := map[string]int{}
	for i := range s.Parts {
		part, path := &s.Parts[i], fmt.Sprintf("parts[%d]", i)
		checkName(&p, path, part.Name, seen)
		part.validate(&p, path, &slot)
	}
	s.gates(&p)
	checkCalls(&p, s.Calls)
	s.eachCall(func(path string, c *Call) {
		if err := allows(s.Calls, c.URL); err != nil {
			p.add(path, "%v", err)
		}
	})
	s.secrets(&p, name)
	if len(p) > 0 {
		return p
	}
	return nil
}

func (t *Timeslot) validate(p *Problems, now time.Time) {
	const path = "timeslot."
	for _, x := range []struct {
		name string
		at   time.Time
	}{{"provisionAt", t.ProvisionAt}, {"start", t.Start}, {"end", t.End}, {"cleanupDeadline", t.CleanupDeadline}} {
		if x.at.IsZero() {
			p.add(path+x.name, "it is missing")
			return
		}
	}
	switch {
	case !t.End.After(now):
		p.add(path+"end", "%s has passed", t.End.Format(time.RFC3339))
	case t.CleanupDeadline.Sub(now) > MaxAhead:
		p.add(path+"cleanupDeadline", "cleanupDeadline %s is more than %d days from now", t.CleanupDeadline.Format(time.RFC3339), int(MaxAhead.Hours()/24))
	case t.Start.Before(t.ProvisionAt):
		p.add(path+"start", "it is before provisionAt, %s", t.ProvisionAt.Format(time.RFC3339))
	case !t.End.After(t.Start):
		p.add(path+"end", "it is not after start, %s", t.Start.Format(time.RFC3339))
	case t.CleanupDeadline.Before(t.End):
		p.add(path+"cleanupDeadline", "it is before end, %s", t.End.Format(time.RFC3339))
	case t.End.Sub(t.ProvisionAt) > MaxLength:
		p.add(path+"end", "the session would last %s from provisionAt on; at most %s are allowed", clock.FromStd(t.End.Sub(t.ProvisionAt)), clock.FromStd(MaxLength))
	case t.CleanupDeadline.Sub(t.End) > MaxGrace:
		p.add(path+"cleanupDeadline", "it is %s after end; at most %s are allowed", clock.FromStd(t.CleanupDeadline.Sub(t.End)), clock.FromStd(MaxGrace))
	}
}

// CheckNew finds what is wrong with a session as one that comes up from now on: it has failed already whose pods had
// to be ready by an instant that has passed. It returns Problems.
func CheckNew(s *Spec, now time.Time) error {
	var p Problems
	if t := &s.Timeslot; t.Start.After(t.ProvisionAt) && t.Start.Before(now) {
		p.add("timeslot.start", "start %s has passed, and pods have to be ready by then: leave start and provisionAt out to begin now", t.Start.Format(time.RFC3339))
		return p
	}
	return nil
}

func checkAction(p *Problems, path string, a engine.FailureAction) {
	if a != "" && a != engine.Abort && a != engine.Continue {
		p.add(path, "unknown action %q: expected abort or continue", a)
	}
}

func checkName(p *Problems, path, name string, seen map[string]int) {
	if err := fleet.CheckName(name); err != nil {
		p.add(path+".name", "%v", err)
	}
	if seen[name]++; seen[name] > 1 {
		p.add(path+".name", "%s is there twice", name)
	}
}

func (part *Part) validate(p *Problems, path string, slot *Timeslot) {
	checkAction(p, path+".onFailure", part.OnFailure)
	switch {
	case part.Duplicates != "" && part.Duplicates != DuplicatesAllowed:
		p.add(path+".duplicates", "%q: expected %s, or nothing", part.Duplicates, DuplicatesAllowed)
	case part.Duplicates != "" && !part.Moves:
		p.add(path+".duplicates", "only a part that moves has duplicates")
	}
	if len(part.Pods) > MaxPods || len(part.Phases) > MaxPhases || len(part.Pods)+len(part.Phases) == 0 {
		p.add(path, "it has %d pods and %d phases; expected one of either, and at most %d and %d", len(part.Pods), len(part.Phases), MaxPods, MaxPhases)
	}
	pods, phases, workloads := map[string]int{}, map[string]int{}, map[string]string{}
	for i := range part.Pods {
		pod, path := &part.Pods[i], fmt.Sprintf("%s.pods[%d]", path, i)
		checkName(p, path, pod.Name, pods)
		if len(pod.Workloads) == 0 || len(pod.Workloads) > MaxWorkloads {
			p.add(path+".workloads", "there are %d; expected 1 to %d", len(pod.Workloads), MaxWorkloads)
		}
		var workspaces []*spec.Workspace
		for k := range pod.Workloads {
			id := pod.Workloads[k].ID()
			if other, twice := workloads[id]; twice {
				p.add(fmt.Sprintf("%s.workloads[%d]", path, k), "%s is declared by pod %s", id, other)
			}
			workloads[id] = pod.Name
			set, value, err := spec.Known.Read(pod.Workloads[k].Kind, pod.Workloads[k].Name, pod.Workloads[k].Spec)
			if err != nil {
				p.add(fmt.Sprintf("%s.workloads[%d]", path, k), "%s: %v", id, err)
				continue
			}
			pod.Workloads[k].Spec = value
			for i := range set.Workspaces {
				workspaces = append(workspaces, &set.Workspaces[i])
			}
		}
		pod.checkGPUs(p, path, workspaces)
		request := (&PodSpec{Pod: *pod, Timeslot: *slot}).Request(engine.Ref{Kind: KindPod, ID: "s/" + part.Name + "/" + pod.Name})
		if err := request.Validate(); err != nil {
			p.add(path, "%v", err)
		}
	}
	for i := range part.Phases {
		path := fmt.Sprintf("%s.phases[%d]", path, i)
		checkName(p, path, part.Phases[i].Name, phases)
		part.checkPhase(p, path, &part.Phases[i])
	}
}

func (part *Part) checkPhase(p *Problems, path string, ph *Phase) {
	checkEvent(p, path+".await", ph.Await)
	if c := ph.Call; c != nil && !slices.Contains(methods, c.Method) {
		p.add(path+".call.method", "unknown method %q: expected one of%s", c.Method, strings.Join(methods, " "))
	}
	switch {
	case ph.Call != nil && ph.Command != nil:
		p.add(path, "it has both a call and a command: expected one")
	case ph.Call == nil && ph.Command == nil && ph.Await == "":
		p.add(path, "it has neither a call nor a command nor an event to await")
	case ph.Await != "" && (ph.Timeout <= 0 || ph.Timeout > MaxWait):
		p.add(path+".timeout", "it is %s; a phase that awaits an event has a timeout of more than 0 and at most %s", ph.Timeout, MaxWait)
	case ph.Retries != nil && (*ph.Retries < 0 || *ph.Retries > MaxRetries):
		p.add(path+".retries", "there are %d; expected 0 to %d", *ph.Retries, MaxRetries)
	}
	c := ph.Command
	if c == nil {
		return
	}
	if size := len(strings.Join(c.Argv, " ")); len(c.Argv) == 0 || c.Argv[0] == "" || size > maxArgv {
		p.add(path+".command.run", "it has %d bytes in %d parts; expected a program, and at most %d bytes", size, len(c.Argv), maxArgv)
	}
	k := slices.IndexFunc(part.Pods, func(x Pod) bool { return x.Name == c.Pod })
	if k < 0 {
		p.add(path+".command.pod", "part %s has no pod %s", part.Name, c.Pod)
		return
	}
	if !slices.ContainsFunc(part.Pods[k].Workloads, func(w Workload) bool { return w.Kind == spec.KindWorkspace && w.Name == c.Workspace }) {
		p.add(path+".command.service", "pod %s has no workspace %s", c.Pod, c.Workspace)
	}
}
