package fleet

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Settings are what an operator may tune of a host whose signed declaration
// allows it; zero and nil leave the default.
type Settings struct {
	HeartbeatInterval clock.Duration `json:"heartbeatInterval,omitempty"`
	ResyncInterval    clock.Duration `json:"resyncInterval,omitempty"`
	// Enabled set to false stops the host's workspaces.
	Enabled *bool         `json:"enabled,omitempty"`
	Pools   Pools         `json:"pools"`
	Metrics MetricsChoice `json:"metrics"`
}

// Pools bounds how much a host does at once.
type Pools struct {
	Builds int `json:"builds,omitempty"`
	Pulls  int `json:"pulls,omitempty"`
	Starts int `json:"starts,omitempty"`
}

// MetricsChoice turns what a host measures on and off.
type MetricsChoice struct {
	Host       *bool `json:"host,omitempty"`
	GPU        *bool `json:"gpu,omitempty"`
	Workspaces *bool `json:"workspaces,omitempty"`
}

// Bounds of settings, whoever sets them.
const (
	MinHeartbeat = 5 * clock.Second
	MaxHeartbeat = 10 * clock.Minute
	MinResync    = 1 * clock.Second
	MaxResync    = 1 * clock.Hour
	MaxPool      = 64
)

// Check refuses settings out of bounds. An agent checks what it gets, a server
// what it is asked for.
func (s *Settings) Check() error {
	for _, d := range []struct {
		name     string
		is       clock.Duration
		min, max clock.Duration
	}{
		{"heartbeatInterval", s.HeartbeatInterval, MinHeartbeat, MaxHeartbeat},
		{"resyncInterval", s.ResyncInterval, MinResync, MaxResync},
	} {
		if d.is != 0 && (d.is < d.min || d.is > d.max) {
			return fmt.Errorf("%s is %s: expected %s to %s, or 0 for the default", d.name, d.is, d.min, d.max)
		}
	}
	for _, p := range []struct {
		name string
		is   int
	}{{"builds", s.Pools.Builds}, {"pulls", s.Pools.Pulls}, {"starts", s.Pools.Starts}} {
		if p.is < 0 || p.is > MaxPool {
			return fmt.Errorf("pools.%s is %d: expected 1 to %d, or 0 for the default", p.name, p.is, MaxPool)
		}
	}
	return nil
}

// Disabled reports whether the host is to stop its workspaces.
func (s *Settings) Disabled() bool { return s.Enabled != nil && !*s.Enabled }

// OnlyEnabled reports whether two settings differ in Enabled at most: the right
// to disable a host is not the right to tune it.
func (s *Settings) OnlyEnabled(other *Settings) bool {
	return s.HeartbeatInterval == other.HeartbeatInterval && s.ResyncInterval == other.ResyncInterval && s.Pools == other.Pools &&
		same(s.Metrics.Host, other.Metrics.Host) && same(s.Metrics.GPU, other.Metrics.GPU) && same(s.Metrics.Workspaces, other.Metrics.Workspaces)
}

func same(a, b *bool) bool { return a == b || a != nil && b != nil && *a == *b }
