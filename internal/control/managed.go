package control

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Managed returns a host's managed layer as a wire.Managed in JSON, and the
// digest of that.
func (c *Control) Managed(ctx context.Context, p *Peer) ([]byte, digest.Digest, error) {
	var m wire.Managed
	if err := c.View(ctx, func(*plan.State) { m = layerOf(c.state.Managed.Hosts[p.Name]) }); err != nil {
		return nil, "", err
	}
	body, err := json.Marshal(m)
	return body, digest.Of(body), err
}

func layerOf(h *managed.Host) wire.Managed {
	m := wire.Managed{Entries: []wire.ManagedEntry{}}
	if h == nil {
		return m
	}
	m.Version = h.Version
	for _, r := range h.Retries {
		m.Retries = append(m.Retries, wire.Retry{Resource: r.Resource, Nonce: r.Nonce})
	}
	for _, i := range h.Items() {
		m.Entries = append(m.Entries, wire.ManagedEntry{Kind: i.Kind, Name: i.Name, Spec: i.Spec, Verb: i.Verb, Nonce: i.Nonce,
			Version: i.Version, Requested: i.Requested, NotAfter: i.NotAfter, StopFrom: i.StopFrom, Actor: i.Actor, Owner: i.Owner, Envelope: i.Envelope})
	}
	return m
}

// ManagedHost runs read on what is kept of a host's managed layer, nil when there
// is nothing, under the rules of View.
func (c *Control) ManagedHost(ctx context.Context, host string, read func(*managed.Host)) error {
	return c.View(ctx, func(*plan.State) { read(c.state.Managed.Hosts[host]) })
}

// HostState is what the folds keep of one host; each is nil when there is nothing.
type HostState struct {
	Plan    *plan.Host
	Managed *managed.Host
	Health  *health.Host
}

// HostsAtOnce bounds how many hosts one read of many hosts takes in View: the reducer serves others between two.
const HostsAtOnce = 128

// ViewHosts runs read on what is kept of each of the hosts that names returns, under the rules of View. Each host is
// as it is when it is read, some at a time.
func (c *Control) ViewHosts(ctx context.Context, names func(*plan.State) []string, read func(host string, s HostState)) error {
	var all []string
	if err := c.View(ctx, func(s *plan.State) { all = names(s) }); err != nil {
		return err
	}
	for some := range slices.Chunk(all, HostsAtOnce) {
		if err := c.View(ctx, func(s *plan.State) {
			for _, host := range some {
				read(host, c.stateOf(s, host))
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

func (c *Control) stateOf(s *plan.State, host string) HostState {
	return HostState{s.Hosts[host], c.state.Managed.Hosts[host], c.state.Health.Hosts[host]}
}

// ViewHost is ViewHosts for one host.
func (c *Control) ViewHost(ctx context.Context, host string, read func(HostState)) error {
	return c.View(ctx, func(s *plan.State) { read(c.stateOf(s, host)) })
}

// Target returns a host as the newest release declares it.
func (c *Control) Target(ctx context.Context, host string) (*managed.Target, error) {
	t := &managed.Target{Host: host}
	r, declared := c.Roster()[host]
	if !declared {
		return t, nil
	}
	t.Declared, t.Delegation = true, r.Delegation
	bundle, err := c.Bundle(ctx, r.Bundle)
	if err != nil {
		return nil, err
	}
	t.Bundle, t.BundleDigest = bundle.Containers, r.Bundle
	return t, nil
}

// Bundle reads a bundle of an accepted release.
func (c *Control) Bundle(ctx context.Context, d digest.Digest) (*fleet.Bundle, error) {
	raw, err := c.library.Blob(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("read bundle %s: %w", d.Short(), err)
	}
	b := new(fleet.Bundle)
	if err := trust.Decode(raw, trust.MaxList, b); err != nil {
		return nil, fmt.Errorf("read bundle %s: %w", d.Short(), err)
	}
	return b, nil
}

// change decides on a host's managed layer, now, and returns when that is durable. It
// reports whether anything changed.
func (c *Control) change(ctx context.Context, host string, by managed.Change, decide func(*managed.State, *managed.Target, managed.Change) ([]event.Event, error)) (bool, error) {
	target, err := c.Target(ctx, host)
	if err != nil {
		return false, err
	}
	changed := false
	err = c.record(ctx, c.urgent, host, func(s *server.State, now clock.Instant) ([]event.Event, error) {
		by.Now = now
		events, err := decide(s.Managed, target, by)
		changed = len(events) > 0
		return events, refusal(err)
	})
	return changed, err
}

// SetManaged sets a resource of a host's managed layer, and reports whether that
// changed anything.
func (c *Control) SetManaged(ctx context.Context, host string, in managed.Input, by managed.Change) (bool, error) {
	return c.change(ctx, host, by, func(s *managed.State, t *managed.Target, ch managed.Change) ([]event.Event, error) {
		return managed.Set(s, t, in, ch)
	})
}

// RemoveManaged removes a resource from a host's managed layer.
func (c *Control) RemoveManaged(ctx context.Context, host, kind, name string, allowMass bool, by managed.Change) error {
	_, err := c.change(ctx, host, by, func(s *managed.State, t *managed.Target, ch managed.Change) ([]event.Event, error) {
		return managed.Remove(s, t, kind, name, allowMass, ch)
	})
	return err
}

// RequestManaged asks once for something of a resource and returns the nonce of the
// asking.
func (c *Control) RequestManaged(ctx context.Context, host, kind, name, verb string, by managed.Change) (string, error) {
	nonce := newID()
	_, err := c.change(ctx, host, by, func(s *managed.State, t *managed.Target, ch managed.Change) ([]event.Event, error) {
		return managed.RequestVerb(s, t, kind, name, verb, nonce, ch)
	})
	return nonce, err
}

// RetryHost has a host begin anew with a resource that it gave up, or with all
// where none is named.
func (c *Control) RetryHost(ctx context.Context, host, resource, reason, actor string) error {
	nonce := newID()
	return c.record(ctx, c.urgent, host, func(s *server.State, now clock.Instant) ([]event.Event, error) {
		events, err := s.RetryHost(host, resource, nonce, managed.Change{Actor: actor, Reason: reason, Now: now})
		return events, refusal(err)
	})
}

// Tune changes a host's settings: edit is given the present ones.
func (c *Control) Tune(ctx context.Context, host string, edit func(*fleet.Settings), reason, actor string) (fleet.Settings, error) {
	var now fleet.Settings
	_, err := c.change(ctx, host, managed.Change{Actor: actor, Reason: reason}, func(s *managed.State, t *managed.Target, ch managed.Change) ([]event.Event, error) {
		now = s.SettingsOf(host)
		edit(&now)
		return managed.Tune(s, t, now, ch)
	})
	return now, err
}

func newID() string {
	raw := make([]byte, 12)
	rand.Read(raw)
	return hex.EncodeToString(raw)
}

// Version is that of this program.
func (c *Control) Version() string { return c.cfg.Version }

// Sample returns what a host last said of itself in a heartbeat since this
// process started, or nil.
func (c *Control) Sample(host string) *Sample {
	if h := c.hosts.find(host); h != nil {
		return h.sample.Load()
	}
	return nil
}

// lastSeen words when a host was heard from.
func (c *Control) lastSeen(host string) string {
	at := c.LastSeen(host)
	if at == 0 {
		return "it has not connected since the server started"
	}
	ago := c.now().Sub(at) / clock.Second
	return "it was last seen " + strconv.FormatInt(int64(ago), 10) + " s ago"
}
