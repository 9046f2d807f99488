package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Stepper takes the turns of a controller in its caller's goroutine, one after another: for
// simulations, whose clock is their own (WithNow) and in which one seed is one history. Acts run
// there too, and nothing happens between two calls of Step. It is not safe for concurrent use.
type Stepper struct {
	l    *Controller
	ctx  context.Context
	end  context.CancelCauseFunc
	tidy time.Time // when housekeeping is due
	kept bool      // house, before
}

// Stepper begins as Run does, and in its place. Whoever throws it away without a Stop has
// what a crash leaves.
func (l *Controller) Stepper(ctx context.Context) (*Stepper, error) {
	if !l.started.CompareAndSwap(false, true) {
		return nil, errors.New("step a controller that runs or ran: make a new one")
	}
	opened, err := l.store.Open(context.WithoutCancel(ctx))
	if err != nil {
		close(l.stopped)
		return nil, fmt.Errorf("start the reconcile loop: %w", err)
	}
	l.stepped = true
	s := &Stepper{l: l, tidy: l.cfg.now()}
	s.ctx, s.end = context.WithCancelCause(ctx)
	l.owner.open(s.ctx, opened)
	return s, nil
}

// Step takes every turn that is due, with those that they bring about, does what housekeeping
// is due, and returns when the next of either is.
func (s *Stepper) Step() (next time.Time) {
	o := s.l.owner
	if now := s.l.cfg.now(); !now.Before(s.tidy) || now.Add(housekeeping).Before(s.tidy) {
		s.l.keepHouse(s.ctx)
		if s.kept { // not at the start, which queues everything
			s.l.sweep(s.ctx)
		}
		s.tidy, s.kept = now.Add(housekeeping), true
	}
	for r := o.first(); r != nil; {
		r = o.next(r, r.do(s.ctx))
	}
	if at, ok := o.due(); ok && at.Before(s.tidy) {
		return at
	}
	return s.tidy
}

// Stop ends the controller: no turn begins any more.
func (s *Stepper) Stop() {
	s.l.owner.endTurns()
	s.end(ErrStopped)
	close(s.l.stopped)
}
