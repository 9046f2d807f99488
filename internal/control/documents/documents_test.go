package documents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// shelf is blobs in memory that counts how often each is read.
type shelf struct {
	blobs map[digest.Digest][]byte
	reads map[digest.Digest]int
}

func (s *shelf) Blob(_ context.Context, d digest.Digest) ([]byte, error) {
	s.reads[d]++
	b, ok := s.blobs[d]
	if !ok {
		return nil, store.ErrNotFound
	}
	return b, nil
}

func (s *shelf) put(b []byte) digest.Digest {
	d := digest.Of(b)
	s.blobs[d] = b
	return d
}

// publish puts a manifest of so many hosts on the shelf and returns the event
// that names it.
func (s *shelf) publish(t testing.TB, ref string, hosts int) (event.ReleaseAccepted, digest.Digest) {
	t.Helper()
	var leaves [][]byte
	for i := range hosts {
		leaf := testkit.Value(json.Marshal(fleet.Leaf{Host: fmt.Sprintf("h-%03d", i), Target: digest.Of([]byte("bundle"))}))(t)
		leaves = append(leaves, leaf)
	}
	members := testkit.Value(json.Marshal(fleet.BudgetMembers{Type: fleet.TypeBudget, Hosts: []string{"h-000"}}))(t)
	env, d, err := testfleet.NewKeys("").Sign(trust.RoleRelease, fleet.TypeManifest, fleet.Manifest{Document: fleet.Document{Type: fleet.TypeManifest, Version: 1}, Channel: "c", Ref: ref,
		LeafCount: hosts, LeavesRoot: fmt.Sprintf("%x", trust.LeavesRoot(leaves)), Budgets: []fleet.Budget{{Max: 1, Members: s.put(members)}}})
	testkit.Must(t, err)
	list := []byte("[")
	for i, l := range leaves {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, l...)
	}
	name := "c@" + ref
	return event.ReleaseAccepted{
		Channels:  []event.ChannelRelease{{Channel: "c", Manifests: []fleet.ManifestRef{{Rollout: name, Digest: d, Version: 1}}}},
		Envelopes: map[string]digest.Digest{documents.EnvelopeFile(name): s.put(env), documents.LeavesFile(name): s.put(append(list, ']'))},
	}, d
}

func newShelf() *shelf {
	return &shelf{blobs: map[digest.Digest][]byte{}, reads: map[digest.Digest]int{}}
}

// Every host of a manifest is given its own leaf with a proof that holds, and
// the envelope byte for byte.
func TestEveryLeafIsProven(t *testing.T) {
	s := newShelf()
	ev, d := s.publish(t, "1", 37)
	l := documents.New(s)
	l.Learn(ev)
	m := testkit.Value(l.Manifest(d))(t)
	if len(m.Leaves) != 37 || len(m.Members) != 1 || m.Members[0][0] != "h-000" {
		t.Fatalf("%d leaves, budgets %v", len(m.Leaves), m.Members)
	}
	var root []byte
	testkit.Value(fmt.Sscanf(m.Header.LeavesRoot, "%x", &root))(t)
	for i := range m.Leaves {
		raw, ok, err := l.HostManifest(d, m.Leaves[i].Host)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		var got wire.HostManifest
		testkit.Must(t, wire.Decode(raw, &got))
		if digest.Of(got.Envelope) != ev.Envelopes[documents.EnvelopeFile("c@1")] {
			t.Fatal("the envelope was encoded again")
		}
		h := rfc6962.DefaultHasher
		testkit.Must(t, proof.VerifyInclusion(h, uint64(got.Leaf.Index), 37, h.HashLeaf(got.Leaf.Leaf), got.Leaf.Proof, root))
		var leaf fleet.Leaf
		testkit.Must(t, json.Unmarshal(got.Leaf.Leaf, &leaf))
		if leaf.Host != m.Leaves[i].Host {
			t.Fatalf("%s was given the leaf of %s", m.Leaves[i].Host, leaf.Host)
		}
	}
	if _, ok, err := l.HostManifest(d, "stranger"); ok || err != nil {
		t.Errorf("a stranger has a leaf: %v", err)
	}
}

