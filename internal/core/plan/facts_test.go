package plan_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

// says has a host report its facts in its own chain.
func says(t *testing.T, w *world, s *plan.State, name string, facts ...event.HostFacts) error {
	t.Helper()
	h := s.Hosts[name]
	var entries []event.Entry
	for i, f := range facts {
		e := testkit.Value(event.NewEntry(w.now, event.HostSubject(name), f))(t)
		e.Incarnation, e.HostSeq = h.Incarnation, h.Seq+uint64(i)+1
		entries = append(entries, e)
	}
	_, err := plan.Ingest(s, name, entries, nil, event.HostHead{Incarnation: h.Incarnation, Seq: h.Seq + uint64(len(facts))}, 0, w.now)
	return err
}

func wantFacts(t *testing.T, s *plan.State, name string, want *event.HostFacts) {
	t.Helper()
	if got := s.Hosts[name].Facts; !reflect.DeepEqual(got, want) {
		t.Errorf("%s is %+v, want %+v", name, got, want)
	}
}

// The newest facts of an incarnation count, in a restored state too; a new incarnation begins
// without any.
func TestNewestFactsOfAnIncarnation(t *testing.T) {
	w := newWorld(t)
	enrol := func(s *plan.State, name, key string, incarnation uint64) {
		t.Helper()
		testkit.Value(plan.Record(s, name, w.now, event.HostEnrolled{Incarnation: incarnation, EventKey: []byte(key), Token: name + key}))(t)
		w.now++
	}
	small, large := event.HostFacts{CPUs: 1}, event.HostFacts{CPUs: 8, GPUs: []event.GPU{{Vendor: "nvidia", Model: "T4", Memory: 16 << 30}}}
	enrol(w.s, "a", "k", 1)
	enrol(w.s, "b", "l", 1)
	wantFacts(t, w.s, "a", nil)
	testkit.Must(t, says(t, w, w.s, "a", small, large))
	wantFacts(t, w.s, "a", &large)
	wantFacts(t, w.s, "b", nil)

	restored := testkit.Value(plan.Clone(w.s, w.docs))(t)
	for _, s := range []*plan.State{w.s, restored} {
		wantFacts(t, s, "a", &large)
		testkit.Must(t, says(t, w, s, "a", small))
		wantFacts(t, s, "a", &small)
		enrol(s, "a", "k2", 2)
		wantFacts(t, s, "a", nil)
	}
}

// A machine that was renamed has its facts under its present name, and whoever takes the former
// name keeps its own.
func TestFactsFollowARename(t *testing.T) {
	w := newWorld(t)
	enrol := func(name, key string, incarnation uint64) {
		t.Helper()
		testkit.Value(plan.Record(w.s, name, w.now, event.HostEnrolled{Incarnation: incarnation, EventKey: []byte(key), Token: name + key}))(t)
		w.now++
	}
	is, other := event.HostFacts{CPUs: 8}, event.HostFacts{CPUs: 2}
	enrol("old", "k", 1)
	testkit.Must(t, says(t, w, w.s, "old", is))
	enrol("new", "k", 1) // anybody may name a key
	wantFacts(t, w.s, "old", &is)
	wantFacts(t, w.s, "new", nil)
	testkit.Must(t, says(t, w, w.s, "new", is))
	wantFacts(t, w.s, "old", nil)
	wantFacts(t, w.s, "new", &is)

	enrol("old", "z", 2) // another machine
	testkit.Must(t, says(t, w, w.s, "old", other))
	testkit.Must(t, says(t, w, w.s, "new", is))
	wantFacts(t, w.s, "old", &other)
	wantFacts(t, w.s, "new", &is)
}

// TestS32FactsOfAnotherHostAreRefused: a host says what itself is, within the bounds, and what is
// refused changes nothing.
func TestS32FactsOfAnotherHostAreRefused(t *testing.T) {
	w := onOne(t, "h0 h1")
	before := string(w.json(w.s))
	h := w.s.Hosts["h0"]
	entry := func(name string, f event.HostFacts) event.Entry {
		e := testkit.Value(event.NewEntry(w.now, event.HostSubject(name), f))(t)
		e.Incarnation, e.HostSeq = h.Incarnation, h.Seq+1
		return e
	}
	for what, e := range map[string]event.Entry{
		"of another host": entry("h1", event.HostFacts{CPUs: 2}),
		"too many GPUs":   entry("h0", event.HostFacts{GPUs: make([]event.GPU, event.MaxGPUs+1)}),
		"a long text":     entry("h0", event.HostFacts{Kernel: strings.Repeat("x", event.MaxFactText+1)}),
		"less than none":  entry("h0", event.HostFacts{CPUs: -1}),
	} {
		_, err := plan.Ingest(w.s, "h0", []event.Entry{e}, nil, event.HostHead{}, 0, w.now)
		if refused := (*plan.ReportError)(nil); !errors.As(err, &refused) || string(w.json(w.s)) != before {
			t.Errorf("%s: %v, state changed: %t", what, err, string(w.json(w.s)) != before)
		}
	}
}
