package store_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestHashLayout pins the layout: logs that exist must verify for ever. The
// values were computed by another program from the layout in Hash.
func TestHashLayout(t *testing.T) {
	e := event.Entry{At: -2, Type: "host-activated", Subject: event.HostSubject("web-1"), Incarnation: 3, HostSeq: 4, Body: []byte(`{"a":1}`)}
	first := store.Hash([32]byte{}, 1, 5, e)
	second := store.Hash(first, 2, 6, event.Entry{Type: "t", Body: []byte("b")})
	for i, c := range []struct {
		got  [32]byte
		want string
	}{{first, "2c4419928015eb27597b520968626bb1e5b3f0d0d778d38b5ec2508f2ae95598"}, {second, "7b5b6aef1ed543793ee337df391fb819159407e18f350f6f1c360aa2772ea581"}} {
		if got := hex.EncodeToString(c.got[:]); got != c.want {
			t.Errorf("hash %d is %s; want %s", i+1, got, c.want)
		}
	}
}

var entries = rapid.Custom(func(t *rapid.T) event.Entry {
	return event.Entry{
		At:          clock.Instant(rapid.Int64().Draw(t, "at")),
		Type:        rapid.StringN(0, 3, -1).Draw(t, "type"),
		Subject:     event.Subject{Kind: rapid.StringN(0, 3, -1).Draw(t, "kind"), Name: rapid.StringN(0, 3, -1).Draw(t, "name")},
		Incarnation: rapid.Uint64().Draw(t, "incarnation"),
		HostSeq:     rapid.Uint64().Draw(t, "host seq"),
		Body:        rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "body"),
	}
})

// changes alter one covered thing of a record each.
var changes = []func(*event.Record){
	func(r *event.Record) { r.At++ },
	func(r *event.Record) { r.Type += "x" },
	func(r *event.Record) { r.Subject.Kind += "x" },
	func(r *event.Record) { r.Subject.Name += "x" },
	func(r *event.Record) { r.Incarnation++ },
	func(r *event.Record) { r.HostSeq++ },
	func(r *event.Record) { r.Body = append([]byte{0}, r.Body...) },
	func(r *event.Record) { r.Type, r.Subject.Kind = r.Type+r.Subject.Kind, "" },
	func(r *event.Record) { r.Subject.Kind, r.Subject.Name = "", r.Subject.Kind+r.Subject.Name },
	func(r *event.Record) { r.Subject.Name, r.Body = "", append([]byte(r.Subject.Name), r.Body...) },
	func(r *event.Record) { r.Seq++ },
	func(r *event.Record) { r.Term++ },
	func(r *event.Record) { r.Hash[17] ^= 1 },
}

// TestVerify: a chain verifies in any division into pages; after one change of
// one record exactly that record is named.
func TestVerify(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		batch := rapid.SliceOfN(entries, 1, 20).Draw(t, "entries")
		from := store.Head{Seq: rapid.Uint64Range(0, 1<<40).Draw(t, "seq"), Term: 3}
		from.Hash[0] = rapid.Byte().Draw(t, "hash")
		records := store.Chain(from, 5, batch)
		cut := rapid.IntRange(0, len(records)).Draw(t, "cut")
		mid := testkit.Value(store.Verify(from, records[:cut]))(t)
		end, err := store.Verify(mid, records[cut:])
		last := records[len(records)-1]
		if err != nil || end != (store.Head{Seq: last.Seq, Term: 5, Hash: last.Hash}) {
			t.Fatalf("ends at %+v, %v", end, err)
		}

		i := rapid.IntRange(0, len(records)-1).Draw(t, "victim")
		victim := records[i]
		rapid.SampledFrom(changes).Draw(t, "change")(&victim)
		if store.Hash(from.Hash, victim.Seq, victim.Term, victim.Entry) == store.Hash(from.Hash, records[i].Seq, 5, records[i].Entry) &&
			victim.Hash == records[i].Hash {
			t.Skip("the change moved an empty part")
		}
		good := records[i]
		records[i] = victim
		before, err := store.Verify(from, records)
		var bad *store.ChainError
		if !errors.As(err, &bad) || bad.Seq != good.Seq || before.Seq != good.Seq-1 {
			t.Fatalf("stopped at %+v with %v; want sequence %d", before, err, good.Seq)
		}
	})
}

// TestVerifyS31: a term that falls is refused though every hash is right.
func TestVerifyS31(t *testing.T) {
	e := []event.Entry{{Type: "t", Body: []byte("b")}}
	first := store.Chain(store.Head{}, 2, e)
	second := store.Chain(store.Head{Seq: 1, Term: 2, Hash: first[0].Hash}, 1, e)
	_, err := store.Verify(store.Head{}, append(first, second...))
	var bad *store.ChainError
	if !errors.As(err, &bad) || bad.Seq != 2 {
		t.Fatal(err)
	}
}

// pages is a log in memory for Replay, which reads nothing else.
type pages struct {
	store.Log
	records []event.Record
}

func (p pages) Read(_ context.Context, after uint64, _ int) ([]event.Record, error) {
	rest := p.records[min(after, uint64(len(p.records))):]
	return rest[:min(3, len(rest))], nil
}

// TestReplay: a damaged page is never handed on, and an error of the caller
// stops at the last page that it accepted.
func TestReplay(t *testing.T) {
	var batch []event.Entry
	for i := range 10 {
		batch = append(batch, event.Entry{Type: "t", Body: fmt.Append(nil, i)})
	}
	log := pages{records: store.Chain(store.Head{}, 1, batch)}
	var seen int
	count := func(page []event.Record) error { seen += len(page); return nil }
	end, err := store.Replay(t.Context(), log, store.Head{}, count)
	if err != nil || end.Seq != 10 || seen != 10 {
		t.Fatalf("%+v, %v, %d seen", end, err, seen)
	}
	stop := errors.New("stop")
	end, err = store.Replay(t.Context(), log, store.Head{}, func(page []event.Record) error {
		if page[0].Seq == 7 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || end.Seq != 6 {
		t.Fatalf("%+v, %v", end, err)
	}
	seen, log.records[4].Body = 0, []byte("forged")
	end, err = store.Replay(t.Context(), log, store.Head{}, count)
	if !errors.Is(err, store.ErrCorrupt) || end.Seq != 3 || seen != 3 {
		t.Fatalf("%+v, %v, %d seen", end, err, seen)
	}
}
