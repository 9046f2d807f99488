package drift_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

func registered(t *testing.T, s *drift.State, token string) {
	testkit.Value(s.Step(drift.Registered{Node: "n", Issued: 1 << 50, Event: event.NodeRegistered{OnNode: event.OnNode{Node: "n"}, Key: []byte("k"), Token: token}}, 1))(t)
}

func hello(op uint64) drift.Connected {
	return drift.Connected{Node: "n", Key: []byte("k"), Instance: "i", Driver: "d", Version: "v", Op: op, Collections: []event.NodeCollection{{Kind: nodeconfig.Flow}}}
}

// pushes reports whether an operation is sent to the node, by a number above zero, and acknowledged.
func pushes(t *testing.T, s *drift.State, name string) {
	t.Helper()
	session := s.Nodes["n"].Session
	testkit.Value(s.Step(drift.Snapshot{Node: "n", Session: session, Complete: true, Instance: "i"}, 2))(t)
	set := drift.Set{Kind: nodeconfig.Flow, Name: name, Definition: nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: "n", Config: []byte(`{"a":1}`)}}}}
	testkit.Value(s.Edit(set, drift.By{Actor: "op", Reason: "test"}, 3))(t)
	f := s.Nodes["n"].Flight
	if f == nil {
		t.Fatalf("nothing is sent; it waits for %+v", s.Waits(s.Objects[drift.Key(nodeconfig.Flow, name)], nodeconfig.Flow, 3))
	}
	for ; f != nil; f = s.Nodes["n"].Flight {
		if f.Op == 0 {
			t.Fatalf("operation 0 is sent for %s", f.ID)
		}
		x := drift.Actual{Kind: nodeconfig.Flow, ID: f.ID, ETag: "e", Op: f.Op, OpETag: "e", Config: f.Config}
		testkit.Value(s.Step(drift.Answer{Node: "n", Session: session, Op: f.Op, Outcome: drift.Applied, Object: &x}, 4))(t)
	}
	if got := s.Objects[drift.Key(nodeconfig.Flow, name)].Legs[nodeconfig.Flow].Status; got != drift.Pushed {
		t.Fatalf("it is %s", got)
	}
}

// TestNumbersOfNodesAreBounded: a number that nothing explains is refused where it enters, and the name of the node stays good.
func TestNumbersOfNodesAreBounded(t *testing.T) {
	for _, op := range []uint64{math.MaxUint64, math.MaxUint64 - 1, 1 << 63, event.MaxCounter, 1<<20 + 1} {
		s := drift.New()
		registered(t, s, "t1")
		_, err := s.Step(hello(op), 2)
		if err == nil || !strings.Contains(err.Error(), "no restored backup") || !strings.Contains(err.Error(), "steady node retire n") {
			t.Errorf("operation %d: %v", op, err)
		}
		testkit.Value(s.Step(hello(0), 3))(t)
		pushes(t, s, "f")
	}
	s := drift.New()
	registered(t, s, "t1")
	testkit.Value(s.Step(hello(5000), 2))(t)
	if p := s.Nodes["n"].Paused; p == nil || p.Code != drift.Ahead {
		t.Errorf("a node that applied what a restored log lacks: %+v", p)
	}
	testkit.Value(s.Edit(drift.Resume{Node: "n"}, drift.By{Actor: "op", Reason: "test"}, 3))(t)
	pushes(t, s, "f")
	for what, in := range map[string]drift.Snapshot{ // order-free: each by itself
		"an operation that was not sent":            {Op: 5002},
		"a generation beyond what is counted":       {Op: 5001, Generation: event.MaxCounter + 1},
		"an object with an operation of the future": {Op: 5001, Objects: []drift.Actual{{Kind: nodeconfig.Flow, ID: "f", ETag: "e", Op: math.MaxUint64, OpETag: "e", Config: []byte(`{"a":1}`)}}},
	} {
		in.Node, in.Session, in.Complete, in.Instance = "n", s.Nodes["n"].Session, true, "i"
		s.Nodes["n"].Refusal = ""
		testkit.Value(s.Step(in, 5))(t)
		if got := s.Nodes["n"].Refusal; got != "malformed" {
			t.Errorf("%s: the snapshot is refused as %q", what, got)
		}
	}
}

