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

// tally is what the server's log says of one release.
type tally struct {
	Release   string `json:"release"`
	Granted   int    `json:"granted"`
	Converged int    `json:"converged"`
	Reverted  int    `json:"reverted"`
	// The hosts behind the counts, in the order of the log.
	GrantedHosts   []string `json:"grantedHosts"`
	ConvergedHosts []string `json:"convergedHosts"`
	RevertedHosts  []string `json:"revertedHosts"`
	// WebAtOnce is the most web hosts that were in flight at once.
	WebAtOnce int `json:"webAtOnce"`
}

// tally reads the whole log.
func (s *stage) tally(ctx context.Context, releases []release) ([]tally, error) {
	tallies := make([]tally, len(releases))
	for i, r := range releases {
		tallies[i] = tally{Release: r.name, GrantedHosts: []string{}, ConvergedHosts: []string{}, RevertedHosts: []string{}}
	}
	flying := map[string]bool{}
	for q := (operator.EventQuery{Limit: 1000}); ; {
		page, err := s.client.Events(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("read the server's log: %w", err)
		}
		if len(page.Events) == 0 {
			return tallies, nil
		}
		for _, e := range page.Events {
			if err := count(tallies, flying, e); err != nil {
				return nil, err
			}
			q.After = e.Seq
		}
	}
}

func count(tallies []tally, flying map[string]bool, e operator.Event) error {
	ev, err := event.Decode(event.Entry{Type: e.Type, Body: e.Body})
	if err != nil {
		return err
	}
	switch v := ev.(type) {
	case event.Granted:
		if t := of(tallies, v.Rollout); t != nil && v.Purpose == machine.Forward {
			t.Granted += add(&t.GrantedHosts, e.Host)
		}
	case event.HostStepped:
		t := of(tallies, v.Rollout)
		if t == nil || v.From == v.To {
			return nil
		}
		switch v.To {
		case machine.Converged:
			t.Converged += add(&t.ConvergedHosts, e.Host)
			delete(flying, e.Host)
		case machine.Reverted:
			t.Reverted += add(&t.RevertedHosts, e.Host)
			delete(flying, e.Host)
		case machine.Activating:
			if isWeb(e.Host) {
				flying[e.Host] = true
				t.WebAtOnce = max(t.WebAtOnce, len(flying))
			}
		}
	}
	return nil
}

func add(list *[]string, host string) int {
	if slices.Contains(*list, host) {
		return 0
	}
	*list = append(*list, host)
	return 1
}

func of(tallies []tally, rollout string) *tally {
	for i := range tallies {
		if fleet.RolloutName(channel, tallies[i].Release) == rollout {
			return &tallies[i]
		}
	}
	return nil
}

func isWeb(name string) bool {
	return slices.ContainsFunc(hosts, func(h host) bool { return h.name == name && h.tags == "web" })
}

// check compares what happened with what was promised.
func (d *demo) check(tallies []tally) error {
	canary := []string{hosts[0].name}
	var broken []error
	for i, r := range releases {
		t := &tallies[i]
		if r.converges && (t.Granted != len(hosts) || t.Converged != len(hosts) || t.Reverted != 0) {
			broken = append(broken, fmt.Errorf("release %s: %d hosts granted, %d converged, %d reverted; expected %d, %d, 0", r.name, t.Granted, t.Converged, t.Reverted, len(hosts), len(hosts)))
		}
		if r.converges && len(t.GrantedHosts) > 0 && t.GrantedHosts[0] != canary[0] {
			broken = append(broken, fmt.Errorf("release %s: the first granted host was not %s: %v", r.name, canary[0], t.GrantedHosts))
		}
		if !r.converges && (!slices.Equal(t.GrantedHosts, canary) || !slices.Equal(t.RevertedHosts, canary) || t.Converged != 0) {
			broken = append(broken, fmt.Errorf("release %s was granted to %v, converged on %v and reverted on %v; expected only %s granted and reverted", r.name, t.GrantedHosts, t.ConvergedHosts, t.RevertedHosts, canary[0]))
		}
		if t.WebAtOnce > 1 {
			broken = append(broken, fmt.Errorf("release %s: %d web hosts were in flight at once; the budget allows 1", r.name, t.WebAtOnce))
		}
	}
	last := releases[len(releases)-1]
	for _, h := range hosts {
		broken = append(broken, d.onRelease(h.name, last.name, last.status))
	}
	return errors.Join(broken...)
}

// onRelease checks that a host has the files of a release.
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
