package stream

import (
	"context"
	"fmt"
	"sync"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/wire"
)

// ErrBusy says that a stream was not opened; the server asks again.
var ErrBusy = fmt.Errorf("%d streams are open already", MaxStreams)

// remembered is how many streams that are over are not opened again.
const remembered = 256

// Options of a Set.
type Options struct {
	Transport Transport
	Backend   Backend
	// Allowed is what the host's signed declaration allows now.
	Allowed func() *fleet.Delegation
	// Ended hears how each stream ended, as Serve says it, and of those that were
	// not opened. It may be called by several goroutines and may be nil.
	Ended func(wire.StreamRequest, error)
}

// Set is the streams of one agent. It is safe for concurrent use.
type Set struct {
	o       Options
	ctx     context.Context
	cancel  context.CancelCauseFunc
	workers sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[string]*serving
	over   map[string]bool
	order  []string // of over, the oldest first
}

type serving struct {
	r      wire.StreamRequest
	cancel context.CancelCauseFunc
}

// NewSet returns a set without streams; Close must follow.
func NewSet(o Options) *Set {
	s := &Set{o: o, open: map[string]*serving{}, over: map[string]bool{}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// Open serves each request that is not served yet, and returns at once. It
// reports whether any was begun.
func (s *Set) Open(rs []wire.StreamRequest) bool {
	any := false
	for _, r := range rs {
		begun, err := s.begin(r)
		any = any || begun
		if err != nil && s.o.Ended != nil {
			s.o.Ended(r, err)
		}
	}
	return any
}

func (s *Set) begin(r wire.StreamRequest) (begun bool, err error) {
	if err := fleet.CheckName(r.ID); err != nil {
		return false, fmt.Errorf("%w: the stream's id: %w", ErrRefused, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open[r.ID] != nil || s.over[r.ID]:
		return false, nil
	case s.closed:
		return false, ErrStopped
	case len(s.open) >= MaxStreams:
		return false, ErrBusy
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	s.open[r.ID] = &serving{r, cancel}
	s.workers.Go(func() {
		err := Serve(ctx, s.o.Transport, r, s.o.Backend, s.o.Allowed())
		cancel(nil)
		s.end(r.ID)
		if s.o.Ended != nil {
			s.o.Ended(r, err)
		}
	})
	return true, nil
}

func (s *Set) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, id)
	s.over[id] = true
	s.order = append(s.order, id)
	if len(s.order) > remembered {
		delete(s.over, s.order[0])
		s.order = s.order[1:]
	}
}

// Len returns how many streams are open.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Narrow ends the streams that are no longer allowed; call it after what is
// allowed changed.
func (s *Set) Narrow() {
	d := s.o.Allowed()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.open {
		if err := Check(o.r, d); err != nil {
			o.cancel(err)
		}
	}
}

// Close ends every stream and waits for that.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel(ErrStopped)
	s.workers.Wait()
}
