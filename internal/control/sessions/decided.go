package sessions

import (
	"context"
	"sync"

	"github.com/steadyfleet/steady/internal/core/session"
)

// Decided is a session once it is known of each of its pods that waits for no gate where it is to run, or why it
// waits; or as it is when ctx ends.
func (r *Runner) Decided(ctx context.Context, name string) (session.Status, error) {
	for {
		changed := r.news.next()
		st, err := r.Show(context.WithoutCancel(ctx), name)
		if err != nil || st.Decided() {
			return st, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return st, nil
		}
	}
}

// news wakes those who wait for the next commit.
type news struct {
	mu sync.Mutex
	c  chan struct{} // nil while there are none
}

// next is closed by the next commit.
func (n *news) next() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.c == nil {
		n.c = make(chan struct{})
	}
	return n.c
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.c != nil {
		close(n.c)
		n.c = nil
	}
}