// A manifest that cannot be read is tried again, and one that is not what its
// name says is refused.
func TestUnreadableManifestIsTriedAgain(t *testing.T) {
	s := newShelf()
	ev, d := s.publish(t, "1", 2)
	l := documents.New(s)
	if _, err := l.Manifest(d); err == nil {
		t.Fatal("a manifest that no release lists was found")
	}
	l.Learn(ev)
	place := ev.Envelopes[documents.EnvelopeFile("c@1")]
	env := s.blobs[place]
	delete(s.blobs, place)
	if _, err := l.Manifest(d); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("without its envelope: %v", err)
	}
	s.blobs[place] = env
	testkit.Value(l.Manifest(d))(t)
	other, e := s.publish(t, "2", 2)
	ev.Channels[0].Manifests[0].Digest = e
	ev.Channels[0].Manifests[0].Rollout = "c@1"
	l.Learn(ev)
	if _, err := l.Manifest(e); err == nil {
		t.Fatal("an envelope of another manifest was taken")
	}
	l.Learn(other)
	testkit.Value(l.Manifest(e))(t)
}

// What a snapshot keeps of the library is enough to find everything again, and
// memory is bounded whatever is asked for.
func TestPlacesSurviveAndMemoryIsBounded(t *testing.T) {
	s := newShelf()
	first := documents.New(s)
	var all []digest.Digest
	for i := range 40 {
		ev, d := s.publish(t, fmt.Sprint(i), 1)
		first.Learn(ev)
		all = append(all, d)
	}
	again, later := s.publish(t, "0", 2) // the same name under new keys
	first.Learn(again)
	raw := testkit.Value(json.Marshal(first.Places()))(t)
	var places map[digest.Digest]documents.Place
	testkit.Must(t, json.Unmarshal(raw, &places))
	l := documents.New(s)
	l.Restore(places)
	for i, d := range all {
		m := testkit.Value(l.Manifest(d))(t)
		if m.Digest != d {
			t.Fatalf("manifest %d is %s", i, m.Digest)
		}
		want := d
		if i == 0 {
			want = later
		}
		if got, ok := l.Newest(fmt.Sprintf("c@%d", i)); !ok || got != want {
			t.Fatalf("rollout %d is %s", i, got)
		}
	}
	place := places[all[0]].Envelope
	before := s.reads[place]
	for range 3 {
		testkit.Value(l.Manifest(all[0]))(t)
	}
	if n := s.reads[place] - before; n != 1 {
		t.Errorf("a manifest that was dropped was read %d times for three questions, expected once", n)
	}
	b := s.put([]byte("small"))
	for range 3 {
		testkit.Value(l.Blob(context.Background(), b))(t)
	}
	if s.reads[b] != 1 {
		t.Errorf("a small blob was read %d times", s.reads[b])
	}
}

// S33: a checkpoint has the places of the manifests that the state and the audit read, and
// of no other: the documents of old releases go with the records that name them.
func TestS33CheckpointForgetsOldManifests(t *testing.T) {
	s := newShelf()
	library := documents.New(s)
	var all []digest.Digest
	for _, ref := range []string{"v1", "v2", "v3"} {
		ev, d := s.publish(t, ref, 2)
		library.Learn(ev)
		all = append(all, d)
	}
	state := server.NewState(library, documents.NewTrust(library))
	c := documents.Checkpoint{State: testkit.Value(state.Snapshot())(t), Audit: []byte(`{"Manifest":"` + all[1] + `"}`)}
	whole := c
	testkit.Must(t, c.Forget(all[2:]))
	if d := c.Differs(&whole); d != "" {
		t.Errorf("it differs in %s", d)
	}
	again := documents.New(s)
	_, _, err := c.Fold(again)
	testkit.Must(t, err)
	left := slices.Sorted(maps.Keys(again.Places()))
	if want := slices.Sorted(slices.Values(all[1:])); !slices.Equal(left, want) {
		t.Errorf("it knows the places of %d manifests, expected %d", len(left), len(want))
	}
}
