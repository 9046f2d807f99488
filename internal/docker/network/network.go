// Package network keeps the networks of the engine and the routes of the host's router as
// declared. A route is set before its workspace answers: until then the router refuses
// its requests with 503.
//
// What an engine shows of a network cannot be changed in place, and older
// engines give one name to several networks. So a network is made under a lock,
// addressed by its ID, and replaced only when nothing of somebody else is on it.
package network

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Options are what the reconciler needs.
type Options struct {
	Engine *dockerapi.Engine
	Owner  convert.Owner
	// Digest stands for values that look like secrets in what is compared and
	// shown; nil takes secret.Keyed under a key of this process.
	Digest func(value string) string
	// Declared lists the names of the networks that have a row; nil finds no orphans.
	Declared func(ctx context.Context) (map[string]bool, error)
}

// Reconciler keeps networks as declared.
type Reconciler struct {
	o    Options
	turn chan struct{} // the token of the one that is being made, from its last check to the end of the call

	mu     sync.Mutex
	making map[string]bool                         // titles of networks that are being made anew
	known  map[engine.Ref]engine.Resource[Desired] // as last observed alone
}

// Replacing reports whether the network of this name is being made anew: nothing
// is to be connected to the one that goes.
func (m *Reconciler) Replacing(title string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.making[title]
}

// replacing marks the network; the result takes the mark away.
func (m *Reconciler) replacing(title string) (done func()) {
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
	_ reconcile.Reconciler[Desired, Observed] = (*Reconciler)(nil)
	_ reconcile.BulkObserver[Observed]        = (*Reconciler)(nil)
)

// Desired is what is asked of a network.
type Desired = spec.Desired[spec.Network]

// New makes the reconciler.
func New(o Options) *Reconciler {
	if o.Digest == nil {
		o.Digest = secret.Keyed([]byte(rand.Text()))
	}
	return &Reconciler{o: o, turn: make(chan struct{}, 1), making: map[string]bool{}, known: map[engine.Ref]engine.Resource[Desired]{}}
}

// Policy is the policy of networks: outside changes are cured.
func Policy() engine.Policy {
	return engine.Policy{
		Retry:      engine.RetryPolicy{Max: 5, Base: 500 * time.Millisecond, Cap: 15 * time.Second},
		ActTimeout: 3 * time.Minute, OnDrift: engine.Enforce,
		Resync: time.Minute, Revive: 5 * time.Minute, CleanupGrace: dockerapi.NoGrace, History: engine.History{Keep: 20},
	}
}
