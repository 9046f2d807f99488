package documents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Outcomes of a push that verified.
const (
	Accepted  = "accepted"
	Refreshed = "refreshed" // a newer timestamp alone
	Unchanged = "unchanged"
)

// Release is a pushed release that verified to its last byte.
type Release struct {
	Version uint64
	Ref     string
	Outcome string

	verified *release.Verified
	names    map[string]digest.Digest // of the blobs that are found by name
	trusted  uint64                   // version of the root before it
}

// VerifyRelease verifies a release folder against what is trusted now, and its base by
// the rule. The folder must not change before Keep has returned.
func VerifyRelease(dir string, now *View, rule Follows, at clock.Instant) (*Release, error) {
	v, err := release.VerifyDir(dir, now.Verifier.State(), at)
	if err != nil {
		return nil, rule.explain(dir, now, at, err)
	}
	resolved := v.Resolved.Value()
	if err := rule.check(v, &now.Release); err != nil {
		return nil, err
	}
	r := &Release{Version: resolved.Version, Ref: resolved.Ref, Outcome: Accepted, verified: v, trusted: now.Verifier.RootVersion()}
	if v.Verifier.RootVersion() == r.trusted && v.Resolved.Digest() == now.Release.Resolved {
		r.Outcome = Refreshed
		again, err := r.signedAgain(now.Release.Envelopes)
		if err != nil {
			return nil, err
		}
		if again {
			r.Outcome = Accepted
			return r, nil
		}
		if v.Timestamp.Value().Version == now.TimestampVersion {
			r.Outcome = Unchanged
		}
	}
	return r, nil
}

// signedAgain reports whether the same documents come in other envelopes, as they
// do once a key was replaced.
func (r *Release) signedAgain(known map[string]digest.Digest) (bool, error) {
	raw, err := r.verified.ReadFile(ResolvedFile)
	if err != nil || digest.Of(raw) != known[ResolvedFile] {
		return true, err
	}
	for _, list := range r.verified.Manifests { // order-free: any one will do
		for _, m := range list {
			header := m.Header.Value()
			if digest.Of(m.Envelope) != known[EnvelopeFile(header.Rollout())] {
				return true, nil
			}
		}
	}
	return false, nil
}

// ReleaseBlobs stores the files of releases by digest.
type ReleaseBlobs interface {
	PutBlob(ctx context.Context, b []byte) (digest.Digest, error)
	// TouchBlob makes what is there as young as what is new.
	TouchBlob(ctx context.Context, d digest.Digest) (size int64, ok bool, err error)
	// ReceiveNar stores an archive as it is read.
	ReceiveNar(ctx context.Context, b spec.Blob, open func() (io.ReadCloser, error)) error
}

// LacksError says that a release names archives of store paths that neither it nor the server
// has.
type LacksError struct {
	Nars  int
	First digest.Digest
	Bytes int64
}

func (e *LacksError) Error() string {
	return fmt.Sprintf("the release names %d archives of store paths, %d bytes, that neither it nor the server has, such as %s: steady release push sends those that the release folder has, so build or push where the system was built", e.Nars, e.Bytes, e.First.Short())
}

// lacks reports what is absent from the folder and the server.
func (r *Release) lacks(ctx context.Context, blobs ReleaseBlobs) error {
	var e LacksError
	for _, n := range r.verified.Absent {
		size, have, err := blobs.TouchBlob(ctx, n.Digest)
		if err != nil {
			return &StoreError{File: release.NarPath(n.Digest), Err: err}
		}
		if !have || size != n.Size {
			if e.Nars++; e.Nars == 1 {
				e.First = n.Digest
			}
			e.Bytes += n.Size
		}
	}
	if e.Nars > 0 {
		return &e
	}
	return nil
}

// keepNar stores an archive that the folder has.
func (r *Release) keepNar(ctx context.Context, blobs ReleaseBlobs, name string, d digest.Digest) error {
	f, err := r.verified.OpenNar(d)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	err = blobs.ReceiveNar(ctx, spec.Blob{Digest: d, Size: info.Size()}, func() (io.ReadCloser, error) { return r.verified.OpenNar(d) })
	if err != nil {
		return &StoreError{File: name, Err: err}
	}
	return nil
}

// StoreError says that a file of a release could not be stored.
type StoreError struct {
	File string
	Err  error
}

