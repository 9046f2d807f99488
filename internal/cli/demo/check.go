package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	machine "github.com/steadyfleet/steady/internal/core/host"
)

// tally is what the server's log has of one release: hosts in the order of the log.
type tally struct {
	Release   string   `json:"release"`
	Granted   []string `json:"granted"`
	Converged []string `json:"converged"`
	Reverted  []string `json:"reverted"`
	// WebAtOnce is the most web hosts that were in flight at once.
	WebAtOnce int `json:"webAtOnce"`
}

// tally reads the whole log into the result.
func (s *stage) tally(ctx context.Context, releases []release) error {
	for _, r := range releases {
		s.result.Releases = append(s.result.Releases, tally{Release: r.name, Granted: []string{}, Converged: []string{}, Reverted: []string{}})
	}
	inFlight := map[string]bool{}
	for q := (operator.EventQuery{Limit: 1000}); ; {
		page, err := s.client.Events(ctx, q)
		if err != nil {
			return fmt.Errorf("read the server's log: %w", err)
		}
		if len(page.Events) == 0 {
			return nil
		}
		for _, e := range page.Events {
			if err := s.count(inFlight, e); err != nil {
				return err
			}
			q.After = e.Seq
		}
	}
}

func (s *stage) count(inFlight map[string]bool, e operator.Event) error {
	ev, err := event.DecodeBody(e.Type, e.Body)
	if err != nil {
		return err
	}
	host := e.Subject.Host()
	switch v := ev.(type) {
	case event.Granted:
		if t := s.of(v.Rollout); t != nil && v.Purpose == machine.Update {
			add(&t.Granted, host)
		}
	case event.HostStepped:
		t := s.of(v.Rollout)
		if t == nil || v.From == v.To {
			return nil
		}
		switch v.To {
		case machine.Converged:
			add(&t.Converged, host)
			delete(inFlight, host)
		case machine.Reverted:
			add(&t.Reverted, host)
			delete(inFlight, host)
		case machine.Activating:
			if isWeb(host) {
				inFlight[host] = true
				t.WebAtOnce = max(t.WebAtOnce, len(inFlight))
			}
		}
	}
	return nil
}

func add(list *[]string, host string) {
	if !slices.Contains(*list, host) {
		*list = append(*list, host)
	}
}

func (s *stage) of(rollout string) *tally {
	for i := range s.result.Releases {
		if fleet.RolloutName(channel, s.result.Releases[i].Release) == rollout {
			return &s.result.Releases[i]
		}
	}
	return nil
}

// moved compares what the log has of each release with what was promised: a good one
// converges on every host, the canary, which is the first of them, before all others;
// a bad one is granted to the canary alone, which goes back.
func (s *stage) moved(releases []release, hosts []string) error {
	var broken []error
	for i, r := range releases {
		t := &s.result.Releases[i]
		granted, converged, reverted := hosts, hosts, hosts[:0]
		if !r.converges {
			granted, converged, reverted = hosts[:1], hosts[:0], hosts[:1]
		}
		if !same(t.Granted, granted) || t.Granted[0] != hosts[0] || !same(t.Converged, converged) || !same(t.Reverted, reverted) {
			broken = append(broken, fmt.Errorf("release %s was granted to %v, converged on %v and reverted on %v; expected %v, %v and %v",
				r.name, t.Granted, t.Converged, t.Reverted, granted, converged, reverted))
		}
	}
	return errors.Join(broken...)
}

func same(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

func isWeb(name string) bool {
	return slices.ContainsFunc(hosts, func(h host) bool { return h.name == name && h.tags == "web" })
}

// check compares what happened with what was promised.
func (d *demo) check() error {
	broken := []error{d.moved(releases, names())}
	for _, t := range d.result.Releases {
		if t.WebAtOnce > 1 {
			broken = append(broken, fmt.Errorf("release %s: %d web hosts were in flight at once; the budget allows 1", t.Release, t.WebAtOnce))
		}
	}
	last := releases[len(releases)-1]
	for _, h := range hosts {
		broken = append(broken, d.onRelease(h.name, last.name, last.status))
	}
	return errors.Join(broken...)
}

func (d *demo) onRelease(host, release, status string) error {
	path := filepath.Join(d.root(host), "www", "healthz")
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s should run %s: %w", host, release, err)
	}
	if string(raw) != healthz(release, status) {
		return fmt.Errorf("%s should run %s, but %s holds %q", host, release, path, raw)
	}
	return nil
}
