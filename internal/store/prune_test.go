package store_test

import (
	"errors"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

// testPrune: what was pruned is gone and named, and all that follows is as it was: reads,
// indexes, and the chains of hosts, which do not begin anew.
func testPrune(_ *testing.T, s *suite) {
	st, head := s.lead()
	about := event.HostSubject("a")
	for n := range uint64(1200) {
		batch := []event.Entry{hostEvent("a", 1, n+1), serverEvent(int(n))}
		if n < 10 {
			batch = append(batch, hostEvent("gone", 2, ^uint64(9)+n))
		}
		var err error
		head, err = st.Append(s.Context(), head.Seq, head.Term, batch)
		s.must(err)
	}
	all := s.all(st)
	through := headOf(&all[1499])
	base, err := st.Base(s.Context())
	s.must(err)
	s.equal("base", base, store.Head{})

	for what, wrong := range map[string]store.Head{"no record": {}, "the end": head, "beyond": {Seq: head.Seq + 1, Term: 1}, "another hash": {Seq: 3, Term: 1}} {
		if err := st.Prune(s.Context(), head.Term, wrong); !errors.Is(err, store.ErrInvalid) {
			s.Errorf("%s: %v", what, err)
		}
	}
	s.wantErr(st.Prune(s.Context(), head.Term+1, through), store.ErrFenced)
	s.equal("records after refusals", s.all(st), all)

	s.must(st.Prune(s.Context(), head.Term, through))
	s.must(st.Prune(s.Context(), head.Term, through)) // again is nothing
	other := s.open()
	kept := all[through.Seq:]
	check := func(st store.Store) {
		s.Helper()
		base, err := st.Base(s.Context())
		s.must(err)
		s.equal("base", base, through)
		_, err = st.Read(s.Context(), through.Seq-1, 10)
		var pruned *store.PrunedError
		if s.wantErr(err, store.ErrPruned); !errors.As(err, &pruned) || pruned.Base != through {
			s.Fatalf("%v does not name the base", err)
		}
		var got []event.Record
		_, err = store.Replay(s.Context(), st, base, func(page []event.Record) error { got = append(got, page...); return nil })
		s.must(err)
		s.equal("records", got, kept)
		first, err := st.ReadAbout(s.Context(), about, 0, 1)
		s.must(err)
		s.equal("first about the host", first, kept[:1])
		last, err := st.LastAbout(s.Context(), event.HostSubject("gone"), 5)
		s.must(err)
		s.equal("of a host whose records are gone", len(last), 0)
		last, err = st.LastAbout(s.Context(), about, store.MaxRead)
		s.must(err)
		s.equal("records about the host", len(last), 1200-(1500-10)/2)
		for _, e := range []event.Entry{hostEvent("a", 1, 700), hostEvent("a", 1, 1200), hostEvent("gone", 2, ^uint64(0))} {
			_, err = st.Append(s.Context(), head.Seq, head.Term, []event.Entry{e})
			s.wantErr(err, store.ErrDuplicate)
		}
		s.wantErr(st.SaveSnapshot(s.Context(), store.Snapshot{At: through, Format: "f"}), store.ErrInvalid)
	}
	check(st)
	check(other)
	head, err = st.Append(s.Context(), head.Seq, head.Term, []event.Entry{hostEvent("a", 1, 1201)})
	s.must(err)
	kept = append(kept, store.Chain(headOf(&kept[len(kept)-1]), head.Term, []event.Entry{hostEvent("a", 1, 1201)})...)
	next := headOf(&kept[700])
	s.must(other.Prune(s.Context(), head.Term, next)) // the other handle has to notice
	_, err = st.Append(s.Context(), head.Seq, head.Term, []event.Entry{hostEvent("a", 1, 1201)})
	s.wantErr(err, store.ErrDuplicate)
	s.must(other.Close())
	s.must(st.Close())
	for i, damage := range append(s.e.damageIndex, func(string) error { return nil }) {
		s.must(damage(s.name))
		again := s.open()
		_, err = again.Append(s.Context(), head.Seq, head.Term, []event.Entry{hostEvent("gone", 2, 1)})
		s.wantErr(err, store.ErrDuplicate)
		records, err := again.ReadAbout(s.Context(), about, 0, store.MaxRead)
		s.must(err)
		if len(records) == 0 || records[0].Seq <= next.Seq || records[len(records)-1].HostSeq != 1201 {
			s.Fatalf("after damage %d of the index: %d records", i, len(records))
		}
		s.must(again.Close())
	}
}

func headOf(r *event.Record) store.Head { return store.Head{Seq: r.Seq, Term: r.Term, Hash: r.Hash} }
