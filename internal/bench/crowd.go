package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/host"
)

// crowd is every simulated agent of a run, what they count together, and who of
// them is where.
type crowd struct {
	bootID string
	agents []*agent
	group  sync.WaitGroup
	stop   context.CancelCauseFunc

	traffic  traffic
	requests atomic.Int64 // made, failed ones too
	failures atomic.Int64 // of requests, and other errors that an agent goes on from
	declined atomic.Int64 // grants
	refused  atomic.Int64 // claims
	repeated atomic.Int64 // dispatches that offered the same again at once

	mu    sync.Mutex
	round *round
	half  func()   // called once when half of the hosts are there, if not nil
	notes []string // the first few errors
}

// maxNotes bounds the errors that are kept in words.
const maxNotes = 8

// round is one change on its way through the fleet.
type round struct {
	manifest digest.Digest
	began    time.Time
	at       map[string]time.Duration // when each host had converged
	want     int
	done     chan struct{}
}

// start runs every agent until ctx ends.
func (c *crowd) start(ctx context.Context) {
	for _, a := range c.agents {
		c.group.Go(func() { a.run(ctx) })
	}
}

// fail ends the run: the benchmark's fleet has no host that may fail.
func (c *crowd) fail(name string, err error) {
	c.stop(fmt.Errorf("host %s: %w", name, err))
}

// note counts an error that an agent goes on from.
func (c *crowd) note(name string, err error) {
	c.failures.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.notes) < maxNotes {
		c.notes = append(c.notes, name+": "+err.Error())
	}
}

// noted returns the first errors in words.
func (c *crowd) noted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.notes)
}

// expect begins a round: it must be called before the manifest is pushed.
func (c *crowd) expect(manifest digest.Digest) *round {
	r := &round{manifest: manifest, began: time.Now(), at: map[string]time.Duration{}, want: len(c.agents), done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round = r
	return r
}

// reached says that a host has converged.
func (c *crowd) reached(name string, manifest digest.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.round
	if r == nil || r.manifest != manifest {
		return
	}
	if _, again := r.at[name]; again {
		return
	}
	r.at[name] = time.Since(r.began)
	if half := c.half; half != nil && 2*len(r.at) >= r.want {
		c.half = nil
		half()
	}
	if len(r.at) == r.want {
		close(r.done)
	}
}

// arrivals returns when the hosts had converged, in order.
func (c *crowd) arrivals(r *round) []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]time.Duration, 0, len(r.at))
	for _, d := range r.at {
		out = append(out, d)
	}
	slices.Sort(out)
	return out
}

// await waits until every host has converged in a round.
func (c *crowd) await(ctx context.Context, r *round, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return c.late(r, limit)
	}
}

// late says which hosts are not there and where they stand.
func (c *crowd) late(r *round, limit time.Duration) error {
	var there []string
	c.mu.Lock()
	count := len(r.at)
	for _, a := range c.agents {
		if _, ok := r.at[a.name]; ok || len(there) == 5 {
			continue
		}
		where := "not started"
		if s := a.seen.Load(); s != nil {
			where = strings.TrimSpace(string(s.phase) + " " + s.rollout + " " + s.detail)
		}
		there = append(there, a.name+" is "+where)
	}
	c.mu.Unlock()
	err := fmt.Errorf("%d of %d hosts have converged after %s; %s", count, r.want, limit, strings.Join(there, "; "))
	if notes := c.noted(); len(notes) > 0 {
		err = fmt.Errorf("%w; the first errors: %s", err, strings.Join(notes, "; "))
	}
	return err
}

// waiting returns the name of a host that has not converged in a round.
func (c *crowd) waiting(r *round) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.agents {
		if _, ok := r.at[a.name]; !ok {
			return a.name
		}
	}
	return ""
}

// converged reports whether every agent's own machine stands converged.
func (c *crowd) converged() error {
	for _, a := range c.agents {
		if s := a.seen.Load(); s == nil || s.phase != host.Converged {
			return errors.New("host " + a.name + " has left the converged state")
		}
	}
	return nil
}
