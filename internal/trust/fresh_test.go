package trust

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// The tests below begin with a host that remembers nothing: only the root and
// the links between the documents can refuse.

func TestS5AnEndedEpochNeedsNoMemory(t *testing.T) {
	k1, k2 := newKeys(t, "1"), newKeys(t, "2")
	v := begin(t, k2.root(t, 2, 2, k1[RoleRoot]))
	for epoch, want := range map[uint64]Code{1: Rollback, 2: "", 3: RootInvalid} {
		r := newRelease(t, k2, epoch, 1)
		if _, _, err := v.Timestamp(r.timestamp, day0); CodeOf(err) != want {
			t.Errorf("a timestamp of epoch %d under a root of epoch 2: %v", epoch, err)
		}
	}
}

// TestS6LinksAreByContent: a fork of the snapshot with the version that the
// timestamp names is not the one that it names; so with every other link.
func TestS6LinksAreByContent(t *testing.T) {
	k := newKeys(t, "1")
	v := begin(t, k.root(t, 1, 1))
	r := newRelease(t, k, 1, 1)
	fork := r
	fork.resolvedDoc.Ref = "fork"
	fork = fork.snapshot(t, k)
	ts, _, err := v.Timestamp(r.timestamp, day0)
	testkit.Must(t, err)
	if _, _, err := v.Resolved(fork.resolved, ts); CodeOf(err) != NotListed {
		t.Errorf("a fork of the snapshot: %v", err)
	}
	a, err := r.accept(v, day0)
	testkit.Must(t, err)
	shorter := canonical(t, fleet.BudgetMembers{Type: fleet.TypeBudget, Hosts: testHosts[:1]})
	if _, err := v.Budget(a.manifest, 0, shorter); CodeOf(err) != NotListed {
		t.Errorf("other budget members: %v", err)
	}
	for _, index := range []int{-1, 1} {
		if _, err := v.Budget(a.manifest, index, r.budget); CodeOf(err) != NotListed {
			t.Errorf("a budget that is not there: %v", err)
		}
	}
}

func TestListsAreOfTheRootsEpoch(t *testing.T) {
	k := newKeys(t, "1")
	for name, c := range map[string]struct {
		doc  fleet.Document
		code Code
	}{
		"a later epoch": {head(fleet.TypeRoster, 2, 1), RootInvalid},
		"other fleet":   {fleet.Document{Type: fleet.TypeRoster, Fleet: "other", Epoch: 1, Version: 1, IssuedAt: day0}, WrongFleet},
		"no version":    {head(fleet.TypeRoster, 1, 0), Malformed},
	} {
		r := newRelease(t, k, 1, 1)
		r.roster = canonical(t, fleet.Roster{Document: c.doc})
		r.resolvedDoc.Roster = digestOf(r.roster)
		if _, err := r.snapshot(t, k).accept(begin(t, k.root(t, 1, 1)), day0); CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
	r := newRelease(t, k, 1, 1)
	r.resolvedDoc.Roster = ""
	if _, err := r.snapshot(t, k).accept(begin(t, k.root(t, 1, 1)), day0); CodeOf(err) != NotListed {
		t.Errorf("a roster that nothing names: %v", err)
	}
}

func TestListsHoldOnlyNames(t *testing.T) {
	k := newKeys(t, "1")
	root := k.root(t, 1, 1)
	bad := map[string]func(r *release){
		"roster host": func(r *release) {
			r.roster = canonical(t, fleet.Roster{Document: head(fleet.TypeRoster, 1, 1), Hosts: map[string]fleet.RosterHost{"../x": {Channel: "stable"}}})
			r.resolvedDoc.Roster = digestOf(r.roster)
		},
		"roster channel": func(r *release) {
			r.roster = canonical(t, fleet.Roster{Document: head(fleet.TypeRoster, 1, 1), Hosts: map[string]fleet.RosterHost{"x": {Channel: "a b"}}})
			r.resolvedDoc.Roster = digestOf(r.roster)
		},
		"revoked host": func(r *release) {
			r.revocations = canonical(t, fleet.Revocations{Document: head(fleet.TypeRevocations, 1, 1), Revoked: []fleet.Revocation{{Host: "A"}}})
			r.resolvedDoc.Revocations = digestOf(r.revocations)
		},
		"budget member": func(r *release) {
			r.budget = canonical(t, fleet.BudgetMembers{Type: fleet.TypeBudget, Hosts: []string{"a", "B"}})
			r.manifestDoc.Budgets[0].Members = digestOf(r.budget)
		},
		"budget order": func(r *release) {
			r.budget = canonical(t, fleet.BudgetMembers{Type: fleet.TypeBudget, Hosts: []string{"b", "a"}})
			r.manifestDoc.Budgets[0].Members = digestOf(r.budget)
		},
		"budget member twice": func(r *release) {
			r.budget = canonical(t, fleet.BudgetMembers{Type: fleet.TypeBudget, Hosts: []string{"a", "a"}})
			r.manifestDoc.Budgets[0].Members = digestOf(r.budget)
		},
	}
	for name, change := range bad {
		r := newRelease(t, k, 1, 1)
		change(&r)
		_, err := r.relink(t, k).accept(begin(t, root), day0)
		if CodeOf(err) != Malformed {
			t.Errorf("%s: got %v, want %s", name, err, Malformed)
		}
	}
}

// TestAClockThatFellBackDoesNotStopTime: with the clock at the epoch, what was
// signed after the floor waits, and what was accepted stays as old as it is.
func TestAClockThatFellBackDoesNotStopTime(t *testing.T) {
	k := newKeys(t, "1")
	v := begin(t, k.root(t, 1, 1))
	r := newRelease(t, k, 1, 1)
	ts, s, err := v.Timestamp(r.timestamp, day0)
	testkit.Must(t, err)
	v, err = v.With(s)
	testkit.Must(t, err)
	later := fleet.Timestamp{Document: head(fleet.TypeTimestamp, 1, 2), Resolved: payloadDigest(t, r.resolved), ResolvedVersion: 1}
	later.IssuedAt = day0.Add(clock.Hour)
	env := envelope(t, fleet.TypeTimestamp, later, k[RoleTimestamp])
	if _, _, err := v.Timestamp(env, 0); CodeOf(err) != FutureDated {
		t.Errorf("an hour after the floor, with the clock at zero: %v", err)
	}
	_, s, err = v.Timestamp(env, day0.Add(clock.Hour))
	testkit.Must(t, err)
	v, err = v.With(s)
	testkit.Must(t, err)
	if err := v.Fresh(ts, 30*clock.Minute, 0); CodeOf(err) != Stale {
		t.Errorf("the floor has passed its window: %v", err)
	}
}
