// Package verify follows a fleet's signed documents for one host. It fetches
// them, passes them through trust, persists what trust must remember before a
// result is used, and checks the proofs behind an ordered revert.
package verify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Source fetches documents; nothing of it is believed.
type Source interface {
	Trust(ctx context.Context, file string) ([]byte, error)
	Manifest(ctx context.Context, rollout string) (wire.HostManifest, error)
}

// Options of New.
type Options struct {
	Fleet, Host string
	Source      Source
	// Missing reports that an error of Source says "there is no such document".
	Missing func(error) bool
	// Save makes a state durable.
	Save func(ctx context.Context, s trust.State) error
	Wall func() clock.Instant
	// Memory is shared by followers that one goroutine runs; nil gives it one of its own.
	Memory *trust.Memory
}

// Follower is safe for concurrent use; it does one thing at a time.
type Follower struct {
	o Options

	floor atomic.Int64 // readable while a fetch is under way
	// keep names manifests that must stay pinned.
	keep atomic.Pointer[[]digest.Digest]

	mu       turn
	v        trust.Verifier
	stamp    trust.Verified[fleet.Timestamp]
	resolved trust.Verified[fleet.Resolved]
	ended    bool // a key epoch, and nothing of the next was accepted yet
}

// turn is a lock of one thing at a time, which may be a fetch and last. It is no
// mutex, so that who waits for it waits as for the network: the clock of a bubble of
// package synctest goes on meanwhile.
type turn chan struct{}

func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

// maxPins bounds the manifests that are remembered by name.
const maxPins = 64

// New makes a follower that goes on from a persisted state.
func New(o Options, s trust.State) (*Follower, error) {
	if o.Memory == nil {
		o.Memory = &trust.Memory{} // a plan is checked as it is offered and again at its claim
	}
	v, err := o.Memory.NewVerifier(o.Fleet, s)
	if err != nil {
		return nil, err
	}
	f := &Follower{o: o, v: v, mu: make(turn, 1)}
	f.floor.Store(int64(s.Floor))
	return f, nil
}

// Plan is what a host may do under one manifest.
type Plan struct {
	Host    trust.Verified[fleet.HostPlan]
	Payload []byte // of the manifest, for Recall
}

// Floor returns the latest signed time seen; wall time is never earlier. It
// never blocks: a TLS handshake inside a fetch asks for it.
func (f *Follower) Floor() clock.Instant { return clock.Instant(f.floor.Load()) }

// Behind reports whether a newer root, or a newer timestamp than the accepted one,
// is said to exist.
func (f *Follower) Behind(root, version uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case root > f.v.RootVersion():
		return true
	case f.stamp.IsZero():
		return f.ended && version > 0
	}
	return version > f.stamp.Value().Version
}

// Pin names the manifests that must stay pinned whatever comes. It never
// blocks: it is called inside a transaction, which Save may be waiting for.
func (f *Follower) Pin(ms ...digest.Digest) { f.keep.Store(&ms) }

// Refresh fetches what is newest of roots, timestamp and snapshot.
func (f *Follower) Refresh(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refresh(ctx)
}

func (f *Follower) refresh(ctx context.Context) error {
	if err := f.roots(ctx); err != nil {
		return err
	}
	raw, err := f.fetch(ctx, wire.TrustTimestamp)
	if err != nil {
		return err
	}
	stamp, s, err := f.v.Timestamp(raw, f.o.Wall())
	if err != nil {
		return err
	}
	if err := f.adopt(ctx, s); err != nil {
		return err
	}
	if !f.resolved.IsZero() && f.resolved.Digest() == stamp.Value().Resolved {
		f.stamp = stamp
		return nil
	}
	// From here on the earlier snapshot is not the fleet's any more: without the
	// one that was just named, nothing is activated.
	f.stamp, f.resolved = trust.Verified[fleet.Timestamp]{}, trust.Verified[fleet.Resolved]{}
	raw, err = f.fetch(ctx, wire.TrustResolved)
	if err != nil {
		return err
	}
	resolved, s, err := f.v.Resolved(raw, stamp)
	if err != nil {
		return err
	}
	if err := f.adopt(ctx, s); err != nil {
		return err
	}
	f.stamp, f.resolved, f.ended = stamp, resolved, false
	return nil
}

// roots takes the roots after the trusted one, one by one.
func (f *Follower) roots(ctx context.Context) error {
	for {
		raw, err := f.o.Source.Trust(ctx, strconv.FormatUint(f.v.RootVersion()+1, 10)+".root.json")
		if err != nil {
			if f.o.Missing(err) {
				return nil
			}
			return err
		}
		s, err := f.v.Root(raw)
		if err != nil {
			return err
		}
		epoch := f.v.Epoch()
		if err := f.adopt(ctx, s); err != nil {
			return err
		}
		if f.v.Epoch() != epoch { // what was signed before has ended
			f.stamp, f.resolved, f.ended = trust.Verified[fleet.Timestamp]{}, trust.Verified[fleet.Resolved]{}, true
		}
	}
}

// fetch gets a document; a missing one is nil, which trust refuses by name.
func (f *Follower) fetch(ctx context.Context, file string) ([]byte, error) {
	raw, err := f.o.Source.Trust(ctx, file)
	if err != nil && f.o.Missing(err) {
		return nil, nil
	}
	return raw, err
}

