// Package verify follows a fleet's signed documents for one host. It fetches
// them, passes them through trust, persists what trust must remember before a
// result is used, and checks the proofs behind an ordered revert.
package verify

import (
	"context"
	"encoding/json"
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

	// Readable while a fetch is under way.
	floor   atomic.Int64
	version atomic.Uint64
	// keep names manifests that must stay pinned.
	keep atomic.Pointer[[]digest.Digest]

	mu       turn
	v        trust.Verifier
	stamp    trust.Verified[fleet.Timestamp]
	resolved trust.Verified[fleet.Resolved]
	ended    bool // a key epoch, and nothing of the next was accepted yet
	// read was verified last, or came with a dispatch: a plan is verified again and again.
	read shown
}

// shown is what the server shows of a manifest to this host.
type shown struct {
	manifest digest.Digest
	wire.HostManifest
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
	Payload []byte        // of the manifest, for Recall
	Newest  digest.Digest // the manifest that the channel rolls out by the accepted snapshot
}

// Stamp is the version of the timestamp that is at hand with its snapshot; zero for none.
// It never blocks.
func (f *Follower) Stamp() uint64 { return f.version.Load() }

// accept has a timestamp and its snapshot count from now on; the zero values are none.
func (f *Follower) accept(stamp trust.Verified[fleet.Timestamp], resolved trust.Verified[fleet.Resolved]) {
	f.stamp, f.resolved = stamp, resolved
	version := uint64(0)
	if !stamp.IsZero() {
		version = stamp.Value().Version
	}
	f.version.Store(version)
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

// Servers are the addresses of the server in the snapshot that was accepted since this
// follower began, and its version; 0 if none was.
func (f *Follower) Servers() (version uint64, list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resolved.IsZero() {
		return 0, nil
	}
	return f.resolved.Value().Version, f.resolved.Value().Servers
}

// Pin names the manifests that must stay pinned whatever comes. It never
// blocks: it is called inside a transaction, which Save may be waiting for.
func (f *Follower) Pin(ms ...digest.Digest) { f.keep.Store(&ms) }

// Refresh fetches what is newest of roots, timestamp and snapshot.
func (f *Follower) Refresh(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refresh(ctx, nil)
}

// refresh is Refresh that fetches nothing which came with a dispatch. It takes that out of
// given, which may be nil: the next time it is fetched.
func (f *Follower) refresh(ctx context.Context, given *wire.Documents) error {
	if given == nil {
		given = &wire.Documents{}
	}
	if err := f.roots(ctx, given.Root); err != nil {
		return err
	}
	given.Root = 0
	raw, err := f.fetch(ctx, wire.TrustTimestamp, &given.Timestamp)
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
		f.accept(stamp, f.resolved)
		return nil
	}
	// From here on the earlier snapshot is not the fleet's any more: without the
	// one that was just named, nothing is activated.
	f.accept(trust.Verified[fleet.Timestamp]{}, trust.Verified[fleet.Resolved]{})
	raw, err = f.fetch(ctx, wire.TrustResolved, &given.Resolved)
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
	f.accept(stamp, resolved)
	f.ended = false
	return nil
}

// roots takes the roots after the trusted one, one by one, up to newest if that is known.
func (f *Follower) roots(ctx context.Context, newest uint64) error {
	for newest == 0 || newest > f.v.RootVersion() {
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
			f.accept(trust.Verified[fleet.Timestamp]{}, trust.Verified[fleet.Resolved]{})
			f.ended = true
		}
	}
	return nil
}

// fetch takes the given document or gets it; a missing one is nil, which trust refuses by
// name.
func (f *Follower) fetch(ctx context.Context, file string, given *json.RawMessage) ([]byte, error) {
	if raw := *given; len(raw) > 0 {
		*given = nil
		return raw, nil
	}
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
	return f.OfferedPlan(ctx, rollout, manifest, nil)
}

// OfferedPlan is Plan that fetches nothing which came with the offer, if anything did.
func (f *Follower) OfferedPlan(ctx context.Context, rollout string, manifest digest.Digest, carried *wire.Documents) (Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	given := &wire.Documents{} // what is used of it is taken out
	if carried != nil {
		*given = *carried
	}
	if !f.lists(rollout, manifest) {
		if err := f.refresh(ctx, given); err != nil {
			return Plan{}, err
		}
	}
	if given.Manifest != nil {
		f.read = shown{manifest, *given.Manifest}
		given.Manifest = nil
	}
	known := f.read.manifest == manifest
	p, err := f.plan(ctx, rollout, manifest, given)
	if err != nil && known { // other keys may have signed it since
		f.read = shown{}
		p, err = f.plan(ctx, rollout, manifest, given)
	}
	return p, err
}

// plan is Plan with a snapshot at hand.
func (f *Follower) plan(ctx context.Context, rollout string, manifest digest.Digest, given *wire.Documents) (Plan, error) {
	hm, err := f.read.HostManifest, error(nil)
	if f.read.manifest != manifest {
		if hm, err = f.o.Source.Manifest(ctx, rollout); err != nil && !f.o.Missing(err) {
			return Plan{}, err
		}
	}
	m, s, err := f.v.Manifest(hm.Envelope, f.resolved)
	if trust.CodeOf(err) == trust.NotListed { // a newer snapshot may list it
		if err := f.refresh(ctx, given); err != nil {
			return Plan{}, err
		}
		m, s, err = f.v.Manifest(hm.Envelope, f.resolved)
	}
	if err != nil {
		return Plan{}, err
	}
	if header := m.Value(); m.Digest() != manifest || header.Rollout() != rollout {
		return Plan{}, &trust.Error{Code: trust.ManifestMismatch, Message: fmt.Sprintf(
			"the server offers manifest %s of %s and gave %s of %s", manifest.Short(), rollout, m.Digest().Short(), header.Rollout())}
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
	f.read = shown{manifest, hm}
	p := Plan{Host: plan, Payload: payload}
	err = f.fresh(m.Value().Channel)
	if errors.As(err, new(*trust.Error)) { // look once whether it was re-signed
		if err := f.refresh(ctx, given); err != nil {
			return Plan{}, err
		}
		err = f.fresh(m.Value().Channel)
	}
	if list := f.resolved.Value().Channels[m.Value().Channel].Manifests; len(list) > 0 {
		p.Newest = list[0].Digest
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
		if err := f.refresh(ctx, nil); err != nil {
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
