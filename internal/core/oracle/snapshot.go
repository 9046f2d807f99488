package oracle

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// saved are facts as plain values: manifests by digest, rollouts by their order.
type saved struct {
	Hosts        []*Host
	Rollouts     []savedRollout
	Channels     []savedChannel
	Epoch        uint64
	Overrides    []event.OverrideAccepted
	Barred       map[digest.Digest]bool
	Edges        []fleet.Edge
	Issued       clock.Instant
	Accepted     clock.Instant
	Resumed      clock.Instant
	Latest       clock.Instant
	Before       clock.Instant
	ReleaseEpoch uint64
	Requested    int
	Opened       int
}

type savedRollout struct {
	*Rollout
	Manifest digest.Digest
	Accepted []Failing
}

type savedChannel struct {
	*Channel
	Active, Latest, Converged *int
}

// Snapshot encodes the facts, the same ones always to the same bytes.
func (f *Facts) Snapshot() (json.RawMessage, error) {
	out := saved{Epoch: f.Epoch, Overrides: f.Overrides, Barred: f.Barred, Edges: f.Edges, Issued: f.issued, Accepted: f.accepted, Resumed: f.resumed,
		Latest: f.latest, Before: f.before, ReleaseEpoch: f.releaseEpoch, Requested: f.asked, Opened: f.opened}
	for _, name := range slices.Sorted(maps.Keys(f.hosts)) {
		out.Hosts = append(out.Hosts, f.hosts[name])
	}
	kept := map[int]*Rollout{}
	order := func(r *Rollout) *int {
		if r == nil {
			return nil
		}
		kept[r.Order] = r
		return &r.Order
	}
	for _, r := range f.Rollouts {
		order(r)
	}
	for _, name := range slices.Sorted(maps.Keys(f.channels)) {
		c := f.channels[name]
		out.Channels = append(out.Channels, savedChannel{c, order(c.Active), order(c.Latest), order(c.Converged)})
	}
	for _, i := range slices.Sorted(maps.Keys(kept)) {
		out.Rollouts = append(out.Rollouts, savedRollout{kept[i], kept[i].Manifest.Digest, slices.SortedFunc(maps.Keys(kept[i].Accepted), compareFailing)})
	}
	return json.Marshal(out)
}

func compareFailing(a, b Failing) int {
	return cmp.Or(strings.Compare(a.Host, b.Host), strings.Compare(a.Control, b.Control))
}

// Restore returns the facts that a snapshot was made of.
func Restore(raw []byte, docs Documents) (*Facts, error) {
	var in saved
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	f := New(docs)
	f.Epoch, f.Overrides, f.Edges, f.issued, f.accepted, f.resumed = in.Epoch, in.Overrides, in.Edges, in.Issued, in.Accepted, in.Resumed
	f.latest, f.before, f.releaseEpoch, f.asked, f.opened = in.Latest, in.Before, in.ReleaseEpoch, in.Requested, in.Opened
	maps.Copy(f.Barred, in.Barred)
	for _, h := range in.Hosts {
		if h == nil {
			return nil, errors.New("a host is missing")
		}
		f.hosts[h.Name] = h
		f.keyed(h, nil)
	}
	kept := map[int]*Rollout{}
	for _, s := range in.Rollouts {
		m, err := docs.Manifest(s.Manifest)
		if err != nil {
			return nil, err
		}
		r := cmp.Or(s.Rollout, &Rollout{})
		r.Manifest, r.members = m, f.members(m)
		if r.Forced != nil || s.Accepted != nil {
			r.Accepted = map[Failing]bool{}
		}
		for _, x := range s.Accepted {
			r.Accepted[x] = true
		}
		if kept[r.Order] = r; r.Phase != rollout.Pruned { // which a channel may still name
			f.Rollouts = append(f.Rollouts, r)
		}
	}
	for _, s := range in.Channels {
		c := cmp.Or(s.Channel, &Channel{})
		for _, to := range []struct {
			r     **Rollout
			order *int
		}{{&c.Active, s.Active}, {&c.Latest, s.Latest}, {&c.Converged, s.Converged}} {
			if to.order == nil {
				continue
			}
			if *to.r = kept[*to.order]; *to.r == nil {
				return nil, fmt.Errorf("channel %s names rollout %d, which is not there", c.Name, *to.order)
			}
		}
		f.channels[c.Name] = c
	}
	return f, nil
}
