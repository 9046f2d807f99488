package release

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/strictyaml"
	"github.com/steadyfleet/steady/internal/trust"
)

// History is how many manifests a channel lists: the one to roll out and
// earlier ones that returning hosts may still be given.
const History = 3

// refLength is how much of a hash makes a ref.
const refLength = 12

// BuildOptions are what a release depends on besides its source.
type BuildOptions struct {
	// Ref names the release's rollouts. Empty takes the first 12 digits of the
	// git commit when nothing of the release differs from it, else of the plan's
	// hash.
	Ref string
	// Previous is the verified release before this one; nil for the first.
	Previous *Verified
	// Epoch is the key epoch of the root; 0 means 1. One that differs from that of
	// Previous begins versions at 1 again.
	Epoch uint64
	// Removals are consent to what is removed of Previous.
	Removals []fleet.Removal
	Now      clock.Instant // wall time
}

// Release is a release in memory.
type Release struct {
	Fleet   string
	Ref     string
	Version uint64
	// Changed lists the channels with a new manifest, sorted.
	Changed []string
	// Again reports what the plans give hosts that the release before took from them.
	Again []Again
	// Expected says per channel with hosts when a rollout would end at the
	// earliest, sorted by channel.
	Expected []Expected
	// Compliance says what static controls find, by channel that has some.
	Compliance []Compliance
	// Files is the release folder by slash-separated path, but for Nars: the archives of
	// store paths that are at hand, by digest.
	Files map[string][]byte
	Nars  map[digest.Digest]fleetdir.Nar
}

// Build resolves the source into an unsigned release. It writes nothing. The
// release is nil when a problem is more than a warning.
func Build(src *fleetdir.Source, o BuildOptions) (*Release, []Problem) {
	b := &builder{src: src, o: o, rel: &Release{Fleet: src.Declaration.Metadata.Name, Version: 1, Files: map[string][]byte{}, Nars: map[digest.Digest]fleetdir.Nar{}}}
	b.epoch = max(o.Epoch, 1)
	if err := b.sameArchives(); err != nil {
		return nil, []Problem{{File: fleetdir.FleetFile, Message: err.Error()}}
	}
	in := b.inputs()
	plan, findings := fleet.Resolve(&src.Declaration, in)
	problems := strictyaml.Sort(append(src.Place(nil, findings), b.paths()...))
	if Fatal(problems) {
		return nil, problems
	}
	b.plan = plan
	problems = strictyaml.Sort(append(problems, src.Place(problems, append(b.controls(), b.estimate()...))...))
	if Fatal(problems) {
		return nil, problems
	}
	if err := b.run(); err != nil {
		return nil, append(problems, Problem{File: fleetdir.FleetFile, Message: err.Error()})
	}
	return b.rel, problems
}

type builder struct {
	src   *fleetdir.Source
	o     BuildOptions
	epoch uint64
	plan  fleet.Plan
	rel   *Release
	// reused are lists with archives of the previous release.
	reused []*fleet.Closure
}

func (b *builder) inputs() fleet.Inputs {
	in := fleet.Inputs{
		Bundles: map[string]fleet.Bundle{}, Digests: map[string]digest.Digest{}, BundleProbes: map[string]fleet.ProbeSet{},
		NoResources: map[string]bool{}, Times: map[string]map[string]fleet.Times{}, Removals: b.o.Removals,
		Now: b.o.Now, Zones: b.zones(), Packs: packs(),
	}
	for name, sb := range b.src.Bundles {
		in.Bundles[name], in.Digests[name], in.BundleProbes[name] = sb.Bundle, sb.Digest, sb.Probes
		in.NoResources[name], in.Times[name] = sb.NoResources, sb.Times
	}
	if b.o.Previous != nil {
		in.Previous = b.o.Previous.Previous()
		if in.Previous.Resolved.Epoch == b.epoch { // versions begin again with an epoch
			b.rel.Version = in.Previous.Version + 1
		}
	}
	return in
}

func (b *builder) document(docType string) fleet.Document {
	return fleet.Document{Type: docType, Fleet: b.plan.Fleet, Epoch: b.epoch, Version: b.rel.Version, IssuedAt: b.o.Now}
}

func (b *builder) run() error {
	if prev := b.o.Previous; prev != nil && prev.Resolved.Value().Fleet != b.plan.Fleet {
		return fmt.Errorf("the previous release is of fleet %q, not %q: expected a release of the same fleet", prev.Resolved.Value().Fleet, b.plan.Fleet)
	}
	if err := b.chooseRef(); err != nil {
		return err
	}
	resolved, err := b.resolved()
	if err != nil {
		return err
	}
	hash, err := FleetResolvedHash(resolved)
	if err != nil {
		return err
	}
	for i := range b.plan.Channels {
		cp := &b.plan.Channels[i]
		settings := cp.Settings
		if len(cp.Leaves) > 0 {
			if settings.Manifests, err = b.channel(cp, hash); err != nil {
				return err
			}
			settings.Ref = strings.TrimPrefix(settings.Manifests[0].Rollout, cp.Name+"@")
		}
		resolved.Channels[cp.Name] = settings
	}
	if err := b.bundles(); err != nil {
		return err
	}
	return b.top(resolved)
}

