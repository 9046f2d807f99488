package release

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/trust"
)

// Verified is a release of which every byte was checked up to the trusted root.
type Verified struct {
	Timestamp   trust.Verified[fleet.Timestamp]
	Resolved    trust.Verified[fleet.Resolved]
	Roster      trust.Verified[fleet.Roster]
	Revocations trust.Verified[fleet.Revocations]
	// Manifests are by channel, newest first as the snapshot lists them.
	Manifests map[string][]VerifiedManifest
	// Bundles are those that a leaf of any manifest names.
	Bundles map[digest.Digest]fleet.Bundle
	// Roots is the chain of root envelopes by file name.
	Roots map[string][]byte
	// State is what trust remembers after accepting the release; persist it
	// before acting on the release.
	State trust.State
	// Verifier continues from State.
	Verifier trust.Verifier
	// Names lists every file of the release, sorted.
	Names []string
	// Absent are archives of store paths that are named and not in the folder: they travel
	// apart, and whoever is to serve the release has to have them.
	Absent []spec.Blob
	fsys   fs.FS
	dir    string // where that is a folder
}

// VerifiedManifest is one manifest with all of its leaves.
type VerifiedManifest struct {
	Header    trust.Verified[fleet.Manifest]
	Leaves    trust.Verified[[]fleet.Leaf]
	Tree      *trust.Tree
	Budgets   []trust.Verified[fleet.BudgetMembers] // as in the header
	Controls  *fleet.Controls                       // nil without any
	Envelope  []byte                                // as received
	RawLeaves [][]byte                              // as received, sorted by host
}

// Trust starts a state from the fleet's first root, such as the operator's own
// 1.root.json.
func Trust(root []byte) (trust.State, error) {
	name, err := rootFleet(root)
	if err != nil {
		return trust.State{}, err
	}
	return trust.Begin(name, root, "")
}

func rootFleet(env []byte) (string, error) {
	r, err := trust.ReadRoot(env)
	if err != nil {
		return "", fmt.Errorf("the root: %w", err)
	}
	return r.Fleet, nil
}

// Verify checks a signed release against the trusted state: the chain of roots,
// which must contain the trusted one, the timestamp, the snapshot, and
// everything they name down to the last blob. A file that nothing names is
// refused. now is wall time. Freshness is for the caller to ask: a release may
// be verified long after it was made. fsys must stay open while the result is
// read from or built upon.
func Verify(fsys fs.FS, state trust.State, now clock.Instant) (*Verified, error) {
	v := &verification{
		Verified: &Verified{Manifests: map[string][]VerifiedManifest{}, Bundles: map[digest.Digest]fleet.Bundle{}, Roots: map[string][]byte{}, fsys: fsys},
		used:     map[string]bool{}, blobs: map[digest.Digest]int64{},
	}
	var err error
	if v.Names, err = fileNames(fsys); err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	for _, name := range v.Names {
		if isPayload(name) {
			return nil, fmt.Errorf("release: %s is not signed yet; run steady release sign", name)
		}
	}
	for _, step := range []func() error{
		func() error { return v.roots(state) },
		func() error { return v.top(now) },
		v.manifests,
		v.bundles,
		v.strangers,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("release: %w", err)
		}
	}
	v.Verifier, v.State = v.verifier, v.verifier.State()
	return v.Verified, nil
}

type verification struct {
	*Verified
	verifier trust.Verifier
	used     map[string]bool
	blobs    map[digest.Digest]int64 // sizes of those read
}

func (v *verification) read(name string) ([]byte, error) {
	v.used[name] = true
	return readFile(v.fsys, name)
}

// readNamed reads a file that something signed names by its digest.
func (v *verification) readNamed(name string, want digest.Digest, by string) ([]byte, error) {
	raw, err := v.read(name)
	if err == nil && digest.Of(raw) != want {
		err = fmt.Errorf("%s contains %s: expected what %s signs", name, digest.Of(raw).Short(), by)
	}
	return raw, err
}

func (v *verification) advance(s trust.State) (err error) {
	v.verifier, err = v.verifier.With(s)
	return err
}

