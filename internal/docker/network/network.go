// Package network is the manager of networks of the engine.
//
// What an engine shows of a network cannot be changed in place, and older
// engines give one name to several networks. So a network is made under a lock,
// addressed by its ID, and replaced only when nothing of somebody else is on it.
package network

import (
	"context"
	"crypto/rand"
	"sync"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/clock"
	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/form"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Engine is what the manager needs of the engine.
type Engine interface {
	NetworkList(ctx context.Context, name string, labels ...string) ([]network.Summary, error)
	NetworkCreate(ctx context.Context, name string, o client.NetworkCreateOptions) (id string, warnings []string, err error)
	NetworkRemove(ctx context.Context, id string) error
	NetworkDisconnect(ctx context.Context, id, container string, force bool) error
	ContainerList(ctx context.Context, all bool, labels ...string) ([]container.Summary, error)
}

// Options are what the manager needs.
type Options struct {
	Engine Engine
	Owner  ownership.Owner
	// Lock is held from the last look to the end of a create. Two managers on one
	// engine share it; nil takes one of the manager's own.
	Lock sync.Locker
	// Digest stands for values that look like secrets in what is compared and
	// shown; nil takes form.Keyed under a key of this process.
	Digest func(value string) string
	// Declared lists the names of the networks that have a row; nil finds no orphans.
	Declared func(ctx context.Context) (map[string]bool, error)
}

// Manager keeps networks as declared.
type Manager struct {
	engine   Engine
	owner    ownership.Owner
	lock     sync.Locker
	digest   func(string) string
	declared func(ctx context.Context) (map[string]bool, error)

	mu     sync.Mutex
	making map[string]bool                         // titles of networks that are being made anew
	known  map[engine.Ref]engine.Resource[Desired] // as last observed alone
}

// Replacing reports whether the network of this name is being made anew: nothing
// is to be connected to the one that goes.
func (m *Manager) Replacing(title string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.making[title]
}

// replacing marks the network; the result takes the mark away.
func (m *Manager) replacing(title string) (done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.making[title] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.making, title)
	}
}

var (
	_ reconcile.Manager[Desired, Observed] = (*Manager)(nil)
	_ reconcile.ObserverOfAll[Observed]    = (*Manager)(nil)
)

// Desired is what is asked of a network.
type Desired = spec.Desired[spec.Network]

// New makes the manager.
func New(o Options) *Manager {
	m := &Manager{engine: o.Engine, owner: o.Owner, lock: o.Lock, digest: o.Digest, declared: o.Declared, making: map[string]bool{}, known: map[engine.Ref]engine.Resource[Desired]{}}
	if m.lock == nil {
		m.lock = &sync.Mutex{}
	}
	if m.digest == nil {
		m.digest = form.Keyed([]byte(rand.Text()))
	}
	return m
}

// Policy is the policy of networks: outside changes are cured.
func Policy() engine.Policy {
	return engine.Policy{
		Retry:      engine.RetryPolicy{Max: 5, Base: 500 * clock.Millisecond, Cap: 15 * clock.Second},
		ActTimeout: 3 * clock.Minute, OnDrift: engine.Enforce,
		Resync: clock.Minute, Revive: 5 * clock.Minute, History: engine.History{Keep: 20},
	}
}
