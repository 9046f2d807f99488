package agent

import (
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Generation is what is desired of a host: one run towards one bundle. A run with
// another name begins anew.
type Generation struct {
	Bundle  digest.Digest `json:"bundle"` // empty: nothing runs
	Run     string        `json:"run"`
	Revert  bool          `json:"revert,omitempty"`
	Leaving digest.Digest `json:"leaving,omitempty"` // the bundle that a revert abandons
	// Keep is the bundle that may come back.
	Keep digest.Digest `json:"keep,omitempty"`
	// Wipe says that nothing may be left of the bundles before.
	Wipe bool `json:"wipe,omitempty"`
}

// GenerationOf is the run that a machine asks for: an activation, or the next attempt
// to go back.
func GenerationOf(m *host.State) Generation {
	if m.Reverting || m.Phase == host.Reverted {
		return Generation{Bundle: m.From, Revert: true, Leaving: m.Target, Keep: m.Target,
			Run: deploy.BackRun(m.Grant, m.RevertFailures+1)}
	}
	return Generation{Bundle: m.Target, Run: m.Grant, Keep: m.From}
}

// same reports whether two generations are the same run.
func (g Generation) same(o Generation) bool {
	g.Keep = o.Keep
	return g == o
}

// Outcome is how far a generation has come.
type Outcome int

const (
	// Unfinished is still under way.
	Unfinished Outcome = iota
	// Complete: every resource was observed as desired.
	Complete
	// Broken: a resource exhausted its retries.
	Broken
	// Staged: a component cannot be switched while it runs and waits for a reboot.
	Staged
)

// GenerationObserved says how far the desired generation has come. It tells the
// present and no history, so that nothing is lost by a crash in between; what the
// machine does not wait for changes nothing.
type GenerationObserved struct {
	Generation Generation
	Outcome    Outcome
	// Code and Detail say why it is broken; Detail names the component that is staged.
	Code, Detail string
}

func (in GenerationObserved) apply(t *turn) error {
	m := &t.s.Machine
	var next host.Input
	switch {
	case !in.Generation.same(t.s.Generation):
	case t.s.Removal.empties():
		t.left(&in)
	case m.Phase == host.Activating:
		switch in.Outcome {
		case Complete:
			next = host.Activated{Observed: in.Generation.Bundle}
		case Broken:
			next = host.ActivationFailed{Code: in.Code, Detail: in.Detail}
		case Staged:
			next = host.ActivationDeferred{Component: in.Detail}
		}
	case m.Phase == host.Failed && m.Reverting:
		switch {
		case in.Outcome == Complete:
			next = host.RevertCompleted{Observed: in.Generation.Bundle}
		case in.Outcome == Broken:
			next = host.RevertFailed{Code: in.Code, Detail: in.Detail}
		case in.Outcome == Staged && !m.Rebooting():
			next = host.RevertDeferred{Component: in.Detail}
		}
	}
	if next == nil {
		return nil
	}
	return t.machine(next)
}
