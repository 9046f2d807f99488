package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/testkit"
)

// aboutEntry is about a host, none or another thing, and about a rollout.
func aboutEntry(n int) event.Entry {
	e := serverEvent(n)
	e.Subject = []event.Subject{{}, event.HostSubject("a"), event.HostSubject("b"), {Kind: "node", Name: "a"}}[n%4]
	if n%3 == 0 {
		e.Type, e.Body = event.GrantClaimed{}.EventType(), fmt.Appendf(nil, `{"grant":"g%d","rollout":"stable@v%d"}`, n, n%2)
	}
	return e
}

var aboutSubjects = []event.Subject{
	event.HostSubject("a"), event.HostSubject("b"), {Kind: "node", Name: "a"}, {Kind: event.KindRollout, Name: "stable@v0"},
	{Kind: event.KindRollout, Name: "stable@v1"}, event.HostSubject("nobody"), {Kind: event.KindRollout, Name: "a"},
}

// wantAbout compares what the index finds of a subject with what a scan of the log
// does, forwards in pages and backwards.
func wantAbout(fatalf func(string, ...any), st store.Log, t *testing.T, records []event.Record, subject event.Subject, page int) {
	var want, got []event.Record
	for _, r := range records {
		if slices.Contains(event.About(&r.Entry), subject) {
			want = append(want, r)
		}
	}
	for after := uint64(0); ; after = got[len(got)-1].Seq {
		more, err := st.ReadAbout(t.Context(), subject, after, page)
		if err != nil || len(more) > page {
			fatalf("read %d about %s after %d: %d records, %v", page, subject, after, len(more), err)
		}
		if got = append(got, more...); len(more) == 0 {
			break
		}
	}
	if !reflect.DeepEqual(got, want) {
		fatalf("about %s in pages of %d: got %d records %v; want %d %v", subject, page, len(got), seqsOf(got), len(want), seqsOf(want))
	}
	last, err := st.LastAbout(t.Context(), subject, page)
	slices.Reverse(want)
	if want = want[:min(page, len(want))]; err != nil || !reflect.DeepEqual(seqsOf(last), seqsOf(want)) {
		fatalf("the last %d about %s: %v, %v; want %v", page, subject, seqsOf(last), err, seqsOf(want))
	}
}

func seqsOf(records []event.Record) []uint64 {
	out := make([]uint64, len(records))
	for i := range records {
		out[i] = records[i].Seq
	}
	return out
}

// testAbout: after appends of any size, in any division into lives, in pages of any
// size, the index finds what a scan of the log finds.
func testAbout(t *testing.T, s *suite) {
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		name := fmt.Sprintf("%s-%d", s.name, run)
		for life, n := 0, 0; life < 3; life++ {
			st := testkit.Value(s.e.open(name))(rt)
			head, err := st.Acquire(t.Context(), "about", 1)
			for range rapid.IntRange(0, 5).Draw(rt, "appends") {
				var batch []event.Entry
				for range rapid.IntRange(0, 60).Draw(rt, "entries") {
					batch = append(batch, aboutEntry(n))
					n++
				}
				if head, err = st.Append(t.Context(), head.Seq, head.Term, batch); err != nil {
					break
				}
			}
			testkit.Must(rt, err)
			records, err := st.Read(t.Context(), 0, store.MaxRead)
			testkit.Must(rt, err)
			subject := rapid.SampledFrom(aboutSubjects).Draw(rt, "subject")
			wantAbout(rt.Fatalf, st, t, records, subject, rapid.IntRange(1, 40).Draw(rt, "page"))
			testkit.Must(rt, st.Close())
		}
	})
}

// testAboutDamage: an index that lost rows, or whose rows were changed, is built again
// from the log; the next life finds all of it, and so does the one after.
func testAboutDamage(_ *testing.T, s *suite) {
	for how := range s.e.damageIndex {
		name := fmt.Sprintf("%s-%d", s.name, how)
		for life := range 4 {
			st, err := s.e.open(name)
			s.must(err)
			head, err := st.Acquire(s.Context(), "about", 1)
			s.must(err)
			for i := range 10 {
				var batch []event.Entry
				for j := range 30 {
					batch = append(batch, aboutEntry(life*300+i*30+j))
				}
				head, err = st.Append(s.Context(), head.Seq, head.Term, batch)
				s.must(err)
			}
			records, err := st.Read(s.Context(), 0, store.MaxRead)
			s.must(err)
			for _, subject := range aboutSubjects {
				wantAbout(s.Fatalf, st, s.T, records, subject, 100)
			}
			s.must(st.Close())
			if life < 2 {
				s.must(s.e.damageIndex[how](name))
			}
		}
	}
}
