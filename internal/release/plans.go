package release

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/trust"
)

// Plans is what a release, signed or not, would have a server do. It is read and
// not verified: for forecasts, never for what acts.
type Plans struct {
	Resolved  fleet.Resolved
	Roster    fleet.Roster
	Manifests map[digest.Digest]*rollout.Manifest
}

// Manifest returns a manifest that the release lists.
func (p *Plans) Manifest(d digest.Digest) (*rollout.Manifest, error) {
	if m := p.Manifests[d]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("the release lists no manifest %s", d.Short())
}

// Accepted is the event of a server that takes the release.
func (p *Plans) Accepted() event.ReleaseAccepted {
	ev := event.ReleaseAccepted{Version: p.Resolved.Version, Epoch: p.Resolved.Epoch, Ref: p.Resolved.Ref, ChannelEdge: p.Resolved.ChannelEdges, Actor: "forecast"}
	for _, name := range slices.Sorted(maps.Keys(p.Resolved.Channels)) {
		c := p.Resolved.Channels[name]
		ev.Channels = append(ev.Channels, event.ChannelRelease{Channel: name, FreshnessWindow: c.FreshnessWindow,
			ReconcileInterval: c.ReconcileInterval, OnNewRef: c.OnNewRef, Manifests: c.Manifests})
	}
	return ev
}

// PlansOf reads the plans of a release folder.
func PlansOf(fsys fs.FS) (*Plans, error) {
	return readPlans(func(name string) ([]byte, error) { return readFile(fsys, name) })
}

// Plans returns the plans of a release in memory.
func (r *Release) Plans() (*Plans, error) {
	return readPlans(func(name string) ([]byte, error) {
		if raw, ok := r.Files[name]; ok {
			return raw, nil
		}
		return nil, fmt.Errorf("%s is not in the release", name)
	})
}

func readPlans(read func(name string) ([]byte, error)) (*Plans, error) {
	p := &Plans{Manifests: map[digest.Digest]*rollout.Manifest{}}
	raw, err := payload(read, ResolvedPath)
	if err == nil {
		err = trust.Decode(raw, trust.MaxEnvelope, &p.Resolved)
	}
	if err != nil {
		return nil, fmt.Errorf("release: %s: %w; steady release build makes a release folder", ResolvedPath, err)
	}
	if raw, err = read(RosterPath); err == nil {
		err = trust.Decode(raw, trust.MaxList, &p.Roster)
	}
	if err != nil {
		return nil, fmt.Errorf("release: %s: %w", RosterPath, err)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Resolved.Channels)) {
		for _, ref := range p.Resolved.Channels[name].Manifests {
			m, err := readManifest(read, ref)
			if err != nil {
				return nil, fmt.Errorf("release: rollout %s: %w", ref.Rollout, err)
			}
			p.Manifests[ref.Digest] = m
		}
	}
	return p, nil
}

// payload reads a document that is signed or waits for its signature.
func payload(read func(name string) ([]byte, error), envelope string) ([]byte, error) {
	raw, err := read(envelope)
	if err != nil {
		if unsigned, failed := read(payloadName(envelope)); failed == nil {
			return unsigned, nil
		}
		return nil, err
	}
	e, err := trust.ParseEnvelope(raw)
	if err != nil {
		return nil, err
	}
	return e.Payload, nil
}

func readManifest(read func(name string) ([]byte, error), ref fleet.ManifestRef) (*rollout.Manifest, error) {
	raw, err := payload(read, ManifestPath(ref.Rollout))
	if err != nil {
		return nil, err
	}
	if got := digest.Of(raw); got != ref.Digest {
		return nil, fmt.Errorf("its file contains manifest %s, the snapshot lists %s", got.Short(), ref.Digest.Short())
	}
	m := &rollout.Manifest{Digest: ref.Digest, Header: new(fleet.Manifest)}
	if err := trust.Decode(raw, trust.MaxEnvelope, m.Header); err != nil {
		return nil, err
	}
	if raw, err = read(LeavesPath(ref.Rollout)); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &m.Leaves); err != nil {
		return nil, fmt.Errorf("its leaves: %w", err)
	}
	for _, b := range m.Header.Budgets {
		raw, err := read(BudgetPath(b.Members))
		if err != nil {
			return nil, err
		}
		var members fleet.BudgetMembers
		if err := trust.Decode(raw, trust.MaxList, &members); err != nil {
			return nil, fmt.Errorf("members of budget %s: %w", b.Selector, err)
		}
		m.Members = append(m.Members, members.Hosts)
	}
	return m, nil
}
