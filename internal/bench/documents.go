package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/agent/verify"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// documents follows the fleet's signed documents for one host. Both kinds send
// the same requests. plan and bundle are called by one goroutine at a time per
// grant; a host works on one grant at a time.
type documents interface {
	plan(ctx context.Context, rollout string, manifest digest.Digest, given *wire.Documents) (fleet.HostPlan, error)
	// has is the version of the timestamp at hand.
	has() uint64
	// bundle reads the bundle of the newest plan.
	bundle(raw []byte) (fleet.Bundle, error)
	fresh(channel string) error
}

// source counts the requests of a client.
type source struct {
	*uplink.Client
	requests *atomic.Int64
}

func (s source) Trust(ctx context.Context, file string) ([]byte, error) {
	s.requests.Add(1)
	return s.Client.Trust(ctx, file)
}

func (s source) Manifest(ctx context.Context, rollout string) (wire.HostManifest, error) {
	s.requests.Add(1)
	return s.Client.Manifest(ctx, rollout)
}

func (s source) Bundle(ctx context.Context, d digest.Digest) ([]byte, error) {
	s.requests.Add(1)
	return s.Client.Bundle(ctx, d)
}

func (s source) Blob(ctx context.Context, d digest.Digest, size int64, w io.Writer) error {
	s.requests.Add(1)
	return s.Client.Blob(ctx, d, size, w)
}

func missing(err error) bool { return uplink.StatusOf(err) == 404 }

// verified checks every signature, with the code of a real agent.
type verified struct {
	f    *verify.Follower
	last atomic.Pointer[verify.Plan]
}

func newVerified(fleetName, host string, s source, begin trust.State) (*verified, error) {
	f, err := verify.New(verify.Options{
		Fleet: fleetName, Host: host, Source: s, Missing: missing,
		Save: func(context.Context, trust.State) error { return nil }, // the disk is simulated
		Wall: func() clock.Instant { return clock.FromTime(time.Now()) },
	}, begin)
	return &verified{f: f}, err
}

func (v *verified) has() uint64 { return v.f.Stamp() }

func (v *verified) plan(ctx context.Context, rollout string, manifest digest.Digest, given *wire.Documents) (fleet.HostPlan, error) {
	p, err := v.f.OfferedPlan(ctx, rollout, manifest, given)
	if err != nil {
		return fleet.HostPlan{}, err
	}
	v.last.Store(&p)
	return p.Host.Value(), nil
}

func (v *verified) bundle(raw []byte) (fleet.Bundle, error) {
	p := v.last.Load()
	if p == nil {
		return fleet.Bundle{}, errors.New("a bundle came before its plan")
	}
	b, err := v.f.Bundle(p.Host, raw)
	if err != nil {
		return fleet.Bundle{}, err
	}
	return b.Value(), nil
}

func (v *verified) fresh(channel string) error { return v.f.Fresh(channel) }

// believing reads the same documents without checking a signature, so that a
// benchmark measures the server rather than thousands of agents on its machine.
type believing struct {
	host   string
	source verify.Source
	root   uint64

	mu       sync.Mutex
	stamp    fleet.Timestamp
	resolved fleet.Resolved
	digest   digest.Digest // of resolved
	read     digest.Digest // the manifest that was read last
	shown    wire.HostManifest
}

func payload(raw []byte) ([]byte, error) {
	e, err := trust.ParseEnvelope(raw)
	return e.Payload, err
}

func (b *believing) has() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stamp.Version
}

func (b *believing) plan(ctx context.Context, rollout string, manifest digest.Digest, given *wire.Documents) (none fleet.HostPlan, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if given == nil {
		given = &wire.Documents{}
	}
	if !b.lists(rollout, manifest) {
		if err := b.refresh(ctx, given); err != nil {
			return none, err
		}
	}
	if given.Manifest != nil {
		b.read, b.shown = manifest, *given.Manifest
	}
	if b.read != manifest {
		if b.shown, err = b.source.Manifest(ctx, rollout); err != nil {
			return none, err
		}
		b.read = manifest
	}
	hm := &b.shown
	raw, err := payload(hm.Envelope)
	if err != nil {
		return none, fmt.Errorf("manifest of %s: %w", rollout, err)
	}
	if got := digest.Of(raw); got != manifest || !b.lists(rollout, manifest) {
		return none, fmt.Errorf("manifest %s of %s was offered, the server gave %s and the snapshot lists it: %t",
			manifest.Short(), rollout, got.Short(), b.lists(rollout, manifest))
	}
	m, err := decode[fleet.Manifest](raw)
	if err != nil {
		return none, fmt.Errorf("manifest of %s: %w", rollout, err)
	}
	leaf, err := decode[fleet.Leaf](hm.Leaf.Leaf)
	if err != nil {
		return none, fmt.Errorf("leaf of %s: %w", rollout, err)
	}
	if leaf.Host != b.host || leaf.Wave < 0 || leaf.Wave >= len(m.Waves) || len(leaf.Probes) > 0 {
		return none, fmt.Errorf("the leaf of %s is not the one of host %s", rollout, b.host)
	}
	return fleet.HostPlanOf(&m, manifest, &leaf), nil
}

func (b *believing) lists(rollout string, manifest digest.Digest) bool {
	for _, c := range b.resolved.Channels {
		for _, m := range c.Manifests {
			if m.Rollout == rollout && m.Digest == manifest {
				return true
			}
		}
	}
	return false
}

// refresh asks for the next root, which there is none of, the timestamp, and
// the snapshot if it is another one; but for what is given.
func (b *believing) refresh(ctx context.Context, given *wire.Documents) error {
	if given.Root != b.root {
		next := strconv.FormatUint(b.root+1, 10) + ".root.json"
		if _, err := b.source.Trust(ctx, next); !missing(err) {
			return fmt.Errorf("%s: expected that there is none: %v", next, err)
		}
	}
	raw, err := b.document(ctx, wire.TrustTimestamp, given.Timestamp)
	if err != nil {
		return err
	}
	if b.stamp, err = decode[fleet.Timestamp](raw); err != nil || b.stamp.Resolved == b.digest {
		return err
	}
	if raw, err = b.document(ctx, wire.TrustResolved, given.Resolved); err != nil {
		return err
	}
	if b.digest = digest.Of(raw); b.digest != b.stamp.Resolved {
		return fmt.Errorf("the snapshot is %s and the timestamp names %s", b.digest.Short(), b.stamp.Resolved.Short())
	}
	b.resolved, err = decode[fleet.Resolved](raw)
	return err
}

func (b *believing) document(ctx context.Context, file string, given []byte) ([]byte, error) {
	if given != nil {
		return payload(given)
	}
	raw, err := b.source.Trust(ctx, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return payload(raw)
}

func (b *believing) bundle(raw []byte) (fleet.Bundle, error) { return decode[fleet.Bundle](raw) }

func (b *believing) fresh(channel string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	window := b.resolved.Channels[channel].FreshnessWindow
	if end := b.stamp.IssuedAt.Add(window); end.Reached(now()) {
		return fmt.Errorf("the timestamp of channel %s went stale at %s", channel, end)
	}
	return nil
}
