// Package documents verifies a pushed release against what the fleet trusts, keeps its
// files as blobs, and returns as data what is to be recorded. From then on it gives the
// server the content of what releases name: the manifests with their leaves and budgets,
// each host's leaf with its proof, and blobs; and the proofs of failures that a host is
// shown before it goes back. It knows where documents are from the log's ReleaseAccepted
// events, and keeps what is in use in memory. It appends nothing.
package documents

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Blobs gives bytes by digest.
type Blobs interface {
	Blob(ctx context.Context, d digest.Digest) ([]byte, error)
}

// Place says which blobs hold a manifest.
type Place struct {
	Rollout  string        `json:"rollout"`
	Envelope digest.Digest `json:"envelope"`
	Leaves   digest.Digest `json:"leaves"`
	// Order counts the manifests: of two with one name, from two key epochs, the
	// later one is meant.
	Order uint64 `json:"order"`
}

// maxLoaded is how many manifests stay in memory besides those that the state
// itself holds.
const maxLoaded = 16

// Library is safe for concurrent use.
type Library struct {
	blobs Blobs
	small cache

	mu     sync.Mutex
	places map[digest.Digest]Place
	newest map[string]digest.Digest // by rollout name
	loaded map[digest.Digest]*volume
	// contents are what dispatches carry, by bundle; nothing in them is changed.
	contents map[digest.Digest]map[digest.Digest][]byte
	clock    uint64
	order    uint64
}

// volume is one manifest in memory.
type volume struct {
	once     sync.Once
	err      error
	manifest *rollout.Manifest
	envelope []byte
	leaves   []json.RawMessage
	tree     func() *trust.Tree
	used     uint64
}

// New returns an empty library over blobs.
func New(blobs Blobs) *Library {
	return &Library{blobs: blobs, small: newCache(), places: map[digest.Digest]Place{},
		newest: map[string]digest.Digest{}, loaded: map[digest.Digest]*volume{}, contents: map[digest.Digest]map[digest.Digest][]byte{}}
}

// EnvelopeFile and LeavesFile name a rollout's files in a release.
func EnvelopeFile(rollout string) string { return "rollouts/" + rollout + ".json" }

// LeavesFile names the list of a rollout's leaves.
func LeavesFile(rollout string) string { return "rollouts/" + rollout + ".leaves.json" }

// Learn takes where the manifests of a release are. Learning it again changes
// nothing.
func (l *Library) Learn(ev event.ReleaseAccepted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range ev.Channels {
		for _, m := range c.Manifests {
			env, leaves := ev.Envelopes[EnvelopeFile(m.Rollout)], ev.Envelopes[LeavesFile(m.Rollout)]
			if env == "" || leaves == "" {
				continue
			}
			order := l.places[m.Digest].Order
			if l.newest[m.Rollout] != m.Digest {
				l.order++
				order = l.order
			}
			if place, ok := l.places[m.Digest]; ok && place.Envelope != env {
				delete(l.loaded, m.Digest) // the same manifest, signed by other keys
			}
			l.places[m.Digest] = Place{Rollout: m.Rollout, Envelope: env, Leaves: leaves, Order: order}
			l.newest[m.Rollout] = m.Digest
		}
	}
}

// Prepare learns a release ahead of its event, and reads the newest manifest of
// each channel so that the reducer finds it in memory.
func (l *Library) Prepare(ev event.ReleaseAccepted) error {
	l.Learn(ev)
	for _, c := range ev.Channels {
		if len(c.Manifests) > 0 {
			if _, err := l.Manifest(c.Manifests[0].Digest); err != nil {
				return err
			}
		}
	}
	return nil
}

// Places returns all that was learnt, for a snapshot.
func (l *Library) Places() map[digest.Digest]Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.places)
}

// Restore takes back what Places returned.
func (l *Library) Restore(places map[digest.Digest]Place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d, p := range places {
		l.places[d] = p
		l.order = max(l.order, p.Order)
		if other, ok := l.newest[p.Rollout]; !ok || l.places[other].Order <= p.Order {
			l.newest[p.Rollout] = d
		}
	}
}

// Newest returns the manifest of a rollout by its name.
func (l *Library) Newest(rollout string) (digest.Digest, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, ok := l.newest[rollout]
	return d, ok
}

// Manifest implements plan.Documents.
func (l *Library) Manifest(d digest.Digest) (*rollout.Manifest, error) {
	v, err := l.open(d)
	if err != nil {
		return nil, err
	}
	return v.manifest, nil
}

func (l *Library) open(d digest.Digest) (*volume, error) {
	l.mu.Lock()
	place, ok := l.places[d]
	if !ok {
		l.mu.Unlock()
		return nil, fmt.Errorf("no accepted release lists manifest %s", d.Short())
	}
	v := l.loaded[d]
	if v == nil {
		v = &volume{}
		l.loaded[d] = v
		l.evict()
	}
	l.clock++
	v.used = l.clock
	l.mu.Unlock()
	v.once.Do(func() { v.err = v.load(l.blobs, d, place) })
	if v.err != nil {
		l.mu.Lock()
		if l.loaded[d] == v {
			delete(l.loaded, d) // the next call tries again
		}
		l.mu.Unlock()
		return nil, fmt.Errorf("manifest %s of rollout %s: %w", d.Short(), place.Rollout, v.err)
	}
	return v, nil
}

