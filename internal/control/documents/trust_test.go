package documents

import (
	"context"
	"maps"
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/wire"
)

type blobs map[digest.Digest][]byte

func (s blobs) Blob(_ context.Context, d digest.Digest) ([]byte, error) {
	if b, ok := s[d]; ok {
		return b, nil
	}
	return nil, store.ErrNotFound
}

func (s blobs) put(b []byte) digest.Digest {
	d := digest.Of(b)
	s[d] = b
	return d
}

// A root that was recorded is what a new host begins with, and a view that was
// published before never changes.
func TestRootIsRememberedAndPublished(t *testing.T) {
	shelf := blobs{}
	m := NewTrust(New(shelf))
	env := testkit.Value(testfleet.NewKeys("").First())(t)
	testkit.Must(t, m.fold(event.RootTrusted{Version: 1, Epoch: 1, Root: shelf.put(env)}))
	before := m.State
	marks := maps.Clone(before.Marks)
	s := plan.New(New(shelf))
	s.Root.Version, s.Root.Root = 1, digest.Of(env)
	v := testkit.Value(m.View(testfleet.Name, s, nil))(t)
	if v.Files["1.root.json"] != digest.Of(env) || len(v.Files) != 1 || v.Roster != nil {
		t.Errorf("files %v, roster %v", v.Files, v.Roster)
	}
	raw, _, epoch, versions, err := v.Roots()
	testkit.Must(t, err)
	if string(raw) != string(env) || epoch != 1 || len(versions) != 0 {
		t.Errorf("a new host begins with epoch %d, versions %v", epoch, versions)
	}
	testkit.Must(t, m.fold(event.RootTrusted{Version: 1, Epoch: 1, Root: shelf.put(testkit.Value(testfleet.NewKeys("").First())(t))}))
	if !maps.Equal(before.Marks, marks) || maps.Equal(m.State.Marks, marks) {
		t.Error("marks that were published changed, or those remembered did not")
	}
	if err := m.fold(event.RootTrusted{Version: 2, Root: digest.Of([]byte("gone"))}); err == nil {
		t.Error("a root without its envelope was learnt")
	}
}

// A part of the view that cannot be read keeps its last value, and says so.
func TestUnreadablePartsKeepTheirValue(t *testing.T) {
	shelf := blobs{}
	m := NewTrust(New(shelf))
	env := testkit.Value(testfleet.NewKeys("").First())(t)
	testkit.Must(t, m.fold(event.RootTrusted{Version: 1, Epoch: 1, Root: shelf.put(env)}))
	s := plan.New(New(shelf))
	s.Root.Version, s.Root.Root = 1, digest.Of(env)
	old := testkit.Value(m.View(testfleet.Name, s, nil))(t)
	old.Roster = map[string]fleet.RosterHost{"web-1": {}}
	s.Release.Roster = digest.Of([]byte("gone"))
	s.Release.Envelopes = map[string]digest.Digest{wire.TrustResolved: "r", "2.root.json": "n", RosterFile: "p", "02.root.json": "x"}
	m.State.Root = []byte("no envelope")
	v, err := m.View(testfleet.Name, s, old)
	if err == nil {
		t.Error("nothing was said of an unreadable roster and root")
	}
	if len(v.Roster) != 1 || v.Verifier.RootVersion() != 1 {
		t.Errorf("the roster is %v, the root %d", v.Roster, v.Verifier.RootVersion())
	}
	want := map[string]digest.Digest{wire.TrustResolved: "r", "2.root.json": "n", "1.root.json": digest.Of(env)}
	if !maps.Equal(v.Files, want) {
		t.Errorf("the trust route has %v, expected %v", v.Files, want)
	}
}

func TestChangesAreThoseOfTrust(t *testing.T) {
	for _, name := range event.Types() {
		want := name == event.RootTrusted{}.EventType() || name == event.ReleaseAccepted{}.EventType() || name == event.TimestampAccepted{}.EventType()
		if ChangesTrust(name) != want {
			t.Errorf("ChangesTrust(%s) is %t", name, !want)
		}
	}
}
