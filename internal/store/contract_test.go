package store_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/testkit"
)

// engine is what the contract needs from an engine of a store.
type engine struct {
	// open returns a new handle on the store called name, which is made when
	// it is not there yet. Handles on one name may be open at the same time
	// and behave like those of two processes.
	open func(name string) (store.Store, error)
	// damageBlob flips a bit of the only blob of the store called name, and
	// damageSnapshot one of its snapshot of sequence seq.
	damageBlob     func(name string) error
	damageSnapshot func(name string, seq uint64) error
	// damageIndex are ways to damage the index of what events are about of the
	// store called name, which no handle has open.
	damageIndex []func(name string) error
}

// engines are all there are. Each passes the whole contract.
var engines = map[string]func(t *testing.T) engine{
	"embedded": embeddedEngine,
}

// TestContract runs each test of the contract on stores of its own.
func TestContract(t *testing.T) {
	for name, open := range engines {
		t.Run(name, func(t *testing.T) { contract(t, open(t)) })
	}
}

func contract(t *testing.T, e engine) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"EmptyLog", testEmptyLog},
		{"RoundTrip", testRoundTrip},
		{"Invalid", testInvalid},
		{"Conflict", testConflict},
		{"Duplicate", testDuplicate},
		{"Read", testRead},
		{"ReadBudget", testReadBudget},
		{"About", testAbout},
		{"AboutDamage", testAboutDamage},
		{"Prune", testPrune},
		{"Wait", testWait},
		{"S31Fencing", testS31Fencing},
		{"S31ConcurrentLeaders", testS31ConcurrentLeaders},
		{"S33Reopen", testS33Reopen},
		{"Model", testModel},
		{"Snapshots", testSnapshots},
		{"SnapshotDamage", testSnapshotDamage},
		{"Blobs", testBlobs},
		{"BlobDamage", testBlobDamage},
		{"BlobRemoval", testBlobRemoval},
		{"BlobsThatArrive", testBlobsThatArrive},
		{"Size", testSize},
		{"Closed", testClosed},
		{"Cancelled", testCancelled},
	} {
		t.Run(c.name, func(t *testing.T) { t.Parallel(); c.run(t, &suite{T: t, e: e, name: c.name}) })
	}
}

// suite is one test with its engine.
type suite struct {
	*testing.T
	e    engine
	name string
}

// open returns a handle on the test's store; it is closed at the end.
func (s *suite) open() store.Store {
	s.Helper()
	st := testkit.Value(s.e.open(s.name))(s)
	s.Cleanup(func() {
		if err := st.Close(); err != nil {
			s.Error(err)
		}
	})
	return st
}

// lead opens the store and acquires its lease.
func (s *suite) lead() (store.Store, store.Head) {
	s.Helper()
	st := s.open()
	return st, s.acquire(st)
}

func (s *suite) acquire(st store.Store) store.Head {
	s.Helper()
	h, err := st.Acquire(s.Context(), "a test", 7)
	s.must(err)
	return h
}

func (s *suite) must(err error) {
	s.Helper()
	testkit.Must(s, err)
}

// wantErr fails unless err matches want, and none of the other errors that
// callers tell apart.
func (s *suite) wantErr(err, want error) {
	s.Helper()
	for _, e := range []error{
		store.ErrInvalid, store.ErrFenced, store.ErrConflict, store.ErrDuplicate, store.ErrFull, store.ErrBusy,
		store.ErrBroken, store.ErrCorrupt, store.ErrPruned, store.ErrNotFound, store.ErrClosed, context.Canceled,
	} {
		if got := errors.Is(err, e); got != (e == want) {
			s.Fatalf("got error %v; want %v", err, want)
		}
	}
}

// all reads and verifies the whole log, and compares its end with the head.
func (s *suite) all(st store.Store) []event.Record {
	s.Helper()
	var out []event.Record
	end, err := store.Replay(s.Context(), st, store.Head{}, func(page []event.Record) error {
		out = append(out, page...)
		return nil
	})
	s.must(err)
	head, err := st.Head(s.Context())
	s.must(err)
	if end.Seq != head.Seq || end.Hash != head.Hash || end.Term > head.Term {
		s.Fatalf("the log ends at %+v, its head says %+v", end, head)
	}
	return out
}

func (s *suite) equal(what string, got, want any) {
	s.Helper()
	if reflect.DeepEqual(want, got) {
		return // far cheaper for large bodies than a look for differences
	}
	if d := cmp.Diff(want, got); d != "" {
		s.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// serverEvent and hostEvent make entries that differ in everything.
func serverEvent(n int) event.Entry {
	return event.Entry{
		At: clock.Instant(n * 1000), Type: fmt.Sprintf("test-%d", n%3),
		Body: fmt.Appendf(nil, `{"n":%d}`, n),
	}
}

func hostEvent(host string, incarnation, seq uint64) event.Entry {
	e := serverEvent(int(seq % 1000))
	e.Subject, e.Incarnation, e.HostSeq = event.HostSubject(host), incarnation, seq
	return e
}

func serverEvents(from, n int) []event.Entry {
	out := make([]event.Entry, n)
	for i := range out {
		out[i] = serverEvent(from + i)
	}
	return out
}

func entriesOf(records []event.Record) []event.Entry {
	out := make([]event.Entry, len(records))
	for i, r := range records {
		out[i] = r.Entry
	}
	return out
}