func (e *StoreError) Error() string { return "store " + e.File + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

// Keep stores the files of the release as blobs, of one that is Refreshed the
// timestamp alone. Files named by digest are found by that, others by the events.
// Errors are a *StoreError, or say that the folder changed or cannot be read.
func (r *Release) Keep(ctx context.Context, blobs ReleaseBlobs) error {
	v, named, onlyTimestamp := r.verified, map[string]digest.Digest{}, r.Outcome == Refreshed
	if !onlyTimestamp {
		if err := r.lacks(ctx, blobs); err != nil {
			return err
		}
	}
	for _, name := range v.Names {
		if onlyTimestamp && name != TimestampFile {
			continue
		}
		if d, is := release.IsNar(name); is {
			if err := r.keepNar(ctx, blobs, name, d); err != nil {
				return err
			}
			continue
		}
		raw, err := v.ReadFile(name)
		if err != nil {
			return err
		}
		// Also one that is there: it has to be whole, and young until the release is recorded.
		d, err := blobs.PutBlob(ctx, raw)
		if err != nil {
			return &StoreError{File: name, Err: err}
		}
		if folder, _, _ := strings.Cut(name, "/"); folder != "bundles" && folder != "blobs" && folder != "budgets" && folder != "controls" {
			named[name] = d
		}
	}
	if named[TimestampFile] == "" || (!onlyTimestamp && (named[ResolvedFile] == "" || named[RosterFile] == "" || named[wire.TrustRevocations] == "")) {
		return errors.New("the release changed while it was read; push it again")
	}
	r.names = named
	return nil
}

// Events returns what is to be recorded of a release that was kept, in this
// order: the roots that follow the trusted one, the release, the timestamp.
func (r *Release) Events(actor string) ([]event.Event, error) {
	stamp := r.verified.Timestamp.Value()
	fresh := event.TimestampAccepted{Version: stamp.Version, IssuedAt: stamp.IssuedAt, Resolved: stamp.Resolved, Envelope: r.names[TimestampFile]}
	if r.Outcome == Refreshed {
		return []event.Event{fresh}, nil
	}
	roots, err := r.roots()
	if err != nil {
		return nil, err
	}
	return append(append(roots, r.acceptance(actor)), append(r.compliance(), fresh)...), nil
}

// Revoked returns the hosts whose certificates from before an instant the
// release revokes.
func (r *Release) Revoked() []fleet.Revocation { return r.verified.Revocations.Value().Revoked }

func (r *Release) acceptance(actor string) event.ReleaseAccepted {
	v, resolved := r.verified, r.verified.Resolved.Value()
	ev := event.ReleaseAccepted{Version: resolved.Version, Epoch: resolved.Epoch, Ref: resolved.Ref, Resolved: v.Resolved.Digest(), Roster: v.Roster.Digest(),
		ChannelEdge: resolved.ChannelEdges, Envelopes: r.names, Actor: actor}
	for _, name := range slices.Sorted(maps.Keys(resolved.Channels)) {
		ch := resolved.Channels[name]
		ev.Channels = append(ev.Channels, event.ChannelRelease{Channel: name, FreshnessWindow: ch.FreshnessWindow,
			ReconcileInterval: ch.ReconcileInterval, OnNewRef: ch.OnNewRef, Manifests: ch.Manifests})
	}
	return ev
}

// compliance asks the signed controls about every plan that may open a rollout.
func (r *Release) compliance() []event.Event {
	var events []event.Event
	resolved := r.verified.Resolved.Value()
	for _, name := range slices.Sorted(maps.Keys(resolved.Channels)) {
		if found := r.verified.Evaluate(name); found != nil {
			ref := resolved.Channels[name].Manifests[0]
			events = append(events, event.ComplianceEvaluated{Channel: name, Rollout: ref.Rollout, Manifest: ref.Digest,
				Controls: found.Controls, Failures: found.Failures})
		}
	}
	return events
}

// roots lists the roots of the release that follow the trusted one.
func (r *Release) roots() ([]event.Event, error) {
	var events []event.Event
	v := r.verified
	for n := r.trusted + 1; n <= v.Verifier.RootVersion(); n++ {
		e, err := trust.ParseEnvelope(v.Roots[RootFile(n)])
		if err != nil {
			return nil, err
		}
		var root fleet.Document // the head of what was read strictly when it was verified
		if err := json.Unmarshal(e.Payload, &root); err != nil {
			return nil, err
		}
		events = append(events, event.RootTrusted{Version: root.Version, Epoch: root.Epoch, Root: r.names[RootFile(n)]})
	}
	return events, nil
}