// evict drops the volume that was used longest ago.
func (l *Library) evict() {
	if len(l.loaded) <= maxLoaded {
		return
	}
	var oldest digest.Digest
	for d, v := range l.loaded {
		if o := l.loaded[oldest]; v.used != 0 && (o == nil || v.used < o.used) {
			oldest = d
		}
	}
	delete(l.loaded, oldest)
}

// load reads a manifest that was verified when its release was accepted.
func (v *volume) load(blobs Blobs, d digest.Digest, place Place) error {
	ctx := context.Background()
	var err error
	if v.envelope, err = blobs.Blob(ctx, place.Envelope); err != nil {
		return err
	}
	env, err := trust.ParseEnvelope(v.envelope)
	if err != nil {
		return err
	}
	if got := digest.Of(env.Payload); got != d {
		return fmt.Errorf("its envelope contains manifest %s", got.Short())
	}
	m := &rollout.Manifest{Digest: d, Header: new(fleet.Manifest)}
	if err := trust.Decode(env.Payload, trust.MaxEnvelope, m.Header); err != nil {
		return err
	}
	raw, err := blobs.Blob(ctx, place.Leaves)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &v.leaves); err != nil {
		return fmt.Errorf("its leaves: %w", err)
	}
	m.Leaves = make([]fleet.Leaf, len(v.leaves))
	for i, leaf := range v.leaves {
		if err := json.Unmarshal(leaf, &m.Leaves[i]); err != nil {
			return fmt.Errorf("leaf %d: %w", i, err)
		}
	}
	for _, b := range m.Header.Budgets {
		raw, err := blobs.Blob(ctx, b.Members)
		if err != nil {
			return fmt.Errorf("members of budget %s: %w", b.Selector, err)
		}
		var members fleet.BudgetMembers
		if err := trust.Decode(raw, trust.MaxList, &members); err != nil {
			return fmt.Errorf("members of budget %s: %w", b.Selector, err)
		}
		m.Members = append(m.Members, members.Hosts)
	}
	v.manifest = m
	v.tree = sync.OnceValue(func() *trust.Tree {
		leaves := make([][]byte, len(v.leaves))
		for i := range v.leaves {
			leaves[i] = v.leaves[i]
		}
		return trust.NewTree(leaves)
	})
	return nil
}

// Leaf returns a host's leaf of a manifest with its proof; not ok when the
// manifest has none.
func (l *Library) Leaf(d digest.Digest, host string) (p wire.LeafProof, ok bool, err error) {
	v, err := l.open(d)
	if err != nil {
		return p, false, err
	}
	return v.leaf(host)
}

func (v *volume) leaf(host string) (p wire.LeafProof, ok bool, err error) {
	i, ok := v.manifest.Leaf(host)
	if !ok {
		return p, false, nil
	}
	proof, err := v.tree().InclusionProof(uint64(i))
	if err != nil {
		return p, false, err
	}
	return wire.LeafProof{Leaf: v.leaves[i], Index: i, Proof: proof.Hashes}, true, nil
}

// HostManifest returns a wire.HostManifest as JSON, the envelope in it as it was
// received; not ok when the manifest has no leaf for the host.
func (l *Library) HostManifest(d digest.Digest, host string) (body []byte, ok bool, err error) {
	v, err := l.open(d)
	if err != nil {
		return nil, false, err
	}
	p, ok, err := v.leaf(host)
	if err != nil || !ok {
		return nil, ok, err
	}
	leaf, err := json.Marshal(p)
	if err != nil {
		return nil, false, err
	}
	body = make([]byte, 0, len(v.envelope)+len(leaf)+32)
	body = append(body, `{"envelope":`...)
	body = append(body, v.envelope...)
	body = append(body, `,"leaf":`...)
	body = append(body, leaf...)
	return append(body, '}'), true, nil
}

// Blob returns a blob; small ones stay in memory.
func (l *Library) Blob(ctx context.Context, d digest.Digest) ([]byte, error) {
	if b, ok := l.small.get(d); ok {
		return b, nil
	}
	b, err := l.blobs.Blob(ctx, d)
	if err == nil {
		l.small.put(d, b)
	}
	return b, err
}

// BudgetsOf names the member lists that a manifest's envelope needs.
func BudgetsOf(envelope []byte) ([]digest.Digest, error) {
	env, err := trust.ParseEnvelope(envelope)
	if err != nil {
		return nil, err
	}
	var header fleet.Manifest
	if err := trust.Decode(env.Payload, trust.MaxEnvelope, &header); err != nil {
		return nil, err
	}
	members := make([]digest.Digest, len(header.Budgets))
	for i := range header.Budgets {
		members[i] = header.Budgets[i].Members
	}
	return members, nil
}
