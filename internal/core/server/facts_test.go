package server_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/testkit"
)

// A log that an older server may have to go on with gets no facts at once.
func TestFactsAreAskedForOnceNobodyGoesBack(t *testing.T) {
	s := server.NewState(nil)
	if s.FactsAfter() != 0 {
		t.Error("a new log waits")
	}
	record := func(ev event.Event) {
		t.Helper()
		testkit.Value(s.Record("h", 1000, ev))(t)
	}
	record(event.HostSilent{}) // it never enrolled
	if s.FactsAfter() != 0 {
		t.Error("a log without hosts waits")
	}
	record(event.HostEnrolled{Incarnation: 1})
	if s.FactsAfter() == 0 {
		t.Error("the log of another server does not wait")
	}
	e := testkit.Value(event.NewEntry(1000, event.HostSubject("h"), event.HostFacts{CPUs: 1}))(t)
	e.Incarnation, e.HostSeq = 1, 1
	testkit.Must(t, s.Apply(e))
	if s.FactsAfter() != 0 {
		t.Error("a log that has facts waits")
	}
}
