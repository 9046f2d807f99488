package trusted_test

import (
	"context"
	"crypto/ed25519"
	"maps"
	"testing"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/control/trusted"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type shelf map[digest.Digest][]byte

func (s shelf) Blob(_ context.Context, d digest.Digest) ([]byte, error) {
	if b, ok := s[d]; ok {
		return b, nil
	}
	return nil, store.ErrNotFound
}

func (s shelf) put(b []byte) digest.Digest {
	d := digest.Of(b)
	s[d] = b
	return d
}

func root(t testing.TB) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	must(t, err)
	s, err := trust.NewSigner(key)
	must(t, err)
	spec := map[trust.Role]trust.RoleSpec{}
	for _, role := range trust.Roles() {
		_, other, err := ed25519.GenerateKey(nil)
		must(t, err)
		spec[role] = trust.RoleSpec{Keys: []ed25519.PublicKey{other.Public().(ed25519.PublicKey)}, Threshold: 1}
	}
	spec[trust.RoleRoot] = trust.RoleSpec{Keys: []ed25519.PublicKey{s.Public()}, Threshold: 1}
	r, err := trust.NewRoot(fleet.Document{Fleet: "acme", Epoch: 1, Version: 1, IssuedAt: 1}, clock.Instant(1).Add(clock.Day), spec)
	must(t, err)
	env, err := trust.SignRoot(r, s)
	must(t, err)
	return env
}

// A root that was recorded is what a new host begins with, and a view that was
// published before never changes.
func TestRootIsRememberedAndPublished(t *testing.T) {
	blobs := shelf{}
	m := trusted.Remember(trust.State{}, nil, documents.New(blobs))
	env := root(t)
	must(t, m.Learn(event.RootTrusted{Version: 1, Epoch: 1, Root: blobs.put(env)}))
	before := m.State
	marks := maps.Clone(before.Marks)
	s := plan.New(documents.New(blobs))
	s.Root.Version, s.Root.Root = 1, digest.Of(env)
	v, err := m.View("acme", s, nil)
	must(t, err)
	if v.Files["1.root.json"] != digest.Of(env) || len(v.Files) != 1 || v.Roster != nil {
		t.Errorf("files %v, roster %v", v.Files, v.Roster)
	}
	raw, _, epoch, versions, err := v.Roots()
	must(t, err)
	if string(raw) != string(env) || epoch != 1 || len(versions) != 0 {
		t.Errorf("a new host begins with epoch %d, versions %v", epoch, versions)
	}
	must(t, m.Learn(event.RootTrusted{Version: 1, Epoch: 1, Root: blobs.put(root(t))}))
	if !maps.Equal(before.Marks, marks) || maps.Equal(m.State.Marks, marks) {
		t.Error("marks that were published changed, or those remembered did not")
	}
	if err := m.Learn(event.RootTrusted{Version: 2, Root: digest.Of([]byte("gone"))}); err == nil {
		t.Error("a root without its envelope was learnt")
	}
}

// A part of the view that cannot be read keeps its last value, and says so.
func TestUnreadablePartsKeepTheirValue(t *testing.T) {
	blobs := shelf{}
	m := trusted.Remember(trust.State{}, nil, documents.New(blobs))
	env := root(t)
	must(t, m.Learn(event.RootTrusted{Version: 1, Epoch: 1, Root: blobs.put(env)}))
	s := plan.New(documents.New(blobs))
	s.Root.Version, s.Root.Root = 1, digest.Of(env)
	old, err := m.View("acme", s, nil)
	must(t, err)
	old.Roster = map[string]fleet.RosterHost{"web-1": {}}
	s.Release.Roster = digest.Of([]byte("gone"))
	s.Release.Envelopes = map[string]digest.Digest{wire.TrustResolved: "r", "2.root.json": "n", trusted.RosterFile: "p", "02.root.json": "x"}
	m.State.Root = []byte("no envelope")
	v, err := m.View("acme", s, old)
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
		if trusted.Changes(name) != want {
			t.Errorf("Changes(%s) is %t", name, !want)
		}
	}
}
