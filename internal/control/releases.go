package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Pushed says what came of a release.
type Pushed struct {
	Version uint64 `json:"version"`
	Ref     string `json:"ref"`
	// Outcome is Accepted, Refreshed or Unchanged.
	Outcome string `json:"outcome"`
}

// Outcomes of a push that verified.
const (
	Accepted  = "accepted"
	Refreshed = "refreshed" // a newer timestamp alone
	Unchanged = "unchanged"
)

// pushPrefix begins the names of folders that hold releases on their way in.
const pushPrefix = "push-"

// dropUnfinished removes what pushes left behind that a crash cut off.
func dropUnfinished(dataDir string) error {
	left, err := filepath.Glob(filepath.Join(dataDir, pushPrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// PushRelease verifies a packed release (see release.Pack) to its last byte and
// makes it the fleet's newest. What does not verify changes nothing.
func (c *Control) PushRelease(ctx context.Context, packed io.Reader, actor string) (Pushed, error) {
	dir, err := os.MkdirTemp(c.cfg.DataDir, pushPrefix)
	if err != nil {
		return Pushed{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			c.cfg.Log.Warn("a pushed release was left behind", "err", err)
		}
	}()
	if err := release.Unpack(packed, dir, release.DefaultCaps()); err != nil {
		if errors.Is(err, release.ErrPack) {
			return Pushed{}, refusef(ErrInvalid, "%v", err)
		}
		return Pushed{}, fmt.Errorf("%w: %w", ErrUnavailable, err) // the disk is full, or worse
	}
	return c.PushFolder(ctx, dir, actor)
}

// PushFolder is PushRelease for a release folder on this machine, which must not
// change meanwhile.
func (c *Control) PushFolder(ctx context.Context, dir, actor string) (Pushed, error) {
	c.pushing.Lock()
	defer c.pushing.Unlock()
	public := c.public.Load()
	v, err := release.VerifyDir(dir, public.verifier.State(), c.now())
	if err != nil {
		return Pushed{}, c.verifyFailed(ctx, err, actor)
	}
	resolved := v.Resolved.Value()
	pushed := Pushed{Version: resolved.Version, Ref: resolved.Ref, Outcome: Accepted}
	sameRoot := v.Verifier.RootVersion() == public.verifier.RootVersion()
	if sameRoot && v.Resolved.Digest() == public.release.Resolved {
		pushed.Outcome = Refreshed
		if v.Timestamp.Value().Version == public.timestampVersion {
			pushed.Outcome = Unchanged
			return pushed, nil
		}
	}
	names, err := c.keep(ctx, v, pushed.Outcome == Refreshed)
	if err != nil {
		return Pushed{}, err
	}
	stamp := v.Timestamp.Value()
	events := []event.Event{event.TimestampAccepted{Version: stamp.Version, IssuedAt: stamp.IssuedAt, Resolved: stamp.Resolved, Envelope: names[timestampFile]}}
	if pushed.Outcome == Accepted {
		accepted := acceptance(v, names, actor)
		c.library.Learn(accepted)
		for _, ch := range accepted.Channels {
			if len(ch.Manifests) > 0 { // read it here rather than in the reducer
				if _, err := c.library.Manifest(ch.Manifests[0].Digest); err != nil {
					return Pushed{}, err
				}
			}
		}
		roots, err := rootsAfter(v, public.verifier.RootVersion(), names)
		if err != nil {
			return Pushed{}, err
		}
		events = slices.Concat(roots, []event.Event{accepted}, events)
	}
	if err := c.accept(ctx, v, events); err != nil {
		return Pushed{}, err
	}
	c.refused.forget("verify/")
	c.cfg.Log.Info("release", "outcome", pushed.Outcome, "version", pushed.Version, "ref", pushed.Ref, "actor", actor)
	return pushed, nil
}

// accept records a verified release in one append, and has it planned at once.
func (c *Control) accept(ctx context.Context, v *release.Verified, events []event.Event) error {
	return c.submit(ctx, c.normal, func(t *turn) error {
		c.hurry = true
		if err := t.record("", events...); err != nil {
			return err
		}
		for _, r := range v.Revocations.Value().Revoked {
			if h := t.s.Hosts[r.Host]; h != nil && h.RevokedBefore >= r.NotBefore {
				continue
			}
			ev := event.HostRevoked{NotBefore: r.NotBefore, Reason: r.Reason, Actor: "release"}
			if err := t.record(r.Host, ev); err != nil {
				return err
			}
		}
		return nil
	})
}

// verifyFailed records a refused release, once until the cause changes.
func (c *Control) verifyFailed(ctx context.Context, cause error, actor string) error {
	refusal := refusef(ErrInvalid, "%v", cause)
	key := "verify/" + cause.Error()
	if !c.refused.first(key) {
		return refusal
	}
	c.refused.forget("verify/") // an earlier cause that comes back is news again
	c.refused.first(key)
	c.cfg.Log.Warn("a release was refused", "actor", actor, "err", cause)
	ev := event.VerifyFailed{What: "release", Check: string(trust.CodeOf(cause)), Detail: cause.Error(), Actor: actor}
	if err := c.submit(ctx, c.normal, func(t *turn) error { return t.record("", ev) }); err != nil {
		return errors.Join(refusal, err)
	}
	return refusal
}

// keep stores the files of a release as blobs and returns the digests of those
// that are found by name. Files named by digest are found by that.
func (c *Control) keep(ctx context.Context, v *release.Verified, onlyTimestamp bool) (map[string]digest.Digest, error) {
	named := map[string]digest.Digest{}
	for _, name := range v.Names {
		if onlyTimestamp && name != timestampFile {
			continue
		}
		raw, err := v.ReadFile(name)
		if err != nil {
			return nil, err
		}
		d := digest.Of(raw)
		there, err := c.cfg.Store.HasBlob(ctx, d)
		if err == nil && !there {
			_, err = c.cfg.Store.PutBlob(ctx, raw)
		}
		if err != nil {
			return nil, errors.Join(ErrUnavailable, fmt.Errorf("store %s: %w", name, err))
		}
		if folder, _, _ := strings.Cut(name, "/"); folder != "bundles" && folder != "blobs" && folder != "budgets" {
			named[name] = d
		}
	}
	if named[timestampFile] == "" || (!onlyTimestamp && (named[resolvedFile] == "" || named[rosterFile] == "" || named[wire.TrustRevocations] == "")) {
		return nil, errors.New("the release changed while it was read; push it again")
	}
	return named, nil
}

func acceptance(v *release.Verified, names map[string]digest.Digest, actor string) event.ReleaseAccepted {
	r := v.Resolved.Value()
	ev := event.ReleaseAccepted{Version: r.Version, Epoch: r.Epoch, Ref: r.Ref, Resolved: v.Resolved.Digest(), Roster: v.Roster.Digest(),
		ChannelEdge: r.ChannelEdges, Envelopes: names, Actor: actor}
	for _, name := range slices.Sorted(maps.Keys(r.Channels)) {
		ch := r.Channels[name]
		ev.Channels = append(ev.Channels, event.ChannelRelease{Channel: name, FreshnessWindow: ch.FreshnessWindow,
			ReconcileInterval: ch.ReconcileInterval, OnNewRef: ch.OnNewRef, Manifests: ch.Manifests})
	}
	return ev
}

// rootsAfter lists the roots of the release that follow the trusted one.
func rootsAfter(v *release.Verified, trusted uint64, names map[string]digest.Digest) ([]event.Event, error) {
	var events []event.Event
	for n := trusted + 1; n <= v.Verifier.RootVersion(); n++ {
		e, err := trust.ParseEnvelope(v.Roots[rootFile(n)])
		if err != nil {
			return nil, err
		}
		var root fleet.Document
		if err := decodeHead(e.Payload, &root); err != nil {
			return nil, err
		}
		events = append(events, event.RootTrusted{Version: root.Version, Epoch: root.Epoch, Root: names[rootFile(n)]})
	}
	return events, nil
}
