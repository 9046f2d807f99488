package trust

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// restart takes a state through its JSON, as a process that was killed does.
func restart(t testkit.T, s State) State {
	raw := testkit.Value(json.Marshal(s))(t)
	var back State
	testkit.Must(t, json.Unmarshal(raw, &back))
	if d := cmp.Diff(s, back); d != "" {
		t.Fatal("a state does not survive JSON: " + d)
	}
	return back
}

// TestS5MonotonicTrust offers valid documents of many versions and epochs in any
// order, with restarts between: what is accepted never goes back.
func TestS5MonotonicTrust(t *testing.T) {
	k1, k2 := newKeys(t, "1"), newKeys(t, "2")
	root1, root2 := k1.root(t, 1, 1), k2.root(t, 2, 2, k1[RoleRoot])
	var releases []release
	for version := range uint64(4) {
		releases = append(releases, newRelease(t, k1, 1, version+1), newRelease(t, k2, 2, version+1))
	}
	rapid.Check(t, func(t *rapid.T) {
		s := testkit.Value(Begin(testFleet, root1, ""))(t)
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			s = restart(t, s)
			v := testkit.Value(NewVerifier(testFleet, s))(t)
			next := s
			if i := rapid.IntRange(0, len(releases)).Draw(t, "offer"); i == len(releases) {
				if n, err := v.Root(root2); err == nil {
					next = n
				}
			} else if a, err := releases[i].accept(v, day0); err == nil {
				next = a.v.State()
				got := releases[i].resolvedDoc
				if m := s.Marks[fleet.TypeResolved]; got.Epoch < m.Epoch || (got.Epoch == m.Epoch && got.Version < m.Version) {
					t.Fatalf("accepted %d/%d after %d/%d", got.Epoch, got.Version, m.Epoch, m.Version)
				}
			}
			for docType, old := range s.Marks {
				m := next.Marks[docType]
				if m.Epoch < old.Epoch || (m.Epoch == old.Epoch && m.Version < old.Version) {
					t.Fatalf("mark of %s went from %+v to %+v", docType, old, m)
				}
			}
			if next.Floor < s.Floor {
				t.Fatal("the floor went back")
			}
			s = next
		}
	})
}

func TestS5RollbackAndEquivocation(t *testing.T) {
	k := newKeys(t, "1")
	v := begin(t, k.root(t, 1, 1))
	old, now := newRelease(t, k, 1, 4), newRelease(t, k, 1, 5)
	a := testkit.Value(now.accept(v, day0))(t)
	before := restart(t, a.v.State())

	if _, err := old.accept(a.v, day0); CodeOf(err) != Rollback {
		t.Errorf("an older release: %v", err)
	}
	if _, err := now.accept(a.v, day0); err != nil {
		t.Errorf("the same release again: %v", err)
	}
	// A new timestamp that names an older snapshot.
	lower := envelope(t, fleet.TypeTimestamp, fleet.Timestamp{Document: head(fleet.TypeTimestamp, 1, 6),
		Resolved: payloadDigest(t, old.resolved), ResolvedVersion: 4}, k[RoleTimestamp])
	if _, _, err := a.v.Timestamp(lower, day0); CodeOf(err) != Rollback {
		t.Errorf("a timestamp that names an older snapshot: %v", err)
	}
	// The same version with other content, at each place that can differ.
	forked := now
	forked.resolvedDoc.Ref = "fork"
	forked = forked.snapshot(t, k)
	if _, _, err := a.v.Timestamp(forked.timestamp, day0); CodeOf(err) != Equivocation {
		t.Errorf("a timestamp for another snapshot of the same version: %v", err)
	}
	if _, _, err := a.v.Resolved(forked.resolved, a.timestamp); CodeOf(err) != Equivocation {
		t.Errorf("another snapshot of the same version: %v", err)
	}
	// Another manifest under a name that was seen, in a newer release.
	renamed := newRelease(t, k, 1, 6)
	renamed.manifestDoc.Ref = now.manifestDoc.Ref
	renamed = renamed.relink(t, k)
	if _, err := renamed.accept(a.v, day0); CodeOf(err) != Equivocation {
		t.Errorf("another manifest under the same name: %v", err)
	}
	if d := cmp.Diff(before, a.v.State()); d != "" {
		t.Errorf("a refusal changed the state: %s", d)
	}
}

