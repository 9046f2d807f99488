package image

import (
	"context"
	"sync"
)

// flights runs one piece of work for all who ask for it at the same time. The
// work goes on until it ends or nobody waits for it any more.
type flights struct {
	mu      sync.Mutex
	running map[string]*flight
}

type flight struct {
	waiting   int
	cancel    context.CancelCauseFunc
	done      chan struct{}
	err       error
	listeners []func(string)
}

// do joins the work of the key or begins it. handle gets the lines from now on.
func (s *flights) do(ctx context.Context, key string, listen func(string), work func(ctx context.Context, emit func(string)) error) error {
	s.mu.Lock()
	w := s.running[key]
	if w == nil {
		// The work outlives whoever began it, as long as somebody waits.
		wctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		w = &flight{cancel: cancel, done: make(chan struct{})}
		s.running[key] = w
		go func() {
			err := work(wctx, func(line string) { s.publish(w, line) })
			cancel(nil)
			s.mu.Lock()
			if s.running[key] == w {
				delete(s.running, key)
			}
			w.err = err
			s.mu.Unlock()
			close(w.done)
		}()
	}
	w.waiting++
	w.listeners = append(w.listeners, listen)
	mine := len(w.listeners) - 1
	s.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	w.listeners[mine] = nil
	w.waiting--
	last := w.waiting == 0
	if last && s.running[key] == w {
		delete(s.running, key) // the next one begins anew
	}
	s.mu.Unlock()
	if last {
		w.cancel(context.Cause(ctx))
		<-w.done
	}
	return context.Cause(ctx)
}

func (s *flights) publish(w *flight, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, listen := range w.listeners {
		if listen != nil {
			listen(line)
		}
	}
}
