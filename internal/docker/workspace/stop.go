package workspace

import (
	"context"
	"fmt"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Times of stops.
const (
	// stopAtOnce is how long an act waits for a stop. A longer one is carried on between the turns of its
	// workspace, so that it keeps no turn of another resource waiting.
	stopAtOnce = 2 * time.Second
	// killLead is how long before the end of a workspace its containers are killed at the latest: what they used is
	// removed and reported after that.
	killLead = 5 * time.Second
	// killLate is how long after that the engine may take before it is named as the cause.
	killLate = 5 * time.Second
	// killAgain is how long after it was to be killed a container is killed with a call of its own.
	killAgain = time.Second
	// tryAgain is when a removal is tried again that failed.
	tryAgain = 15 * time.Second
)

// stopTask is the stop of one container while it is under way.
type stopTask struct {
	done   chan struct{}
	cancel context.CancelFunc
	err    error     // once done is closed
	by     time.Time // when the engine kills it at the latest, by Options.Clock
	words  string
}

func (t *stopTask) over() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// stay is why a workspace could not be removed, when that was tried last.
type stay struct {
	words string
	until time.Time // by Options.Clock
}

// left is how long a resource may still be there; it is not bounded where it has no end.
func (m *Reconciler) left(r *engine.Resource[Desired]) (left time.Duration, bounded bool) {
	if r.NotAfter.IsZero() {
		return 0, false
	}
	return r.NotAfter.Sub(m.o.Clock()), true
}

// over reports whether the workspace is to be gone by now.
func (h *handler) over() bool {
	left, bounded := h.m.left(&h.r)
	return bounded && left <= killLead
}

// each does something with each of several containers that are there and picked. All are asked to stop first, and
// one that has not ended keeps none of the others waiting.
func (h *handler) each(ids []string, pick func(*current) bool, drain bool, do func(*current) error) error {
	var all []*current
	for _, id := range ids {
		c, err := h.get(id)
		if err != nil {
			return err
		}
		if c != nil && (pick == nil || pick(c)) {
			all = append(all, c)
		}
	}
	if h.m.o.Wake != nil {
		for _, c := range all {
			if c.live() {
				h.begin(c, drain)
			}
		}
	}
	var errs []error
	for _, c := range all {
		if h.m.o.Wake == nil && drain {
			h.drain(c)
		}
		errs = append(errs, do(c))
	}
	return first(errs)
}

// first is the first error that is more than a wait, else the first.
func first(errs []error) (out error) {
	for _, err := range errs {
		_, waits := reconcile.IsBlocked(err)
		switch {
		case err == nil:
		case !waits:
			return err
		case out == nil:
			out = err
		}
	}
	return out
}

// stop ends a container as it wants to be ended, and waits for that. Nil is stopped already.
func (h *handler) stop(c *current) error { return h.await(c, nil) }

// stopBetween is stop for acts that can be taken up again: what takes longer is waited for between turns.
func (h *handler) stopBetween(c *current) error {
	if h.m.o.Wake == nil {
		return h.stop(c)
	}
	timer := time.NewTimer(stopAtOnce)
	defer timer.Stop()
	return h.await(c, timer.C)
}

// await stops a container. It gives up waiting, not stopping, when patience ends.
func (h *handler) await(c *current, patience <-chan time.Time) error {
	if c == nil {
		return nil
	}
	if !c.live() {
		h.m.endTask(c.ID, nil)
		return nil
	}
	t := h.begin(c, false)
	select {
	case <-t.done:
		h.m.endTask(c.ID, t)
		return t.err
	case <-h.ctx.Done():
		if h.m.o.Wake == nil {
			t.cancel()
		}
		return h.ctx.Err()
	case <-patience:
		return reconcile.Blocked(engine.NewReason(replace.CodeStopping, t.words))
	}
}

// begin has a container stopped in what is left of the time of its workspace, unless that is under way.
func (h *handler) begin(c *current, drain bool) *stopTask {
	left, bounded := h.m.left(&h.r)
	h.m.mu.Lock()
	defer h.m.mu.Unlock()
	old := h.m.tasks[c.ID]
	if old != nil && !old.late(&h.r) {
		return old
	}
	grace, before := convert.StopGrace(c.Config), HookTimeout*time.Duration(len(convert.HooksOf(c.InspectResponse).PreStop))
	if old != nil { // it is to end sooner than it was asked to
		old.cancel()
		before, drain = 0, false
	}
	if bounded {
		left = max(0, left-killLead)
		grace = min(grace, left).Truncate(time.Second)
		before = min(before, left-min(grace, left/2))
		grace = min(grace, left-before).Truncate(time.Second)
		drain = drain && left > grace+drainTime
	}
	ctx := context.WithoutCancel(h.ctx)
	if h.m.o.Wake == nil {
		ctx = h.ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	t := &stopTask{done: make(chan struct{}), cancel: cancel, by: h.m.o.Clock().Add(before + grace)}
	t.words = fmt.Sprintf("container %s (%.12s) was asked to stop and has not ended; it is killed at %s", c.Name[1:], c.ID,
		h.m.o.Now().Add(before+grace).UTC().Format(time.RFC3339))
	h.m.tasks[c.ID] = t
	x := *h
	x.ctx = ctx
	h.m.stopping.Go(func() {
		defer cancel()
		t.err = x.carryStop(c, drain, before, grace)
		close(t.done)
		if h.m.o.Wake != nil {
			h.m.o.Wake(h.r.Ref)
		}
	})
	return t
}

// late reports whether a stop would end after the end of its workspace, which was moved.
func (t *stopTask) late(r *engine.Resource[Desired]) bool {
	return !r.NotAfter.IsZero() && t.by.After(r.NotAfter) && !t.over()
}

// drainTime is how long requests to a container are let end before it stops.
const drainTime = 10 * time.Second

// carryStop stops a container, after what is to be before that.
func (h *handler) carryStop(c *current, drain bool, before, grace time.Duration) error {
	if drain {
		h.drain(c)
	}
	if c.run.State == convert.Paused {
		if err := gone(h.m.o.Engine.ContainerUnpause(h.ctx, c.ID)); err != nil {
			h.m.o.Log.Warn("a container is stopped although it could not be unpaused", "workspace", h.r.Ref.ID, "container", c.ID, "error", err)
		}
	}
	h.preStop(c, before)
	began := h.m.o.Now()
	if err := gone(h.stopBy(c, grace)); err != nil {
		return err
	}
	if took := h.m.o.Now().Sub(began); took >= grace && grace > 0 {
		h.m.o.Log.Info("a container did not end when it was asked to, and was killed", "workspace", h.r.Ref.ID, "container", c.ID, "grace", grace)
	}
	// An end that was asked for is none of a crash loop.
	rec, err := h.m.loadRecord(h.ctx, c.ID)
	if err != nil || rec.Starts == 0 {
		return err
	}
	rec.Starts = 0
	return h.m.saveRecord(h.ctx, c.ID, rec)
}

// stopBy has the engine stop a container, and kill it by the end of its workspace. What came before may have taken
// longer than it was to, and the engine counts the grace from when it takes the call.
func (h *handler) stopBy(c *current, grace time.Duration) error {
	left, bounded := h.m.left(&h.r)
	if !bounded {
		return h.m.o.Engine.ContainerStop(h.ctx, c.ID, grace, "")
	}
	left = max(0, left-killLead)
	grace = min(grace, left).Truncate(time.Second)
	ctx, cancel := context.WithCancel(h.ctx)
	done := make(chan error, 1)
	go func() { done <- h.m.o.Engine.ContainerStop(ctx, c.ID, grace, "") }()
	late := time.NewTimer(left + killAgain)
	defer late.Stop()
	select {
	case err := <-done:
		cancel()
		return err
	case <-late.C:
	}
	err := h.m.o.Engine.ContainerStop(h.ctx, c.ID, 0, "")
	cancel()
	<-done
	return err
}

// endTask forgets a stop that has ended; nil is whichever there is.
func (m *Reconciler) endTask(id string, t *stopTask) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.tasks[id]; have != nil && (t == nil || have == t) {
		have.cancel()
		delete(m.tasks, id)
	}
}

// stopOf describes the stop of a container that is under way; empty without one.
func (m *Reconciler) stopOf(c *container.InspectResponse, r *engine.Resource[Desired]) (words string, by clock.Instant) {
	m.mu.Lock()
	t := m.tasks[c.ID]
	m.mu.Unlock()
	if t == nil || t.over() || t.late(r) {
		return "", 0
	}
	if m.o.Clock().Sub(t.by) > killLate {
		return t.words + ", and the container engine has not done that: see what holds it up (journalctl -u docker)", clock.FromTime(t.by)
	}
	return t.words, clock.FromTime(t.by.Add(killLate))
}

// insist has a removal that has an end be tried until the workspace is gone: what was given up would run on.
func (m *Reconciler) insist(ctx context.Context, r *engine.Resource[Desired], err error) error {
	if err == nil || !r.Delete || r.NotAfter.IsZero() || ctx.Err() != nil {
		return err
	}
	why, waits := reconcile.IsBlocked(err)
	switch {
	case waits && why.Code == replace.CodeStopping:
		return err
	case !waits:
		why = engine.NewReason(replace.CodeStays, err.Error())
	}
	m.mu.Lock()
	m.stays[r.Ref] = stay{why.Text(), m.o.Clock().Add(tryAgain)}
	m.mu.Unlock()
	return reconcile.Blocked(why)
}

// staysOf is why a workspace could not be removed.
func (m *Reconciler) staysOf(r *engine.Resource[Desired]) (words string, until clock.Instant) {
	if !r.Delete {
		return "", 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stays[r.Ref]
	if s.words == "" {
		return "", 0
	}
	return s.words, clock.FromTime(s.until)
}

// Close ends what is waited for between turns. The engine carries on what it was asked for.
func (m *Reconciler) Close() {
	m.mu.Lock()
	for _, t := range m.tasks { // order-free: all
		t.cancel()
	}
	m.mu.Unlock()
	m.stopping.Wait()
}