// roots walks the chain from version 1 and finds the trusted root in it. The
// links are signed both ways, so what comes before the trusted root is genuine.
func (v *verification) roots(trusted trust.State) error {
	name, err := rootFleet(trusted.Root)
	if err != nil {
		return err
	}
	found := false
	for n := uint64(1); ; n++ {
		file := RootPath(n)
		if !slices.Contains(v.Names, file) {
			break
		}
		env, err := v.read(file)
		if err != nil {
			return err
		}
		v.Roots[file] = env
		if string(env) == string(trusted.Root) {
			found = true
			if v.verifier, err = trust.NewVerifier(name, trusted); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			continue
		}
		var s trust.State
		if n == 1 {
			s, err = trust.Begin(name, env, "")
			if err == nil {
				v.verifier, err = trust.NewVerifier(name, s)
			}
		} else if s, err = v.verifier.Root(env); err == nil {
			err = v.advance(s)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if !found {
		return fmt.Errorf("the chain of %d roots does not contain the trusted one: expected 1.root.json and its successors; sign the release with the fleet's roots", len(v.Roots))
	}
	return nil
}

func (v *verification) top(now clock.Instant) error {
	var s trust.State
	for _, part := range []struct {
		name   string
		accept func(raw []byte) (err error)
	}{
		{TimestampPath, func(raw []byte) (err error) { v.Timestamp, s, err = v.verifier.Timestamp(raw, now); return err }},
		{ResolvedPath, func(raw []byte) (err error) { v.Resolved, s, err = v.verifier.Resolved(raw, v.Timestamp); return err }},
		{RosterPath, func(raw []byte) (err error) { v.Roster, s, err = v.verifier.Roster(raw, v.Resolved); return err }},
		{RevocationsPath, func(raw []byte) (err error) {
			v.Revocations, s, err = v.verifier.Revocations(raw, v.Resolved)
			return err
		}},
	} {
		raw, err := v.read(part.name)
		if err != nil {
			return err
		}
		if err := part.accept(raw); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		if err := v.advance(s); err != nil {
			return err
		}
	}
	return nil
}

func (v *verification) manifests() error {
	channels := v.Resolved.Value().Channels
	for _, channel := range slices.Sorted(maps.Keys(channels)) {
		for _, ref := range channels[channel].Manifests {
			vm, err := v.manifest(channel, ref)
			if err != nil {
				return fmt.Errorf("rollout %s: %w", ref.Rollout, err)
			}
			v.Manifests[channel] = append(v.Manifests[channel], vm)
		}
	}
	return nil
}

func (v *verification) manifest(channel string, ref fleet.ManifestRef) (vm VerifiedManifest, err error) {
	if vm.Envelope, err = v.read(ManifestPath(ref.Rollout)); err != nil {
		return vm, err
	}
	var s trust.State
	if vm.Header, s, err = v.verifier.Manifest(vm.Envelope, v.Resolved); err != nil {
		return vm, err
	}
	if m := vm.Header.Value(); m.Channel != channel || vm.Header.Digest() != ref.Digest {
		return vm, fmt.Errorf("the file contains manifest %s of channel %q, the snapshot lists %s of channel %q", vm.Header.Digest().Short(), m.Channel, ref.Digest.Short(), channel)
	}
	if err := v.advance(s); err != nil {
		return vm, err
	}
	raw, err := v.read(LeavesPath(ref.Rollout))
	if err != nil {
		return vm, err
	}
	if vm.RawLeaves, err = splitLeaves(raw); err != nil {
		return vm, err
	}
	if vm.Leaves, vm.Tree, err = v.verifier.Leaves(vm.Header, vm.RawLeaves); err != nil {
		return vm, err
	}
	for i, b := range vm.Header.Value().Budgets {
		raw, err := v.read(BudgetPath(b.Members))
		if err != nil {
			return vm, err
		}
		members, err := v.verifier.Budget(vm.Header, i, raw)
		if err != nil {
			return vm, err
		}
		vm.Budgets = append(vm.Budgets, members)
	}
	header := vm.Header.Value()
	if vm.Controls, err = v.controls(&header); err != nil {
		return vm, err
	}
	return vm, nil
}

// bundles checks every bundle that a leaf or the roster names, and their blobs.
func (v *verification) bundles() error {
	named := map[digest.Digest]bool{}
	for _, list := range v.Manifests {
		for _, vm := range list {
			for _, l := range vm.Leaves.Value() {
				named[l.Target] = true
			}
		}
	}
	for _, h := range v.Roster.Value().Hosts {
		named[h.Bundle] = true
	}
	for _, d := range slices.Sorted(maps.Keys(named)) {
		name := BundlePath(d)
		raw, err := v.readNamed(name, d, "the manifest")
		if err != nil {
			return err
		}
		b, err := trust.ReadBundle(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		v.Bundles[d] = b
		for _, blob := range b.Blobs() {
			if err := v.blob(b.Name, blob); err != nil {
				return err
			}
		}
		if err := v.nars(&b); err != nil {
			return fmt.Errorf("bundle %s: %w", b.Name, err)
		}
	}
	return nil
}

func (v *verification) blob(bundle string, b spec.Blob) error {
	name := BlobPath(b.Digest)
	size, seen := v.blobs[b.Digest]
	if !seen {
		raw, err := v.readNamed(name, b.Digest, "bundle "+bundle)
		if err != nil {
			return err
		}
		size = int64(len(raw))
		v.blobs[b.Digest] = size
	}
	if size != b.Size {
		return fmt.Errorf("%s has %d bytes: expected the %d that bundle %s signs", name, size, b.Size, bundle)
	}
	return nil
}

func (v *verification) strangers() error {
	for _, name := range v.Names {
		if !v.used[name] {
			return fmt.Errorf("nothing signed names %s: expected only files of this release", name)
		}
	}
	return nil
}

// ReadFile returns a file of the verified release, read again. Check what it
// returns where it matters: the folder may have changed since.
func (v *Verified) ReadFile(name string) ([]byte, error) { return readFile(v.fsys, name) }

// Previous returns what the next plan needs to know of this release.
func (v *Verified) Previous() *fleet.Previous {
	p := &fleet.Previous{
		Version: v.Resolved.Value().Version, Resolved: v.Resolved.Value(), Roster: v.Roster.Value(),
		Manifests: map[digest.Digest]fleet.Manifest{}, Bundles: map[digest.Digest]fleet.Bundle{},
	}
	for _, list := range v.Manifests {
		for _, vm := range list {
			p.Manifests[vm.Header.Digest()] = vm.Header.Value()
		}
	}
	for _, h := range p.Roster.Hosts {
		p.Bundles[h.Bundle] = v.Bundles[h.Bundle]
	}
	return p
}
