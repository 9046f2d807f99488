package workspace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Part is where one resource of a bundle stands.
type Part struct {
	Ref    engine.Ref
	Phase  engine.Phase
	Reason engine.Reason
	Run    container.RunState // of a workspace
}

// Stable is how long a workspace whose container failed has to go without another
// failure before it passes again, so that one that is started again and again fails
// throughout.
const Stable = 30 * clock.Second

// mostFailing bounds how many failing parts are named.
const mostFailing = 3

// Watch tells whether what a bundle declares does what it should, over time: it
// remembers failures that ended between two looks. The zero Watch has seen none.
type Watch struct {
	last map[engine.Ref]failure
}

type failure struct {
	at    clock.Instant
	words string
}

// failed reports whether a reason is of a container that failed, and not of an
// order or of a change from outside.
func failed(phase engine.Phase, code engine.Code) bool {
	switch code {
	case CodeNotRunning, CodeFailed, CodeUnhealthy, CodeRestarting, CodeHookFailed:
		return true
	}
	return phase == engine.Failed || phase == engine.Retrying
}

// Observe takes one change of a part. Those of one part come in order.
func (w *Watch) Observe(p Part, now clock.Instant) {
	if p.Ref.Kind != container.KindWorkspace || !failed(p.Phase, p.Reason.Code) {
		return
	}
	if w.last == nil {
		w.last = map[engine.Ref]failure{}
	}
	w.last[p.Ref] = failure{now, cmp.Or(p.Reason.Words, string(p.Reason.Code))}
}

// Failing says what does not do what it should, one part after the other; empty if
// everything does.
func (w *Watch) Failing(parts []Part, now clock.Instant) string {
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b Part) int { return a.Ref.Compare(b.Ref) })
	var out []string
	for _, p := range parts {
		if words := w.failing(p, now); words != "" {
			out = append(out, p.Ref.String()+": "+words)
		}
	}
	if more := len(out) - mostFailing; more > 0 {
		out = append(out[:mostFailing], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

func (w *Watch) failing(p Part, now clock.Instant) string {
	last, had := w.last[p.Ref]
	switch p.Phase {
	case engine.Converged, engine.Degraded, engine.Drifted:
		switch {
		case p.Ref.Kind == container.KindWorkspace && p.Reason.Code == container.CodeStopped && cmp.Or(p.Run, container.Running) == container.Running:
			return cmp.Or(p.Reason.Words, "it does not run")
		case had && now.Sub(last.at) < Stable:
			return last.words + "; it has to run for " + Stable.String() + " without another failure"
		}
		return ""
	}
	if had && !failed(p.Phase, p.Reason.Code) {
		return last.words // on its way back from it
	}
	return cmp.Or(p.Reason.Words, string(p.Reason.Code), string(p.Phase))
}