// adopt persists a state, then goes on from it.
func (f *Follower) adopt(ctx context.Context, s trust.State) error {
	var keep []digest.Digest
	if held := f.keep.Load(); held != nil {
		keep = *held
	}
	if !f.resolved.IsZero() {
		for _, c := range f.resolved.Value().Channels {
			for _, m := range c.Manifests {
				keep = append(keep[:len(keep):len(keep)], m.Digest)
			}
		}
	}
	if len(s.Pins) > maxPins {
		s = s.Prune(maxPins, keep...)
	}
	v, err := f.v.With(s)
	if err != nil {
		return err
	}
	if err := f.o.Save(context.WithoutCancel(ctx), s); err != nil {
		return &StoreError{err}
	}
	f.v = v
	f.floor.Store(int64(s.Floor))
	return nil
}

// StoreError is a failure to persist; the process must end.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return "persist the state of trust: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// Plan verifies what this host may do in a rollout, down from the newest
// documents. manifest is the server's word for which one it means. The plan is
// fresh: a stale timestamp is refused.
func (f *Follower) Plan(ctx context.Context, rollout string, manifest digest.Digest) (Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.lists(rollout, manifest) {
		if err := f.refresh(ctx); err != nil {
			return Plan{}, err
		}
	}
	hm, err := f.o.Source.Manifest(ctx, rollout)
	if err != nil && !f.o.Missing(err) {
		return Plan{}, err
	}
	m, s, err := f.v.Manifest(hm.Envelope, f.resolved)
	if trust.CodeOf(err) == trust.NotListed { // a newer snapshot may list it
		if err := f.refresh(ctx); err != nil {
			return Plan{}, err
		}
		m, s, err = f.v.Manifest(hm.Envelope, f.resolved)
	}
	if err != nil {
		return Plan{}, err
	}
	if m.Digest() != manifest {
		return Plan{}, &trust.Error{Code: trust.ManifestMismatch, Message: fmt.Sprintf(
			"the server offers manifest %s of %s and gave %s", manifest.Short(), rollout, m.Digest().Short())}
	}
	if err := f.adopt(ctx, s); err != nil {
		return Plan{}, err
	}
	plan, err := f.v.HostPlan(m, hm.Leaf.Leaf, trust.Proof{Index: uint64(hm.Leaf.Index), Hashes: hm.Leaf.Proof}, f.o.Host)
	if err != nil {
		return Plan{}, err
	}
	payload, err := trust.Payload(m, hm.Envelope)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Host: plan, Payload: payload}
	err = f.fresh(m.Value().Channel)
	if errors.As(err, new(*trust.Error)) { // look once whether it was re-signed
		if err := f.refresh(ctx); err != nil {
			return Plan{}, err
		}
		err = f.fresh(m.Value().Channel)
	}
	return p, err
}

// Newest reads what the newest manifest of a channel plans for this host. It is
// pinned by nothing and nothing may be activated on it: a rollout of it may never
// come.
func (f *Follower) Newest(ctx context.Context, channel string) (trust.Verified[fleet.HostPlan], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var none trust.Verified[fleet.HostPlan]
	if f.resolved.IsZero() {
		if err := f.refresh(ctx); err != nil {
			return none, err
		}
	}
	list := f.resolved.Value().Channels[channel].Manifests
	if len(list) == 0 {
		return none, &trust.Error{Code: trust.ManifestMissing, Message: "channel " + channel + " has no manifest"}
	}
	hm, err := f.o.Source.Manifest(ctx, list[0].Rollout)
	if err != nil {
		return none, err
	}
	m, _, err := f.v.Manifest(hm.Envelope, f.resolved)
	if err != nil {
		return none, err
	}
	if m.Digest() != list[0].Digest {
		return none, &trust.Error{Code: trust.ManifestMismatch, Message: fmt.Sprintf(
			"the newest manifest of channel %s is %s, and the server gave %s", channel, list[0].Digest.Short(), m.Digest().Short())}
	}
	return f.v.HostPlan(m, hm.Leaf.Leaf, trust.Proof{Index: uint64(hm.Leaf.Index), Hashes: hm.Leaf.Proof}, f.o.Host)
}

// Entry checks an entry of the managed layer that an operator signed for this
// host.
func (f *Follower) Entry(env []byte) (trust.Verified[fleet.ManagedEntry], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.v.ManagedEntry(env, f.o.Host)
}

// Override checks an operator's signed override, as of now.
func (f *Follower) Override(env []byte) (trust.Verified[fleet.Override], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.v.Override(env, f.o.Wall())
}

// Epoch is the key epoch of the trusted root.
func (f *Follower) Epoch() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.v.Epoch()
}

// lists reports whether the snapshot at hand names the manifest.
func (f *Follower) lists(rollout string, manifest digest.Digest) bool {
	if f.resolved.IsZero() {
		return false
	}
	for _, c := range f.resolved.Value().Channels {
		for _, m := range c.Manifests {
			if m.Rollout == rollout && m.Digest == manifest {
				return true
			}
		}
	}
	return false
}

// Fresh refuses when the newest accepted timestamp is too old for a channel to
// activate anything.
func (f *Follower) Fresh(channel string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fresh(channel)
}

func (f *Follower) fresh(channel string) error {
	if f.resolved.IsZero() {
		return &trust.Error{Code: trust.Stale, Message: "no snapshot was verified since the agent started"}
	}
	return f.v.Fresh(f.stamp, f.resolved.Value().Channels[channel].FreshnessWindow, f.o.Wall())
}

// Bundle checks a bundle against the plan that names it.
func (f *Follower) Bundle(p trust.Verified[fleet.HostPlan], raw []byte) (trust.Verified[fleet.Bundle], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.v.Bundle(p, raw)
}
