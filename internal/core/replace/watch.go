package replace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Part is where one resource of a bundle stands.
type Part struct {
	Ref    engine.Ref
	Phase  engine.Phase
	Reason engine.Reason
	Run    spec.RunState // of a workspace
}

// Stable is how long a workspace whose container failed has to go without another
// failure before it passes again, so that one that is started again and again fails
// throughout.
const Stable = 30 * clock.Second

const mostFailing = 3

// Watch tells whether what a bundle declares does what it should, over time: it
// remembers failures that ended between two looks. The zero Watch has seen none.
type Watch struct {
	last map[engine.Ref]failure
}

type failure struct {
	at      clock.Instant
	message string
}

func (p Part) stage() spec.Stage {
	return spec.Stage{Kind: p.Ref.Kind, Phase: p.Phase, Code: p.Reason.Code}
}

// failed reports whether a container failed, and not an order or a change from
// outside was met: the host tries again what is not broken yet.
func (p Part) failed() bool {
	return p.stage().Broken() || p.Phase == engine.Retrying || p.Reason.Code == CodeNotRunning
}

// Observe takes one change of a part. Those of one part come in order.
func (w *Watch) Observe(p Part, now clock.Instant) {
	if p.Ref.Kind != spec.KindWorkspace || !p.failed() {
		return
	}
	if w.last == nil {
		w.last = map[engine.Ref]failure{}
	}
	w.last[p.Ref] = failure{now, cmp.Or(p.Reason.Message, string(p.Reason.Code))}
}

// Failing says what does not do what it should, one part after the other; empty if
// everything does.
func (w *Watch) Failing(parts []Part, now clock.Instant) string {
	parts = slices.Clone(parts)
	slices.SortFunc(parts, func(a, b Part) int { return a.Ref.Compare(b.Ref) })
	var out []string
	for _, p := range parts {
		if message := w.failing(p, now); message != "" {
			out = append(out, p.Ref.String()+": "+message)
		}
	}
	if more := len(out) - mostFailing; more > 0 {
		out = append(out[:mostFailing], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

func (w *Watch) failing(p Part, now clock.Instant) string {
	last, had := w.last[p.Ref]
	if p.stage().Good() {
		switch {
		case p.Ref.Kind == spec.KindWorkspace && p.Reason.Code == spec.CodeStopped && cmp.Or(p.Run, spec.Running) == spec.Running:
			return cmp.Or(p.Reason.Message, "it does not run")
		case had && now.Sub(last.at) < Stable:
			return last.message + "; it has to run for " + Stable.String() + " without another failure"
		}
		return ""
	}
	if had && !p.failed() {
		return last.message // on its way back from it
	}
	return cmp.Or(p.Reason.Message, string(p.Reason.Code), string(p.Phase))
}
