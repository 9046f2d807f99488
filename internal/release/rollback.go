package release

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
)

// RollbackOptions say what goes back to what. Both releases are verified.
type RollbackOptions struct {
	Channel string
	// To is the ref or the version of the channel's earlier plan.
	To string
	// Current is the newest release, and From one of the same key epoch that lists
	// the earlier plan; nil means that the newest does: it keeps a few.
	Current, From *Verified
	// Ref names the new release; empty makes one of the earlier plan's ref.
	Ref string
	Now clock.Instant // wall time
}

// Move is what a rollback means for one host. The bundles are equal for a host
// that stays: it runs it already, or the earlier release did not have it.
type Move struct {
	Host string        `json:"host"`
	Wave string        `json:"wave"`
	From digest.Digest `json:"from"`
	To   digest.Digest `json:"to"`
	// New says that the earlier release did not have the host on this channel.
	New bool `json:"new,omitempty"`
}

// Rollback builds an unsigned release, one version above the current one, in which
// the hosts of a channel are given the bundles and probes of an earlier release.
// Waves, policy, budgets, edges and delegations stay as they are now: they say how
// and within what rights hosts move, which an earlier day does not decide. Other
// channels keep their manifests. Volumes are never deleted on the way back.
func Rollback(o RollbackOptions) (*Release, []Move, error) {
	if o.From == nil {
		o.From = o.Current
	}
	then, err := earlier(o)
	if err != nil {
		return nil, nil, err
	}
	plan := planOf(o.Current)
	i := slices.IndexFunc(plan.Channels, func(c fleet.ChannelPlan) bool { return c.Name == o.Channel })
	ch := &plan.Channels[i]
	to, moves := then.Header.Value(), giveBack(ch, then)
	if !slices.ContainsFunc(moves, func(m Move) bool { return m.From != m.To }) {
		return nil, moves, fmt.Errorf("no host of channel %q would change: they are given the bundles of %s already", o.Channel, to.Rollout())
	}
	for _, m := range moves {
		h := plan.Roster[m.Host]
		h.Bundle = m.To
		plan.Roster[m.Host] = h
	}
	var commit string
	if origin := o.Current.Roster.Value().Origin; origin != nil {
		commit = origin.Commit
	}
	b := &builder{src: &fleetdir.Source{Commit: commit}, plan: plan, epoch: o.Current.Resolved.Value().Epoch,
		o:   BuildOptions{Ref: o.Ref, Previous: o.Current, Now: o.Now},
		rel: &Release{Fleet: plan.Fleet, Version: o.Current.Resolved.Value().Version + 1, Files: map[string][]byte{}, Nars: map[digest.Digest]fleetdir.Nar{}}}
	if b.o.Ref == "" {
		b.o.Ref = rollbackRef(to.Ref, b.rel.Version)
	}
	if err := b.run(); err != nil {
		return nil, nil, err
	}
	from := &builder{o: BuildOptions{Previous: o.From}, rel: b.rel}
	for _, m := range moves {
		source := from
		if m.New {
			source = b
		}
		if err := source.carryBundle(m.To); err != nil {
			return nil, nil, err
		}
	}
	return b.rel, moves, nil
}

// earlier checks that the two releases fit, and finds the channel's earlier plan.
func earlier(o RollbackOptions) (then VerifiedManifest, err error) {
	cur, old := o.Current.Resolved.Value(), o.From.Resolved.Value()
	switch {
	case cur.Fleet != old.Fleet:
		return then, fmt.Errorf("the earlier release is of fleet %q, not %q", old.Fleet, cur.Fleet)
	case cur.Epoch != old.Epoch:
		return then, fmt.Errorf("the earlier release is of key epoch %d, and keys from before %d may be stolen: build the old content again instead", old.Epoch, cur.Epoch)
	case old.Version > cur.Version:
		return then, errors.New("the earlier release is the newer one: give the newest as the current one")
	case len(o.Current.Manifests[o.Channel]) == 0:
		return then, fmt.Errorf("the current release has no plan for a channel %q", o.Channel)
	}
	var known []string
	for _, vm := range o.From.Manifests[o.Channel] {
		m := vm.Header.Value()
		if m.Ref == o.To || strconv.FormatUint(m.Version, 10) == o.To {
			return vm, nil
		}
		known = append(known, fmt.Sprintf("%s (version %d)", m.Ref, m.Version))
	}
	return then, fmt.Errorf("the release lists no plan %q of channel %q, but %s: give an earlier release with --from", o.To, o.Channel, strings.Join(known, ", "))
}

