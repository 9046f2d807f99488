package control

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/server"
)

// pulse is how often the process looks whether it still runs, and stall how much later than
// that it has to look for hosts to have been refused meanwhile.
const (
	pulse = time.Second
	stall = 3 * time.Second
)

// serving knows since when the server has served without a gap, and why it had not before.
// What hosts could not report in a gap is not held against them.
type serving struct {
	mu      sync.Mutex
	since   time.Time
	looked  time.Time
	pending string // why, for the log; empty once it is there
}

// look finds out whether the process stood still since it looked last, as one that was stopped
// or whose machine slept: by the wall clock too, for the other one may sleep with the machine.
func (s *serving) look(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gap := max(now.Sub(s.looked), now.Round(0).Sub(s.looked.Round(0)))
	s.looked = now
	if gap > pulse+stall {
		s.since, s.pending = now, fmt.Sprintf("its process stood still for %s", gap.Round(time.Second))
	}
}

// away notes that nothing was served up to now.
func (s *serving) away(now time.Time, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since, s.looked, s.pending = now, now, why
}

// take returns why hosts could not report, once.
func (s *serving) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	why := s.pending
	s.pending = ""
	return why
}

// Served is how long the server has served without a gap.
func (c *Control) Served() time.Duration {
	now := time.Now()
	c.serving.look(now)
	c.serving.mu.Lock()
	defer c.serving.mu.Unlock()
	return now.Sub(c.serving.since)
}

// watchPulse looks even while no request comes.
func (c *Control) watchPulse(ctx context.Context) {
	t := time.NewTicker(pulse)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			c.serving.look(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// resume has it logged that the server serves again, before anything that hosts report then.
func (c *Control) resume(t *turn) error {
	c.serving.look(time.Now())
	why := c.serving.take()
	if why == "" {
		return nil
	}
	err := c.core.Step(&t.Turn, server.Resumed{Reason: why})
	if server.Refused(err) {
		return nil // everything is refused while the log is set back
	}
	return err
}
