package daemon

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// repairGate holds back what repairs the host and stops something that runs, until the
// window for repairs is open. The framework calls it before every repair, from any
// goroutine. It remembers what was let through; core.State decides.
type repairGate struct {
	committed func() *core.State
	now       func() clock.Instant

	// staged finds what of the rows waits for a reboot; nil where nothing does.
	staged func(context.Context, []engine.Row) (map[engine.Ref]string, error)

	mu sync.Mutex
	// shut keeps the gate closed while the reducer decides whether a window is over.
	shut bool
	// begun were let through, at an instant, and not seen in a transition since;
	// admitted were let through since the window opened.
	begun    map[engine.Ref]clock.Instant
	admitted map[engine.Ref]bool
	// asked wait until the server has answered.
	asked map[engine.Ref]bool
}

// newRepairGate returns the gate of one host: committed gives its committed state, and
// now is its timeline. Both are called with the gate locked.
func newRepairGate(committed func() *core.State, now func() clock.Instant) *repairGate {
	return &repairGate{committed: committed, now: now, begun: map[engine.Ref]clock.Instant{}, admitted: map[engine.Ref]bool{}, asked: map[engine.Ref]bool{}}
}

// Admit lets a repair through or says what it waits for; see reconcile.WithRepairGate.
func (g *repairGate) Admit(_ context.Context, rep reconcile.Repair) *engine.Block {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	switch g.committed().AdmitRepair(rep.Parent, rep.Action, g.shut, now) {
	case core.RepairFree:
		return nil
	case core.RepairInWindow:
		g.begun[rep.Ref], g.admitted[rep.Ref] = now, true
		return nil
	case core.RepairUnconfirmed:
		g.asked[rep.Ref] = true
		return &engine.Block{Reason: engine.NewReason(core.CodeUnconfirmed, rep.Reason.Text())}
	}
	delete(g.begun, rep.Ref)
	return &engine.Block{Reason: engine.NewReason(core.CodeNeedsGrant, rep.Reason.Text())}
}

// Seen takes note of committed transitions, and reports whether one of them may
// matter to repairs.
func (g *repairGate) Seen(ts []engine.Transition) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := &g.committed().Repairs
	news := r.Grant != "" || r.Need != nil
	for i := range ts {
		delete(g.begun, ts[i].Ref)
		news = news || ts[i].From == engine.Drifted || ts[i].To == engine.Drifted
	}
	return news
}

// close shuts the gate and returns what was let through before.
func (g *repairGate) close(now clock.Instant) (begun bool, admitted map[engine.Ref]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	maps.DeleteFunc(g.begun, func(_ engine.Ref, at clock.Instant) bool { return now.Sub(at) >= core.RepairBeginWithin })
	return len(g.begun) > 0, maps.Clone(g.admitted)
}

// Reopen ends what Observe began.
func (g *repairGate) Reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}

// Unconfirmed returns once what waited until the server has answered.
func (g *repairGate) Unconfirmed() []engine.Ref {
	g.mu.Lock()
	defer g.mu.Unlock()
	refs := slices.SortedFunc(maps.Keys(g.asked), func(a, b engine.Ref) int { return strings.Compare(a.String(), b.String()) })
	clear(g.asked)
	return refs
}

// Clear forgets what was let through in a window that is over, and reopens.
func (g *repairGate) Clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	clear(g.admitted)
	clear(g.begun)
}

// Observe reads which repairs wait and, while a window is open, what is under way in
// it; then the gate stays shut until Reopen. With again, something was let through
// that is in no transition yet: observe once more after core.RepairBeginWithin.
func (g *repairGate) Observe(ctx context.Context, list func(context.Context, reconcile.Filter) ([]engine.Row, error), r *core.Repairs, now clock.Instant) (d core.RepairsObserved, again bool, err error) {
	f := reconcile.Filter{Phases: []engine.Phase{engine.Drifted, engine.Waiting}}
	var admitted map[engine.Ref]bool
	if r.Grant != "" {
		again, admitted = g.close(now)
		f.Phases = nil
	}
	rows, err := list(context.WithoutCancel(ctx), f)
	if err != nil {
		return d, again, err
	}
	var staged map[engine.Ref]string
	if g.staged != nil {
		staged, err = g.staged(context.WithoutCancel(ctx), rows)
	}
	d = r.ObserveRepairs(rows, admitted, staged, again)
	d.Reason = system.Scrub(d.Reason, 512)
	return d, again, err
}
