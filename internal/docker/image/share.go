package image

import (
	"context"
	"sync"
)

// sharing runs one piece of work for all who ask for it at the same time. The
// work goes on until it ends or nobody waits for it any more.
type sharing struct {
	mu      sync.Mutex
	running map[string]*shared
}

type shared struct {
	waiting int
	cancel  context.CancelCauseFunc
	done    chan struct{}
	err     error
	hear    []func(string)
}

// do joins the work of the key or begins it. hear gets the lines from now on.
func (s *sharing) do(ctx context.Context, key string, hear func(string), work func(ctx context.Context, say func(string)) error) error {
	s.mu.Lock()
	w := s.running[key]
	if w == nil {
		// The work outlives whoever began it, as long as somebody waits.
		wctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		w = &shared{cancel: cancel, done: make(chan struct{})}
		s.running[key] = w
		go func() {
			err := work(wctx, func(line string) { s.say(w, line) })
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
	w.hear = append(w.hear, hear)
	mine := len(w.hear) - 1
	s.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	w.hear[mine] = nil
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

func (s *sharing) say(w *shared, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, hear := range w.hear {
		if hear != nil {
			hear(line)
		}
	}
}
