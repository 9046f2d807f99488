// Package volume is the manager of named volumes.
//
// Data is never removed but where the signed declaration allows it. What an
// engine keeps of a volume cannot be changed, and creating one that exists
// changes nothing either: a difference is reported and left to people.
package volume

import (
	"context"
	"crypto/rand"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/clock"
	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/form"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Engine is what the manager needs of the engine.
type Engine interface {
	VolumeList(ctx context.Context, labels ...string) ([]volume.Volume, error)
	VolumeInspect(ctx context.Context, name string) (volume.Volume, error)
	VolumeCreate(ctx context.Context, o client.VolumeCreateOptions) (volume.Volume, error)
	VolumeRemove(ctx context.Context, name string) error
	ContainerList(ctx context.Context, all bool, labels ...string) ([]container.Summary, error)
}

// Options are what the manager needs.
type Options struct {
	Engine Engine
	Owner  ownership.Owner
	// AllowDelete says whether the signed declaration lets volumes go with their
	// data; nil never does.
	AllowDelete func() bool
	// Digest stands for values that look like secrets in what is compared and
	// shown; nil takes form.Keyed under a key of this process.
	Digest func(value string) string
	// Declared lists the names of the volumes that have a row; nil finds no orphans.
	Declared func(ctx context.Context) (map[string]bool, error)
}

// Manager keeps volumes as declared.
type Manager struct {
	engine   Engine
	owner    ownership.Owner
	allow    func() bool
	digest   func(string) string
	declared func(ctx context.Context) (map[string]bool, error)
}

// Desired is what is asked of a volume.
type Desired = spec.Desired[spec.Volume]

// New makes the manager.
func New(o Options) *Manager {
	m := &Manager{engine: o.Engine, owner: o.Owner, allow: o.AllowDelete, digest: o.Digest, declared: o.Declared}
	if m.allow == nil {
		m.allow = func() bool { return false }
	}
	if m.digest == nil {
		m.digest = form.Keyed([]byte(rand.Text()))
	}
	return m
}

// Policy is the policy of volumes: what is gone is made again.
func Policy() engine.Policy {
	return engine.Policy{
		Retry:      engine.RetryPolicy{Max: 5, Base: 500 * clock.Millisecond, Cap: 15 * clock.Second},
		ActTimeout: 12 * clock.Minute, OnDrift: engine.Enforce,
		Resync: clock.Minute, Revive: 5 * clock.Minute, History: engine.History{Keep: 20},
	}
}
