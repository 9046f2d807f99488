package control

import (
	"context"
	"crypto/ed25519"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

const (
	fleetName = "acme"
	hostName  = "web-1"
)

// history is what one host has to tell.
type history struct {
	key    ed25519.PrivateKey
	events []wire.Event
	chain  []identity.Chain // after so many events
}

// tell returns a history of n events, told at instants from at on.
func tell(t rapid.TB, key ed25519.PrivateKey, n int, at clock.Instant) *history {
	t.Helper()
	h := &history{key: key, chain: []identity.Chain{identity.Genesis(fleetName, hostName, 1)}}
	for i := range n {
		e := testkit.Value(event.NewEntry(at+clock.Instant(i), event.HostSubject(hostName), event.GrantDeclined{Grant: "g", Code: host.DeclineOldTerm}))(t)
		h.events = append(h.events, wire.Event{Seq: uint64(i + 1), At: e.At, Type: e.Type, Body: e.Body})
		h.chain = append(h.chain, h.chain[i].Next(e.At, e.Type, e.Body))
	}
	return h
}

// batch returns events from+1 to to with their signed head.
func (h *history) batch(t rapid.TB, from, to int) *wire.EventBatch {
	t.Helper()
	sig := testkit.Value(identity.SignHead(h.key, fleetName, hostName, 1, h.chain[to]))(t)
	return &wire.EventBatch{Incarnation: 1, Events: slices.Clone(h.events[from:to]),
		Head: wire.Head{Seq: uint64(to), Hash: h.chain[to].Hash[:], Signature: sig}}
}

// view is what the server publishes when it holds the first n events.
func (h *history) view(n int) *server.View {
	v := &server.View{Incarnation: 1, EventKey: h.key.Public().(ed25519.PublicKey), Seq: uint64(n)}
	if n > 0 {
		v.Chain = h.chain[n].Hash[:]
	}
	return v
}

// held is a log that holds the first n events of a history.
type held struct {
	*history
	n int
}

func (h held) LastAbout(_ context.Context, subject event.Subject, limit int) (records []event.Record, err error) {
	if subject != event.HostSubject(hostName) {
		return nil, errors.New("asked for another host")
	}
	for i := h.n - 1; i >= 0 && len(records) < limit; i-- {
		e := h.events[i]
		records = append(records, event.Record{Entry: event.Entry{At: e.At, Type: e.Type, Subject: subject, Incarnation: 1, HostSeq: e.Seq, Body: e.Body}})
	}
	return records, nil
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	testkit.Must(t, err)
	return key
}

// However batches overlap with what the server holds, what is fresh is exactly
// what it does not hold, and a host that tells two histories is found out.
func TestBatchGivesExactlyWhatIsNew(t *testing.T) {
	key := newKey(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "events")
		to := rapid.IntRange(1, n).Draw(t, "to")
		from := rapid.IntRange(0, to-1).Draw(t, "from")
		have := rapid.IntRange(from, n).Draw(t, "held")
		h := tell(t, key, n, 1000)
		b := testkit.Value(readBatch(hostName, h.batch(t, from, to)))(t)
		v := h.view(have)
		testkit.Must(t, b.signed(fleetName, v))
		fresh, ok, err := b.after(context.Background(), fleetName, v, held{h, have})
		if err != nil || !ok || len(fresh) != max(0, to-have) {
			t.Fatalf("%d fresh events of %d to %d when %d are held: %t, %v", len(fresh), from+1, to, have, ok, err)
		}
		for i, e := range fresh {
			if e.HostSeq != uint64(have+i+1) || e.Host() != hostName || string(e.Body) != string(h.events[have+i].Body) {
				t.Fatalf("fresh event %d is %+v", i, e)
			}
		}
		other := tell(t, key, n, 2000)
		if have == 0 {
			return // its only history
		}
		b, err = readBatch(hostName, other.batch(t, from, to))
		testkit.Must(t, err)
		if _, ok, err := b.after(context.Background(), fleetName, v, held{h, have}); ok || err != nil {
			t.Fatalf("events %d to %d of another history when %d are held: %t, %v", from+1, to, have, ok, err)
		}
	})
}

func TestBatchBounds(t *testing.T) {
	h := tell(t, newKey(t), 3, 1)
	for what, spoil := range map[string]func(*wire.EventBatch){
		"no events":        func(b *wire.EventBatch) { b.Events = nil },
		"too many":         func(b *wire.EventBatch) { b.Events = make([]wire.Event, wire.MaxEventBatch+1) },
		"no incarnation":   func(b *wire.EventBatch) { b.Incarnation = 0 },
		"event 0":          func(b *wire.EventBatch) { b.Events[0].Seq = 0 },
		"a gap":            func(b *wire.EventBatch) { b.Events[2].Seq++ },
		"no body":          func(b *wire.EventBatch) { b.Events[1].Body = nil },
		"a long body":      func(b *wire.EventBatch) { b.Events[1].Body = make([]byte, wire.MaxEventSize+1) },
		"another's event":  func(b *wire.EventBatch) { b.Events[1].Type = event.RootTrusted{}.EventType() },
		"an unknown event": func(b *wire.EventBatch) { b.Events[1].Type = "no.such" },
		"not an event":     func(b *wire.EventBatch) { b.Events[1].Body = []byte("[]") },
		"no step": func(b *wire.EventBatch) {
			b.Events[1].Type, b.Events[1].Body = event.HostStepped{}.EventType(), []byte(`{"input":"no-such"}`)
		},
		"an earlier head": func(b *wire.EventBatch) { b.Head.Seq-- },
		"a short head":    func(b *wire.EventBatch) { b.Head.Hash = b.Head.Hash[:31] },
	} {
		b := h.batch(t, 0, 3)
		testkit.Value(readBatch(hostName, b))(t)
		spoil(b)
		if _, err := readBatch(hostName, b); err == nil {
			t.Errorf("a batch with %s was taken", what)
		}
	}
}

func TestBatchOfAnotherKeyIsRefused(t *testing.T) {
	h := tell(t, newKey(t), 1, 1)
	b := testkit.Value(readBatch(hostName, h.batch(t, 0, 1)))(t)
	v := h.view(0)
	if b.signed(fleetName, v) != nil || b.signed("other", v) == nil {
		t.Error("a head is signed for one fleet")
	}
	v.EventKey = newKey(t).Public().(ed25519.PublicKey)
	if b.signed(fleetName, v) == nil {
		t.Error("a head of another key was taken")
	}
}

// A log that cannot be read is no word on the host's history.
func TestBatchNeedsTheLog(t *testing.T) {
	h := tell(t, newKey(t), 2, 1)
	b := testkit.Value(readBatch("web-2", h.batch(t, 0, 2)))(t)
	if _, _, err := b.after(context.Background(), fleetName, h.view(1), held{h, 1}); err == nil {
		t.Error("an unreadable log is silent")
	}
}