// rollbackRef names a release after what it goes back to.
func rollbackRef(ref string, version uint64) string {
	end := fmt.Sprintf("-back-v%d", version)
	return ref[:min(len(ref), 63-len(end))] + end
}

// planOf returns the plan that a release was made of, as far as the release tells.
func planOf(v *Verified) fleet.Plan {
	r := v.Resolved.Value()
	p := fleet.Plan{Fleet: r.Fleet, ChannelEdges: r.ChannelEdges, Servers: r.Servers, Revoked: v.Revocations.Value().Revoked, Roster: maps.Clone(v.Roster.Value().Hosts)}
	for _, name := range slices.Sorted(maps.Keys(r.Channels)) {
		cp := fleet.ChannelPlan{Name: name, Settings: r.Channels[name]}
		cp.Settings.Manifests = nil
		if list := v.Manifests[name]; len(list) > 0 {
			cp.Header, cp.Leaves = list[0].Header.Value(), slices.Clone(list[0].Leaves.Value())
		}
		p.Channels = append(p.Channels, cp)
	}
	return p
}

// giveBack sets what the hosts of a channel run to what an earlier manifest had
// them run. A host that it did not have keeps what it is given now.
func giveBack(cp *fleet.ChannelPlan, then VerifiedManifest) []Move {
	old := map[string]fleet.Leaf{}
	for _, l := range then.Leaves.Value() {
		old[l.Host] = l
	}
	probes := slices.Clone(cp.Header.Probes)
	index := func(p fleet.Probe) int {
		for i := range probes {
			if reflect.DeepEqual(probes[i], p) {
				return i
			}
		}
		probes = append(probes, p)
		return len(probes) - 1
	}
	was := then.Header.Value().Probes
	var moves []Move
	for i := range cp.Leaves {
		l := &cp.Leaves[i]
		m := Move{Host: l.Host, Wave: cp.Header.Waves[l.Wave].Name, From: l.Target, To: l.Target}
		switch o, ok := old[l.Host]; {
		case l.Removed != "" || o.Removed != "":
			m.New = true // who leaves, or left then and came back, stays as it is
		case ok:
			m.To, l.Target = o.Target, o.Target
			l.Probes = make([]int, len(o.Probes))
			for k, p := range o.Probes {
				l.Probes[k] = index(was[p])
			}
			slices.Sort(l.Probes)
		default:
			m.New = true
		}
		moves = append(moves, m)
	}
	cp.Header.Probes = used(cp.Leaves, probes)
	cp.Header.AllowVolumeDelete = false
	return moves
}

// used drops the probes that no leaf names any more, and renumbers the others.
func used(leaves []fleet.Leaf, probes []fleet.Probe) []fleet.Probe {
	at := make([]int, len(probes))
	for i := range at {
		at[i] = -1
	}
	kept := []fleet.Probe{}
	for i := range probes {
		if slices.ContainsFunc(leaves, func(l fleet.Leaf) bool { return slices.Contains(l.Probes, i) }) {
			at[i] = len(kept)
			kept = append(kept, probes[i])
		}
	}
	for i := range leaves {
		renumbered := make([]int, len(leaves[i].Probes))
		for k, p := range leaves[i].Probes {
			renumbered[k] = at[p]
		}
		leaves[i].Probes = renumbered
	}
	return kept
}

// carryBundle takes a bundle over from the previous release, with its content.
func (b *builder) carryBundle(d digest.Digest) error {
	if err := b.carry(BundlePath(d)); err != nil {
		return err
	}
	bundle := b.o.Previous.Bundles[d]
	for _, blob := range bundle.Blobs() {
		if err := b.carry(BlobPath(blob.Digest)); err != nil {
			return err
		}
	}
	return b.carryNars(&bundle)
}
