package store_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/testkit"
)

// model is a log as a plain slice.
type model struct {
	term    uint64
	entries []event.Entry
	terms   []uint64
	base    store.Head // what was pruned
}

// append says what the contract wants of an append, and does it.
func (m *model) append(expect, term uint64, batch []event.Entry) error {
	if term == 0 || term != m.term {
		return store.ErrFenced
	}
	if expect != uint64(len(m.entries)) {
		return store.ErrConflict
	}
	for i, e := range batch {
		if e.HostSeq > 0 && (m.reached(m.entries, e) || m.reached(batch[:i], e)) {
			return store.ErrDuplicate
		}
	}
	m.entries = append(m.entries, batch...)
	for range batch {
		m.terms = append(m.terms, term)
	}
	return nil
}

func (m *model) reached(entries []event.Entry, e event.Entry) bool {
	for _, o := range entries {
		if o.Host() == e.Host() && o.Incarnation == e.Incarnation && o.HostSeq >= e.HostSeq {
			return true
		}
	}
	return false
}

// testModel drives two handles on one store and a model with the same random
// calls: same answers, same log.
func testModel(t *testing.T, s *suite) {
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		name := fmt.Sprintf("%s-%d", s.name, run)
		handles := make([]store.Store, 2)
		for i := range handles {
			st := testkit.Value(s.e.open(name))(rt)
			defer func() {
				if err := st.Close(); err != nil {
					rt.Error(err)
				}
			}()
			handles[i] = st
		}
		m := &model{}
		near := func(n uint64, label string) uint64 {
			d := rapid.SampledFrom([]uint64{0, 0, 0, 0, 0, 1, ^uint64(0)}).Draw(rt, label)
			return n + d
		}
		rt.Repeat(map[string]func(*rapid.T){
			"acquire": func(rt *rapid.T) {
				h, err := rapid.SampledFrom(handles).Draw(rt, "handle").Acquire(t.Context(), "model", 1)
				if m.term++; err != nil || h.Term != m.term || h.Seq != uint64(len(m.entries)) {
					rt.Fatalf("acquired %+v, %v; want term %d", h, err, m.term)
				}
			},
			"append": func(rt *rapid.T) {
				expect, term := near(uint64(len(m.entries)), "expect"), near(m.term, "term")
				batch := rapid.SliceOfN(entryGen, 0, 40).Draw(rt, "batch")
				h, err := rapid.SampledFrom(handles).Draw(rt, "handle").Append(t.Context(), expect, term, batch)
				if want := m.append(expect, term, batch); !errors.Is(err, want) {
					rt.Fatalf("append at %d under %d: %v; want %v", expect, term, err, want)
				}
				if err == nil && (h.Seq != uint64(len(m.entries)) || h.Term != m.term) {
					rt.Fatalf("append returned %+v", h)
				}
			},
			"prune": func(rt *rapid.T) {
				n := rapid.IntRange(0, len(m.entries)).Draw(rt, "through")
				if uint64(n) < m.base.Seq {
					return
				}
				through := m.base
				for i := int(m.base.Seq); i < n; i++ {
					through = store.Head{Seq: through.Seq + 1, Term: m.terms[i], Hash: store.Hash(through.Hash, through.Seq+1, m.terms[i], m.entries[i])}
				}
				var want error
				if n == 0 || n == len(m.entries) {
					want = store.ErrInvalid
				}
				if err := rapid.SampledFrom(handles).Draw(rt, "handle").Prune(t.Context(), m.term, through); !errors.Is(err, want) {
					rt.Fatalf("prune through %d of %d: %v; want %v", n, len(m.entries), err, want)
				} else if err == nil {
					m.base = through
				}
			},
			"": func(rt *rapid.T) { m.compare(t, rt, rapid.SampledFrom(handles).Draw(rt, "reader")) },
		})
	})
}

// compare checks the whole log against the model.
func (m *model) compare(t *testing.T, rt *rapid.T, st store.Store) {
	var records []event.Record
	if base, err := st.Base(t.Context()); err != nil || base != m.base {
		rt.Fatalf("the log begins behind %+v, %v; want %+v", base, err, m.base)
	}
	end, err := store.Replay(t.Context(), st, m.base, func(page []event.Record) error {
		records = append(records, page...)
		return nil
	})
	testkit.Must(rt, err)
	head, err := st.Head(t.Context())
	if err != nil || head.Term != m.term || head.Seq != end.Seq || head.Hash != end.Hash {
		rt.Fatalf("head %+v, %v; the log ends at %+v, the model is of term %d", head, err, end, m.term)
	}
	if len(records)+int(m.base.Seq) != len(m.entries) {
		rt.Fatalf("%d records behind %d; want %d", len(records), m.base.Seq, len(m.entries))
	}
	for i, r := range records {
		i += int(m.base.Seq)
		if store.Hash([32]byte{}, 0, 0, r.Entry) != store.Hash([32]byte{}, 0, 0, m.entries[i]) || r.Term != m.terms[i] {
			rt.Fatalf("record %d is %+v; want %+v under %d", i+1, r, m.entries[i], m.terms[i])
		}
	}
}

// entryGen draws from few hosts and sequences, so that duplicates happen.
var entryGen = rapid.Custom(func(t *rapid.T) event.Entry {
	e := serverEvent(rapid.IntRange(0, 99).Draw(t, "n"))
	e.Subject = event.HostSubject(rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "host"))
	if e.Host() != "" {
		e.Incarnation = rapid.Uint64Range(0, 2).Draw(t, "incarnation")
		e.HostSeq = rapid.Uint64Range(0, 400).Draw(t, "host seq")
	}
	return e
})
