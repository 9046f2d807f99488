// Package repairs holds back what repairs a host and stops something that runs,
// until the host's window for repairs is open, and tells where repairs stand. It
// keeps no window itself and asks for none: the reducer of host.Repairs does, and
// what the managed layer has is no part of a bundle and asks nobody.
package repairs

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/docker/layer"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// CodeNeedsGrant is the reason of a resource whose repair waits for a grant.
const CodeNeedsGrant engine.Code = "repair_needs_grant"

// BeginWithin is the longest that may pass between the gate and the record that
// an act has begun, which is one commit. What is not seen by then did not begin:
// another look found the resource as declared.
const BeginWithin = 30 * clock.Second

// Standing is the committed state of a host, as far as repairs go.
type Standing struct {
	// Settled is whether no rollout is in flight: a host in flight holds its slot
	// already.
	Settled bool
	Repairs host.Repairs
}

// Rows lists resources.
type Rows interface {
	List(ctx context.Context, f reconcile.Filter) ([]engine.Row, error)
}

// disruptive is an action that may stop or replace something that runs. What
// ends a replacement that has begun is not: it must always be able to finish.
type disruptive interface{ Disrupts() bool }

// Gate is asked by the framework before every repair. It may be used from any
// goroutine.
type Gate struct {
	standing func() Standing
	now      func() clock.Instant

	mu sync.Mutex
	// shut keeps the gate closed while the reducer looks whether a window is over.
	shut bool
	// begun were let through, at an instant, and not seen in a transition since;
	// in were let through since the window opened.
	begun map[engine.Ref]clock.Instant
	in    map[engine.Ref]bool
}

// New returns the gate of one host; now is its timeline. Both are called with the
// gate locked.
func New(standing func() Standing, now func() clock.Instant) *Gate {
	return &Gate{standing: standing, now: now, begun: map[engine.Ref]clock.Instant{}, in: map[engine.Ref]bool{}}
}

// Ask lets a repair through or says what it waits for; see reconcile.WithRepairGate.
func (g *Gate) Ask(_ context.Context, rep reconcile.Repair) reconcile.Hold {
	d, ok := rep.Action.(disruptive)
	if !ok || !d.Disrupts() || rep.Parent == layer.Current {
		return reconcile.Hold{}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.standing()
	if !s.Settled {
		return reconcile.Hold{}
	}
	delete(g.begun, rep.Ref)
	if now := g.now(); !g.shut && s.Repairs.Open(now) {
		g.begun[rep.Ref], g.in[rep.Ref] = now, true
		return reconcile.Hold{}
	}
	return reconcile.Hold{Reason: engine.Because(CodeNeedsGrant, rep.Reason.Message())}
}

// Seen takes note of committed transitions, and reports whether one of them may
// matter to repairs.
func (g *Gate) Seen(ts []engine.Transition) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	news := g.standing().Repairs.Grant != ""
	for i := range ts {
		delete(g.begun, ts[i].Ref)
		news = news || ts[i].From == engine.Drifted || ts[i].To == engine.Drifted
	}
	return news
}

// close shuts the gate and returns what was let through before.
func (g *Gate) close(now clock.Instant) (begun bool, in map[engine.Ref]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	in = make(map[engine.Ref]bool, len(g.in))
	for ref := range g.in {
		in[ref] = true
	}
	for ref, at := range g.begun { // order-free
		if now.Sub(at) >= BeginWithin {
			delete(g.begun, ref)
		}
	}
	return len(g.begun) > 0, in
}

// Reopen ends what Look began; over says that the window is.
func (g *Gate) Reopen(over bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	if over {
		clear(g.in)
		clear(g.begun)
	}
}

// Look looks at what is held back and, while a window is open, at what is under way
// in it; then the gate stays shut until Reopen. With again, something was let through
// that is in no transition yet: look once more after BeginWithin.
func (g *Gate) Look(ctx context.Context, from Rows, r *host.Repairs, now clock.Instant) (d host.Drift, again bool, err error) {
	f := reconcile.Filter{Phases: []engine.Phase{engine.Drifted}}
	var in map[engine.Ref]bool
	if r.Grant != "" {
		again, in = g.close(now)
		f.Phases = nil
		for _, name := range r.Names {
			in[Ref(name)] = true
		}
	}
	d = host.Drift{Pending: again, Running: again}
	rows, err := from.List(context.WithoutCancel(ctx), f)
	for i := range rows {
		if rows[i].Phase == engine.Drifted {
			held(&d, &rows[i])
		} else if in[rows[i].Ref] {
			underWay(&d, &rows[i])
		}
	}
	slices.Sort(d.Held)
	return d, again, err
}

func held(d *host.Drift, row *engine.Row) {
	if row.Reason.Code != CodeNeedsGrant || row.Parent == layer.Current {
		return
	}
	if d.Held = append(d.Held, row.Ref.String()); len(d.Held) == 1 {
		d.Reason = system.Scrub(row.Reason.Words, 512)
	}
}

func underWay(d *host.Drift, row *engine.Row) {
	if row.Retire || row.ConvergedGen != row.Generation {
		return
	}
	switch row.Phase {
	case engine.Acting:
		d.Pending, d.Running = true, true
	case engine.Failed:
		d.Failed = append(d.Failed, row.Ref.String())
	case engine.Verifying, engine.Retrying, engine.Waiting, engine.Pending:
		d.Pending = true
	}
}

// Ref reads the name that Drift gives a resource.
func Ref(name string) engine.Ref {
	kind, id, _ := strings.Cut(name, "/")
	return engine.Ref{Kind: kind, ID: id}
}