// TestNameIsGoodAfterAnOlderServer: a log of a server that believed any number leads to a state that is of use, and one that
// was kept with such a number is after the node was retired.
func TestNameIsGoodAfterAnOlderServer(t *testing.T) {
	s := drift.New()
	registered(t, s, "t1")
	ev := event.NodeConnected{OnNode: event.OnNode{Node: "n"}, Session: 1, Instance: "i", Driver: "d", Version: "v", Op: math.MaxUint64, Collections: []event.NodeCollection{{Kind: nodeconfig.Flow}}}
	testkit.Must(t, s.Apply(testkit.Value(event.NewEntry(2, ev.On(), ev))(t)))
	pushes(t, s, "f")

	s.Nodes["n"].Op = math.MaxUint64 // as a snapshot has it
	set := drift.Set{Kind: nodeconfig.Flow, Name: "g", Definition: nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: "n", Config: []byte(`{"a":1}`)}}}}
	testkit.Value(s.Edit(set, drift.By{Actor: "op", Reason: "test"}, 5))(t)
	w := s.Waits(s.Objects[drift.Key(nodeconfig.Flow, "g")], nodeconfig.Flow, 5)
	if s.Nodes["n"].Flight != nil || w == nil || w.Next != "steady node retire n" {
		t.Errorf("an operation is sent: %+v; it waits for %+v", s.Nodes["n"].Flight, w)
	}
	testkit.Value(s.Edit(drift.Retire{Node: "n"}, drift.By{Actor: "op", Reason: "test"}, 6))(t)
	registered(t, s, "t2")
	testkit.Value(s.Step(hello(0), 7))(t)
	pushes(t, s, "h")
}

// TestRespeltFieldsAreNamed: what a node has by its word otherwise than was requested is shown with both values; what it has as
// requested, and a push that the server does not believe, is not.
func TestRespeltFieldsAreNamed(t *testing.T) {
	for what, c := range map[string]struct {
		has, want string
		respelt   []drift.Respelling
	}{
		"as requested":            {`{"host":"localhost","port":1}`, "", []drift.Respelling{}},
		"another spelling":        {`{"host":"127.0.0.1","port":1}`, `{"host":"127.0.0.1","port":1}`, []drift.Respelling{{Role: nodeconfig.Flow, Node: "n", Field: "host", Requested: "localhost", Actual: "127.0.0.1"}}},
		"a field that it drops":   {`{"host":"localhost"}`, `{"host":"localhost"}`, []drift.Respelling{{Role: nodeconfig.Flow, Node: "n", Field: "port", Requested: "1"}}},
		"without the node's word": {`{"host":"127.0.0.1","port":1}`, "", []drift.Respelling{}},
	} {
		s := drift.New()
		registered(t, s, "t1")
		testkit.Value(s.Step(hello(0), 2))(t)
		testkit.Value(s.Step(drift.Snapshot{Node: "n", Session: 1, Complete: true, Instance: "i"}, 3))(t)
		set := drift.Set{Kind: nodeconfig.Flow, Name: "f", Definition: nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: "n", Config: []byte(`{"host":"localhost","port":1}`)}}}}
		testkit.Value(s.Edit(set, drift.By{Actor: "op", Reason: "test"}, 4))(t)
		x := drift.Actual{Kind: nodeconfig.Flow, ID: "f", ETag: "e", Op: 1, OpETag: "e", Config: []byte(c.has)}
		testkit.Value(s.Step(drift.Answer{Node: "n", Session: 1, Op: 1, Outcome: drift.Applied, Object: &x, Want: []byte(c.want)}, 5))(t)
		if o := testkit.Value(s.ObjectDetail(nodeconfig.Flow, "f", 6))(t); !slices.Equal(o.Respelt, c.respelt) {
			t.Errorf("%s: %+v, expected %+v", what, o.Respelt, c.respelt)
		}
	}
}