// chooseRef names the release. A name that the previous release lists for
// another manifest would look like a forgery to hosts that saw that one.
func (b *builder) chooseRef() error {
	ref := b.o.Ref
	if ref == "" {
		commit := b.src.Commit
		if commit == "" {
			raw, err := trust.Canonical(struct {
				Plan    fleet.Plan
				Version uint64
			}{b.plan, b.rel.Version})
			if err != nil {
				return err
			}
			commit = digest.Of(raw).Hex()
		}
		ref = commit[:refLength]
		if b.refInUse(ref) {
			ref = fmt.Sprintf("%s-v%d", ref, b.rel.Version)
		}
	}
	if err := fleet.CheckName(ref); err != nil {
		return fmt.Errorf("ref %w", err)
	}
	b.plan.SetRef(ref)
	b.rel.Ref = ref
	return nil
}

func (b *builder) refInUse(ref string) bool {
	if b.o.Previous == nil {
		return false
	}
	for name, c := range b.o.Previous.Resolved.Value().Channels {
		for _, m := range c.Manifests {
			if m.Rollout == fleet.RolloutName(name, ref) {
				return true
			}
		}
	}
	return false
}

// FleetResolvedHash is what a manifest's fleetResolvedHash holds: the digest of
// the canonical snapshot with every channel's list of manifests empty. The list
// names the manifests by digest, so hash and list would otherwise form a circle.
func FleetResolvedHash(r fleet.Resolved) (digest.Digest, error) {
	channels := make(map[string]fleet.ResolvedChannel, len(r.Channels))
	for name, c := range r.Channels {
		c.Ref, c.Manifests = r.Ref, []fleet.ManifestRef{}
		channels[name] = c
	}
	r.Channels = channels
	raw, err := trust.Canonical(r)
	if err != nil {
		return "", err
	}
	return digest.Of(raw), nil
}

func (b *builder) origin() *fleet.Origin {
	prev := b.o.Previous
	if prev == nil {
		return &fleet.Origin{Follows: []fleet.ReleaseRef{}, Commit: b.src.Commit}
	}
	base := prev.Resolved.Value()
	return prev.Roster.Value().Origin.After(fleet.ReleaseRef{Epoch: base.Epoch, Version: base.Version, Digest: prev.Resolved.Digest()}, b.src.Commit)
}

// resolved writes roster and revocations and starts the snapshot.
func (b *builder) resolved() (fleet.Resolved, error) {
	roster, err := trust.Canonical(fleet.Roster{Document: b.document(fleet.TypeRoster), Origin: b.origin(), Hosts: b.plan.Roster})
	if err != nil {
		return fleet.Resolved{}, err
	}
	revocations, err := trust.Canonical(fleet.Revocations{
		Document: b.document(fleet.TypeRevocations), Revoked: append([]fleet.Revocation{}, b.plan.Revoked...),
	})
	if err != nil {
		return fleet.Resolved{}, err
	}
	b.rel.Files[RosterPath], b.rel.Files[RevocationsPath] = roster, revocations
	r := fleet.Resolved{
		Document: b.document(fleet.TypeResolved), Ref: b.plan.Ref,
		Roster: digest.Of(roster), Revocations: digest.Of(revocations),
		Channels:     map[string]fleet.ResolvedChannel{},
		ChannelEdges: append([]fleet.Edge{}, b.plan.ChannelEdges...),
		Servers:      b.plan.Servers,
	}
	for _, cp := range b.plan.Channels {
		r.Channels[cp.Name] = cp.Settings
	}
	return r, nil
}

// channel lists the channel's valid manifests, newest first: its own, or the
// previous one when nothing but its name and time would differ.
func (b *builder) channel(cp *fleet.ChannelPlan, hash digest.Digest) ([]fleet.ManifestRef, error) {
	leaves := make([][]byte, len(cp.Leaves))
	for i := range cp.Leaves {
		raw, err := trust.Canonical(cp.Leaves[i])
		if err != nil {
			return nil, err
		}
		leaves[i] = raw
	}
	if err := b.signControls(cp); err != nil {
		return nil, err
	}
	m, critical := cp.Header, cp.Header.Critical
	m.Document, m.FleetResolvedHash = b.document(fleet.TypeManifest), hash
	m.Critical = critical
	m.LeavesRoot, m.LeafCount = hex.EncodeToString(trust.LeavesRoot(leaves)), len(leaves)
	old := b.history(cp.Name)
	if len(old) > 0 {
		prev := old[0].Header.Value()
		if SamePlan(&prev, &m) {
			return b.keep(old)
		}
	}
	raw, err := trust.Canonical(m)
	if err != nil {
		return nil, err
	}
	if len(raw) > trust.MaxEnvelope/2 {
		return nil, fmt.Errorf("the manifest of channel %q has %d bytes, at most %d are allowed: expected fewer probes or budgets", cp.Name, len(raw), trust.MaxEnvelope/2)
	}
	ref := fleet.ManifestRef{Rollout: m.Rollout(), Digest: digest.Of(raw), Version: m.Version}
	for _, o := range old {
		if v := o.Header.Value(); v.Rollout() == ref.Rollout {
			return nil, fmt.Errorf("ref %q already names another manifest of channel %q, of version %d: expected a new --ref", m.Ref, cp.Name, v.Version)
		}
	}
	b.rel.Files[payloadName(ManifestPath(ref.Rollout))] = raw
	b.rel.Files[LeavesPath(ref.Rollout)] = joinLeaves(leaves)
	b.rel.Changed = append(b.rel.Changed, cp.Name)
	b.rel.Again = append(b.rel.Again, again(cp, old)...)
	kept, err := b.keep(old[:min(len(old), History-1)])
	return append([]fleet.ManifestRef{ref}, kept...), err
}

