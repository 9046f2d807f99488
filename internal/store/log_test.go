package store_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

func testEmptyLog(_ *testing.T, s *suite) {
	st := s.open()
	head, err := st.Head(s.Context())
	s.must(err)
	s.equal("head of an empty log", head, store.Head{})
	records, err := st.Read(s.Context(), 0, 10)
	s.must(err)
	s.equal("records", len(records), 0)
	_, err = st.Holder(s.Context())
	s.wantErr(err, store.ErrNotFound)
	// Without a lease nobody may append, not even under term 0.
	_, err = st.Append(s.Context(), 0, 0, serverEvents(0, 1))
	s.wantErr(err, store.ErrFenced)
}

// testRoundTrip: every field comes back as it went in, at the limits too.
func testRoundTrip(_ *testing.T, s *suite) {
	st, head := s.lead()
	in := []event.Entry{
		{At: math.MinInt64, Type: "a", Body: []byte("{}")},
		{At: math.MaxInt64, Type: strings.Repeat("t", store.MaxName), Subject: event.HostSubject("h"), Body: []byte{0, 255, '\n'}},
		{At: -1, Type: "ü ", Subject: event.HostSubject(strings.Repeat("h", store.MaxName)), Incarnation: math.MaxUint64, HostSeq: math.MaxUint64, Body: []byte("x")},
		{Type: "b", Subject: event.HostSubject("h"), Incarnation: math.MaxUint64, HostSeq: math.MaxUint64, Body: bytes.Repeat([]byte("b"), store.MaxBody)},
		{Type: "it's", Subject: event.HostSubject(`"h"; --`), HostSeq: 1, Body: []byte("1")},
	}
	got, err := st.Append(s.Context(), head.Seq, head.Term, in)
	s.must(err)
	records := s.all(st)
	s.equal("entries", entriesOf(records), in)
	s.equal("records", records, store.Chain(store.Head{}, head.Term, in))
	last := records[len(records)-1]
	s.equal("head", got, store.Head{Seq: 5, Term: head.Term, Hash: last.Hash})
}

func testInvalid(_ *testing.T, s *suite) {
	st, head := s.lead()
	ok := serverEvent(1)
	with := func(change func(*event.Entry)) []event.Entry {
		e := ok
		change(&e)
		return []event.Entry{ok, e}
	}
	for name, batch := range map[string][]event.Entry{
		"no type":       with(func(e *event.Entry) { e.Type = "" }),
		"long type":     with(func(e *event.Entry) { e.Type = strings.Repeat("t", store.MaxName+1) }),
		"type not text": with(func(e *event.Entry) { e.Type = "\xff" }),
		"name with NUL": with(func(e *event.Entry) { e.Subject = event.HostSubject("a\x00b") }),
		"long kind":     with(func(e *event.Entry) { e.Subject = event.Subject{Kind: strings.Repeat("k", store.MaxName+1), Name: "a"} }),
		"no name":       with(func(e *event.Entry) { e.Subject.Kind = "node" }),
		"no kind":       with(func(e *event.Entry) { e.Subject.Name = "a" }),
		"not a host":    with(func(e *event.Entry) { e.Subject, e.HostSeq = event.Subject{Kind: "node", Name: "a"}, 1 }),
		"no body":       with(func(e *event.Entry) { e.Body = nil }),
		"large body":    with(func(e *event.Entry) { e.Body = make([]byte, store.MaxBody+1) }),
		"no host":       with(func(e *event.Entry) { e.HostSeq = 1 }),
		"large batch":   serverEvents(0, store.MaxBatch+1),
	} {
		if _, err := st.Append(s.Context(), head.Seq, head.Term, batch); !errors.Is(err, store.ErrInvalid) {
			s.Errorf("%s: %v", name, err)
		}
	}
	_, err := st.Read(s.Context(), 0, 0)
	s.wantErr(err, store.ErrInvalid)
	_, err = st.Read(s.Context(), 0, store.MaxRead+1)
	s.wantErr(err, store.ErrInvalid)
	for _, subject := range []event.Subject{{}, {Kind: "host"}, {Name: "a"}, {Kind: "host", Name: "a\x00"}} {
		_, err = st.ReadAbout(s.Context(), subject, 0, 1)
		s.wantErr(err, store.ErrInvalid)
		_, err = st.LastAbout(s.Context(), subject, 1)
		s.wantErr(err, store.ErrInvalid)
	}
	_, err = st.ReadAbout(s.Context(), event.HostSubject("a"), 0, 0)
	s.wantErr(err, store.ErrInvalid)
	_, err = st.Acquire(s.Context(), "", 1)
	s.wantErr(err, store.ErrInvalid)
	s.equal("records", len(s.all(st)), 0)
}

