package plan_test

import (
	"reflect"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

// A machine that enrols under another name with the key of its events was the host before: once it signed something,
// through several names, in a restored state as in one that was folded, and not for who takes a former name.
func TestRenamedHostKnowsItsFormerNames(t *testing.T) {
	w := newWorld(t)
	enrol := func(s *plan.State, name, key string, incarnation uint64) {
		t.Helper()
		testkit.Value(plan.Record(s, name, w.now, event.HostEnrolled{Incarnation: incarnation, EventKey: []byte(key), Token: name + key}))(t)
		w.now++
	}
	report := func(s *plan.State, name string) {
		t.Helper()
		h := s.Hosts[name]
		e := testkit.Value(event.NewEntry(w.now, event.HostSubject(name), event.FileKept{Path: "a"}))(t)
		e.Incarnation, e.HostSeq = h.Incarnation, h.Seq+1
		testkit.Must(t, s.Apply(e))
	}
	former := func(s *plan.State, name string) (names []string) {
		for _, f := range s.Hosts[name].FormerNames() {
			names = append(names, f.Name)
		}
		return names
	}
	want := func(s *plan.State, name string, names ...string) {
		t.Helper()
		if got := former(s, name); !reflect.DeepEqual(got, names) {
			t.Fatalf("%s was %v, want %v", name, got, names)
		}
	}
	enrol(w.s, "edge-2", "k", 1)
	enrol(w.s, "other", "x", 1)
	enrol(w.s, "silent", "y", 1)
	report(w.s, "edge-2")
	enrol(w.s, "box-2", "k", 1)
	want(w.s, "box-2") // anybody may name a key
	report(w.s, "box-2")
	want(w.s, "box-2", "edge-2")
	if !w.s.Gone("edge-2") || w.s.Gone("box-2") || w.s.Gone("other") || w.s.Gone("none") {
		t.Fatal("nothing runs under the former name alone")
	}
	if got := w.s.Hosts["box-2"].FormerNames()[0]; got.Incarnation != 1 || got.Until != start+3 {
		t.Fatalf("it was %+v", got)
	}
	enrol(w.s, "liar", "y", 1) // the key of who never signed
	report(w.s, "liar")
	want(w.s, "liar")
	enrol(w.s, "edge-2", "z", 2) // another machine takes the name
	report(w.s, "edge-2")
	if w.s.Gone("edge-2") {
		t.Fatal("another machine runs under the name")
	}
	want(w.s, "edge-2")
	restored := testkit.Value(plan.Clone(w.s, w.docs))(t)
	for _, s := range []*plan.State{w.s, restored} {
		enrol(s, "box-3", "k", 1)
		report(s, "box-3")
		want(s, "box-3", "box-2", "edge-2")
		enrol(s, "box-3", "new disk", 2)
		report(s, "box-3")
		want(s, "box-3", "box-2", "edge-2")
	}
	if a := testkit.Value(plan.Why(restored, "box-3", w.now))(t); len(a.Former) != 2 {
		t.Fatalf("why says %+v", a)
	}
}