// history returns the previous release's manifests of the channel. Another
// epoch ends them all.
func (b *builder) history(channel string) []VerifiedManifest {
	if b.o.Previous == nil || b.o.Previous.Resolved.Value().Epoch != b.epoch {
		return nil
	}
	return b.o.Previous.Manifests[channel]
}

// SamePlan reports whether two manifests would do the same, apart from their names, times,
// key epochs and the consent that only the build asked for.
func SamePlan(a, b *fleet.Manifest) bool {
	var raw [2][]byte
	for i, m := range []fleet.Manifest{*a, *b} {
		m.Version, m.Epoch, m.Ref, m.IssuedAt, m.FleetResolvedHash, m.AllowMassChange = 0, 0, "", 0, "", false
		var err error
		if raw[i], err = trust.Canonical(m); err != nil {
			return false
		}
	}
	return bytes.Equal(raw[0], raw[1])
}

// keep carries manifests of the previous release over, with all they name.
func (b *builder) keep(old []VerifiedManifest) ([]fleet.ManifestRef, error) {
	var refs []fleet.ManifestRef
	for _, vm := range old {
		m := vm.Header.Value()
		refs = append(refs, fleet.ManifestRef{Rollout: m.Rollout(), Digest: vm.Header.Digest(), Version: m.Version})
		for _, l := range vm.Leaves.Value() {
			if err := b.carryBundle(l.Target); err != nil {
				return nil, err
			}
		}
		files := []string{ManifestPath(m.Rollout()), LeavesPath(m.Rollout())}
		if m.Controls != "" {
			files = append(files, ControlsPath(m.Controls))
		}
		for _, budget := range m.Budgets {
			files = append(files, BudgetPath(budget.Members))
		}
		for _, name := range files {
			if err := b.carry(name); err != nil {
				return nil, err
			}
		}
	}
	return refs, nil
}

func (b *builder) carry(name string) error {
	if _, ok := b.rel.Files[name]; ok {
		return nil
	}
	raw, err := readFile(b.o.Previous.fsys, name)
	if err != nil {
		return fmt.Errorf("the previous release: %w", err)
	}
	b.rel.Files[name] = raw
	return nil
}

func (b *builder) bundles() error {
	used := map[digest.Digest]bool{}
	for _, d := range b.plan.Bundles {
		used[d] = true
	}
	for _, sb := range b.src.Bundles {
		if !used[sb.Digest] {
			continue
		}
		b.rel.Files[BundlePath(sb.Digest)] = sb.Bytes
		for d, content := range sb.Blobs {
			b.rel.Files[BlobPath(d)] = content
		}
		for _, n := range sb.Nars {
			b.rel.Nars[n.Digest] = n
		}
	}
	for _, c := range b.reused {
		b.carryArchives(c)
	}
	for _, members := range b.plan.Budgets {
		raw := members.Bytes()
		b.rel.Files[BudgetPath(digest.Of(raw))] = raw
	}
	return nil
}

// top writes the snapshot and the timestamp that names it, and keeps the roots.
func (b *builder) top(r fleet.Resolved) error {
	raw, err := trust.Canonical(r)
	if err != nil {
		return err
	}
	b.rel.Files[payloadName(ResolvedPath)] = raw
	t := fleet.Timestamp{Document: b.document(fleet.TypeTimestamp), Resolved: digest.Of(raw), ResolvedVersion: r.Version}
	if b.o.Previous != nil {
		if b.o.Previous.Timestamp.Value().Epoch == b.epoch {
			t.Version = b.o.Previous.Timestamp.Value().Version + 1
		}
		for name, root := range b.o.Previous.Roots {
			b.rel.Files[name] = root
		}
	}
	stamp, err := trust.Canonical(t)
	if err != nil {
		return err
	}
	b.rel.Files[payloadName(TimestampPath)] = stamp
	return nil
}