func testConflict(_ *testing.T, s *suite) {
	st, head := s.lead()
	head, err := st.Append(s.Context(), 0, head.Term, serverEvents(0, 3))
	s.must(err)
	for _, expect := range []uint64{0, 2, 4, math.MaxUint64} {
		for _, n := range []int{0, 1, 50} {
			_, err := st.Append(s.Context(), expect, head.Term, serverEvents(10, n))
			s.wantErr(err, store.ErrConflict)
		}
	}
	for _, term := range []uint64{0, head.Term - 1, head.Term + 1} {
		_, err := st.Append(s.Context(), 99, term, nil) // fenced comes before conflict
		s.wantErr(err, store.ErrFenced)
	}
	got, err := st.Append(s.Context(), head.Seq, head.Term, nil)
	s.must(err)
	s.equal("head after an empty append", got, head)
	s.equal("entries", entriesOf(s.all(st)), serverEvents(0, 3))
}

// testDuplicate: (host, incarnation, sequence) is unique and the error names
// the first entry that breaks it; nothing of the batch stays.
func testDuplicate(_ *testing.T, s *suite) {
	st, head := s.lead()
	first := []event.Entry{
		hostEvent("a", 1, 1), hostEvent("a", 1, 2), hostEvent("a", 2, 1), hostEvent("b", 1, 1),
		{Type: "about", Subject: event.HostSubject("a"), Incarnation: 1, Body: []byte("{}")},
		{Type: "about", Subject: event.HostSubject("a"), Incarnation: 1, Body: []byte("{}")}, // server's: never duplicates
	}
	head, err := st.Append(s.Context(), 0, head.Term, first)
	s.must(err)
	many := make([]event.Entry, 0, 101)
	for i := range 100 {
		many = append(many, hostEvent("c", 1, uint64(i+1)))
	}
	for _, c := range []struct {
		index int
		batch []event.Entry
	}{
		{0, []event.Entry{hostEvent("a", 1, 2)}},
		{1, []event.Entry{hostEvent("a", 1, 3), hostEvent("a", 2, 1), hostEvent("b", 1, 1)}},
		{2, []event.Entry{hostEvent("a", 1, 3), hostEvent("b", 1, 2), hostEvent("a", 1, 3)}},
		{100, append(slices.Clone(many), hostEvent("c", 1, 50))},
		{100, append(slices.Clone(many), hostEvent("b", 1, 1))},
	} {
		_, err := st.Append(s.Context(), head.Seq, head.Term, c.batch)
		s.wantErr(err, store.ErrDuplicate)
		var dup *store.DuplicateError
		if !errors.As(err, &dup) {
			s.Fatalf("%v is not a DuplicateError", err)
		}
		e := c.batch[c.index]
		s.equal("duplicate", *dup, store.DuplicateError{Index: c.index, Host: e.Host(), Incarnation: e.Incarnation, HostSeq: e.HostSeq})
	}
	s.equal("entries", entriesOf(s.all(st)), first)
	_, err = st.Append(s.Context(), head.Seq, head.Term, many)
	s.must(err)
}

func testRead(_ *testing.T, s *suite) {
	st, head := s.lead()
	in := serverEvents(0, 250)
	for len(in) > 0 {
		n := min(len(in), int(head.Seq)%40+1)
		var err error
		head, err = st.Append(s.Context(), head.Seq, head.Term, in[:n])
		s.must(err)
		in = in[n:]
	}
	all := s.all(st)
	s.equal("entries", entriesOf(all), serverEvents(0, 250))
	for _, c := range []struct {
		after      uint64
		limit      int
		from, upTo int
	}{
		{0, 1, 0, 1}, {0, 250, 0, 250}, {0, store.MaxRead, 0, 250}, {100, 50, 100, 150},
		{249, 10, 249, 250}, {250, 10, 250, 250}, {math.MaxUint64, 10, 250, 250},
	} {
		got, err := st.Read(s.Context(), c.after, c.limit)
		s.must(err)
		if len(got) != c.upTo-c.from {
			s.Fatalf("read %d after %d: got %d records", c.limit, c.after, len(got))
		}
		s.equal("page", append([]event.Record{}, got...), append([]event.Record{}, all[c.from:c.upTo]...))
	}
}

// testReadBudget: pages of large bodies are short but never empty before the end.
func testReadBudget(_ *testing.T, s *suite) {
	st, head := s.lead()
	const n = 20
	for i := range n {
		e := serverEvent(i)
		e.Subject, e.Body = event.HostSubject("h"), bytes.Repeat([]byte{byte('a' + i)}, store.MaxBody)
		var err error
		head, err = st.Append(s.Context(), head.Seq, head.Term, []event.Entry{e})
		s.must(err)
	}
	page, err := st.Read(s.Context(), 0, n)
	s.must(err)
	if len(page) == 0 || len(page) > store.ReadBudget/store.MaxBody+1 {
		s.Fatalf("a page of %d MiB", len(page))
	}
	byHost, err := st.LastAbout(s.Context(), event.HostSubject("h"), n)
	s.must(err)
	if len(byHost) == 0 || len(byHost) > store.ReadBudget/store.MaxBody+1 {
		s.Fatalf("a page of %d MiB", len(byHost))
	}
	s.equal("records in all", len(s.all(st)), n)
}
