package nodesdk_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadyfleet/steady/nodesdk"
	"github.com/steadyfleet/steady/nodesdk/nodetest"
)

// patience is how long a test waits for what should come at once.
const patience = 30 * time.Second

// start runs a node with a driver against a peer.
func start(t *testing.T, peer *nodetest.Peer, d nodesdk.Driver, dir string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- nodesdk.Run(ctx, nodesdk.Config{
			Driver: d, DriverName: "memory", Program: "memory 1", Name: "n1", StateDir: dir, Server: peer.Address, RootCAs: peer.RootCAs,
			Collections: []nodesdk.Collection{{Kind: "flow", Secrets: []string{"key"}}}, Token: []byte("token"), Poll: 20 * time.Millisecond,
		})
	}()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func newPeer(t *testing.T) *nodetest.Peer {
	t.Helper()
	peer, err := nodetest.NewPeer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Close() })
	return peer
}

func session(t *testing.T, peer *nodetest.Peer) *nodetest.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := peer.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(t *testing.T, s *nodetest.Session, r nodesdk.Request) nodesdk.Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a, err := s.Request(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func apply(t *testing.T, s *nodetest.Session, a nodesdk.Apply) nodesdk.Applied {
	t.Helper()
	answer := request(t, s, nodesdk.Request{Apply: &a})
	if answer.Applied == nil {
		t.Fatalf("the answer is %+v", answer)
	}
	return *answer.Applied
}

// TestSession: registration, an operation that is acknowledged once and again, the token
// only until the welcome.
func TestSession(t *testing.T) {
	peer, d, dir := newPeer(t), newMemory(), t.TempDir()
	stop := start(t, peer, d, dir)
	s := session(t, peer)
	if string(s.Hello.Token) != "token" || s.Hello.Op != 0 || s.Hello.Instance == "" {
		t.Errorf("the first hello is %+v", s.Hello)
	}
	create := nodesdk.Apply{Op: 7, Term: 1, Kind: "flow", ID: "a", Config: json.RawMessage(`{"port":1,"key":{"$secret":"k"}}`)}
	if got := apply(t, s, create); got.Outcome != nodesdk.OutcomeInvalid || got.Code != "secret-missing" {
		t.Errorf("without the secret it is %+v", got)
	}
	if err := nodesdk.SetSecret(dir, "k", "hush-hush"); err != nil {
		t.Fatal(err)
	}
	got := apply(t, s, create)
	if got.Outcome != nodesdk.OutcomeApplied || got.Object == nil || got.Object.Op != 7 {
		t.Fatalf("it is %+v", got)
	}
	s.Cut()
	s = session(t, peer)
	if len(s.Hello.Token) != 0 || s.Hello.Op != 7 {
		t.Errorf("the second hello is %+v", s.Hello)
	}
	if again := apply(t, s, create); again.Outcome != nodesdk.OutcomeAlready || again.Object.ETag != got.Object.ETag {
		t.Errorf("the second time it is %+v", again)
	}
	stop()
	peer.SetTerm(5)
	stop = start(t, peer, d, dir)
	s = session(t, peer)
	stale := create
	stale.Op, stale.IfMatch = 8, got.Object.ETag
	if a := apply(t, s, stale); a.Outcome != nodesdk.OutcomeFailed || a.Code != "stale-term" {
		t.Errorf("of an older server it is %+v", a)
	}
	stop()
}

// TestKeyRotation: a new key is used once it was announced, and one whose announcement was
// lost does not lock the node out.
func TestKeyRotation(t *testing.T) {
	peer, d, dir := newPeer(t), newMemory(), t.TempDir()
	stop := start(t, peer, d, dir)
	s := session(t, peer)
	first := s.Hello.Key
	if err := nodesdk.RotateKey(dir); err != nil {
		t.Fatal(err)
	}
	for m := range s.Events {
		if m.Type == nodesdk.TypeNextKey {
			break
		}
	}
	peer.Forget()
	s.Cut()
	s = session(t, peer)
	if string(s.Hello.Key) != string(first) {
		t.Errorf("after a lost announcement the node has another key than the server knows")
	}
	s = session(t, peer)
	if string(s.Hello.Key) == string(first) {
		t.Errorf("the node did not use the key that it announced")
	}
	stop()
	stop = start(t, peer, d, dir)
	if again := session(t, peer); string(again.Hello.Key) != string(s.Hello.Key) {
		t.Errorf("the next start has another key")
	}
	stop()
}

// TestHandEdit: what somebody else changes is reported, what the node applies is not.
func TestHandEdit(t *testing.T) {
	peer, d := newPeer(t), newMemory()
	defer start(t, peer, d, t.TempDir())()
	s := session(t, peer)
	snap := *request(t, s, nodesdk.Request{Snapshot: &nodesdk.SnapshotRequest{}}).Snapshot
	if got := apply(t, s, nodesdk.Apply{Op: 1, Term: 1, Kind: "flow", ID: "a", Config: json.RawMessage(`{"port":1}`)}); got.Outcome != nodesdk.OutcomeApplied || got.Generation <= snap.Generation {
		t.Fatalf("it is %+v after generation %d", got, snap.Generation)
	}
	snap = *request(t, s, nodesdk.Request{Snapshot: &nodesdk.SnapshotRequest{}}).Snapshot
	d.set("a", `{"port":2}`)
	m := <-s.Events
	if m.Type != nodesdk.TypeChanged || m.Changed.Generation != snap.Generation+1 {
		t.Errorf("after a hand edit the node sent %+v, the generation was %d", m, snap.Generation)
	}
	if got := apply(t, s, nodesdk.Apply{Op: 2, Term: 1, Kind: "flow", ID: "a", Delete: true, IfMatch: snap.Objects[0].ETag}); got.Outcome != nodesdk.OutcomeConflict || got.Object == nil {
		t.Errorf("deleting what was edited is %+v", got)
	}
}

// probed is a device that says whether an object is in effect.
type probed struct {
	*memory
	effect atomic.Value
}

func (p *probed) Probe(context.Context, nodesdk.Item) (effect, detail string, err error) {
	return p.effect.Load().(string), "no media of hush-hush", nil
}

// TestEffect: it is in the answer, and each change of it is reported once.
func TestEffect(t *testing.T) {
	peer, d := newPeer(t), &probed{memory: newMemory()}
	d.effect.Store(nodesdk.NotInEffect)
	defer start(t, peer, d, t.TempDir())()
	s := session(t, peer)
	if got := apply(t, s, nodesdk.Apply{Op: 1, Term: 1, Kind: "flow", ID: "a", Config: json.RawMessage(`{"key":"hush-hush"}`)}); got.Effect != nodesdk.NotInEffect {
		t.Errorf("the answer is %+v", got)
	}
	for _, want := range []string{nodesdk.NotInEffect, nodesdk.InEffect} {
		d.effect.Store(want)
		m := <-s.Events
		if m.Effect == nil || m.Effect.Effect != want || m.Effect.ID != "a" || strings.Contains(m.Effect.Detail, "hush") {
			t.Errorf("the node sent %+v, expected %q", m, want)
		}
	}
}