func TestTokenFloorsHoldOnANewHost(t *testing.T) {
	k := newKeys(t, "1")
	v := begin(t, k.root(t, 1, 1))
	v = testkit.Value(v.With(v.State().AtLeast(1, map[string]uint64{fleet.TypeResolved: 5, TypeRoot: 1})))(t)
	if _, err := newRelease(t, k, 1, 4).accept(v, day0); CodeOf(err) != Rollback {
		t.Errorf("older than the token allows: %v", err)
	}
	if _, err := newRelease(t, k, 1, 5).accept(v, day0); err != nil {
		t.Errorf("exactly what the token asks for: %v", err)
	}
	if m := v.State().AtLeast(1, map[string]uint64{fleet.TypeResolved: 1}).Marks[fleet.TypeResolved]; m.Version != 5 {
		t.Errorf("a mark was lowered to %d", m.Version)
	}
}

func TestPrune(t *testing.T) {
	s := State{Pins: map[string]Mark{}}
	d := func(i int) digest.Digest { return digest.Of([]byte{byte(i)}) }
	for i := range 10 {
		s.Pins[fmt.Sprintf("stable@%d", i)] = Mark{Epoch: 1, Version: uint64(i + 1), Digest: d(i)}
	}
	got := s.Prune(3, d(0)).Pins
	if len(got) != 3 || got["stable@0"].Digest != d(0) || got["stable@9"].Digest != d(9) || got["stable@8"].Digest != d(8) {
		t.Errorf("kept %v", got)
	}
	if len(s.Pins) != 10 {
		t.Error("the state it was called on changed")
	}
	if got := s.Prune(0, d(0), d(1)).Pins; len(got) != 2 {
		t.Errorf("what must be kept goes over the limit: %v", got)
	}
}

func TestFreshness(t *testing.T) {
	k := newKeys(t, "1")
	v := begin(t, k.root(t, 1, 1))
	r := newRelease(t, k, 1, 1)
	ts, s, err := v.Timestamp(r.timestamp, day0)
	testkit.Must(t, err)
	v, err = v.With(s)
	testkit.Must(t, err)
	if v.State().Floor != day0 {
		t.Fatalf("the floor is %s", v.State().Floor)
	}
	for _, c := range []struct {
		name string
		wall clock.Instant
		code Code
	}{
		{"now", day0, ""},
		{"at the window", day0.Add(clock.Day), ""},
		{"within the slack", day0.Add(clock.Day + Slack), ""},
		{"past it", day0.Add(clock.Day + Slack + 1), Stale},
		{"a clock that fell back uses the floor", 1, ""},
	} {
		if err := v.Fresh(ts, clock.Day, c.wall); CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %q", c.name, err, c.code)
		}
	}
	if err := v.Fresh(ts, 0, day0); CodeOf(err) != Stale {
		t.Errorf("no window: %v", err)
	}
	if err := v.Fresh(Verified[fleet.Timestamp]{}, clock.Day, day0); CodeOf(err) != ManifestMissing {
		t.Errorf("no timestamp: %v", err)
	}
	// Signed in the future: held against the wall, or against the floor.
	fresh := begin(t, k.root(t, 1, 1))
	if _, _, err := fresh.Timestamp(r.timestamp, day0.Add(-Slack)); err != nil {
		t.Errorf("a minute ahead: %v", err)
	}
	if _, _, err := fresh.Timestamp(r.timestamp, day0.Add(-Slack-1)); CodeOf(err) != FutureDated {
		t.Errorf("more than a minute ahead: %v", err)
	}
	// A forward jump of the clock refuses, and leaves nothing behind.
	if _, _, err := v.Timestamp(r.timestamp, day0.Add(10*365*clock.Day)); CodeOf(err) != Expired {
		t.Errorf("past the expiry of the root: %v", err)
	}
	if _, _, err := v.Timestamp(r.timestamp, day0); err != nil {
		t.Errorf("after the clock was set right: %v", err)
	}
}
