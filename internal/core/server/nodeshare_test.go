package server

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

// nodeRig is a server with nodes whose reports it takes in.
type nodeRig struct {
	t      *testing.T
	s      *Server
	now    clock.Instant
	logged map[string]int64 // bytes, by node
}

func newNodeRig(t *testing.T, names ...string) *nodeRig {
	r := &nodeRig{t: t, now: 1_700_000_000_000, logged: map[string]int64{}}
	r.s = Begin(Config{}.WithDefaults(), NewState(nil), 1, "n", nobody{}, Time{Now: r.now}, false, nil)
	for _, name := range names {
		testkit.Must(t, r.report(drift.Registered{Node: name, Event: event.NodeRegistered{OnNode: event.OnNode{Node: name}, Key: []byte(name), Token: name}}))
		testkit.Must(t, r.connect(name, nodeconfig.Rules{}))
		testkit.Must(t, r.report(r.snapshot(name)))
	}
	return r
}

func (r *nodeRig) report(in drift.Input) error {
	turn := &Turn{Time: Time{Now: r.now, Up: time.Duration(r.now) * time.Millisecond}}
	err := r.s.Step(turn, NodeReport{Input: in})
	r.logged[drift.About(in)] += Weight(turn.Events)
	return err
}

func (r *nodeRig) connect(name string, rules nodeconfig.Rules) error {
	return r.report(drift.Connected{Node: name, Key: []byte(name), Instance: "i", Driver: "d", Version: "v", Collections: []event.NodeCollection{{Kind: nodeconfig.Flow, Rules: rules}}})
}

func (r *nodeRig) session(name string) uint64 { return r.s.Nodes.Nodes[name].Session }

func (r *nodeRig) snapshot(name string, objects ...drift.Actual) drift.Snapshot {
	return drift.Snapshot{Node: name, Session: r.session(name), Complete: true, Instance: "i", Objects: objects}
}

// set has an operator want a flow on a node.
func (r *nodeRig) set(node, name, config string) {
	e := drift.Set{Kind: nodeconfig.Flow, Name: name, Definition: nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: nodeconfig.Flow, Node: node, Config: []byte(config)}}}}
	in := Nodes{Decide: func(s *drift.State, now clock.Instant) ([]event.OfNodes, error) {
		return s.Edit(e, drift.By{Actor: "op", Reason: "test"}, now)
	}}
	testkit.Must(r.t, r.s.Step(&Turn{Time: Time{Now: r.now}}, in))
}

func objects(n, size, round int) (out []drift.Actual) {
	for i := range n {
		config := fmt.Sprintf(`{"round":"%d","x":"%s"}`, round, strings.Repeat("x", size))
		out = append(out, drift.Actual{Kind: nodeconfig.Flow, ID: fmt.Sprintf("o-%d", i), ETag: fmt.Sprintf("e-%d-%d", i, round), Config: []byte(config)})
	}
	return out
}

// floods are what one node can have logged, each the whole day, as fast as it likes.
var floods = map[string]func(r *nodeRig, name string, round int) error{
	"other rules at each hello": func(r *nodeRig, name string, round int) error {
		rules := nodeconfig.Rules{}
		for i := range 100 {
			rules.Ignored = append(rules.Ignored, fmt.Sprintf("field-%d-%d-%s", i, round, strings.Repeat("f", 100)))
		}
		return r.connect(name, rules)
	},
	"reconnects": func(r *nodeRig, name string, _ int) error {
		err := r.connect(name, nodeconfig.Rules{})
		return errors.Join(err, r.report(drift.Disconnected{Node: name, Session: r.session(name), Reason: "gone"}))
	},
	"objects of others": func(r *nodeRig, name string, round int) error {
		return r.report(r.snapshot(name, objects(48, 50<<10, round)...))
	},
	"errors of snapshots": func(r *nodeRig, name string, round int) error {
		s := r.snapshot(name)
		if s.Complete = round%2 == 0; s.Complete {
			s.Objects = []drift.Actual{{Kind: "pipe"}}
		}
		s.Error = strings.Repeat("e", 900)
		return r.report(s)
	},
	"refusals by turns": func(r *nodeRig, name string, round int) error {
		code := []string{drift.CodeTooMuch, drift.CodeNumber, "another"}[round%3]
		return r.report(drift.Refused{Node: name, Code: code, Detail: strings.Repeat("d", 900)})
	},
	"effects": func(r *nodeRig, name string, round int) error {
		return r.report(drift.Effect{Node: name, Session: r.session(name), Kind: nodeconfig.Flow, ID: "wanted", Effect: "in effect", Detail: fmt.Sprint(round, strings.Repeat("d", 900))})
	},
	"keys": func(r *nodeRig, name string, round int) error {
		return r.report(drift.NextKey{Node: name, Session: r.session(name), Key: bytes.Repeat([]byte{byte(round), byte(round >> 8)}, 16)})
	},
	"answers": func(r *nodeRig, name string, round int) error {
		n := r.s.Nodes.Nodes[name]
		if n.Flight == nil {
			r.set(name, "wanted", fmt.Sprintf(`{"a":"%d"}`, round))
		}
		if n = r.s.Nodes.Nodes[name]; n.Flight == nil {
			return r.report(r.snapshot(name, drift.Actual{Kind: nodeconfig.Flow, ID: "wanted", ETag: fmt.Sprint("w", round-1), Config: []byte(`{}`)}))
		}
		x := objects(1, 50<<10, round)[0]
		x.ID, x.ETag = "wanted", fmt.Sprint("w", round)
		return r.report(drift.Answer{Node: name, Session: n.Session, Op: n.Flight.Op, Outcome: drift.Applied, Object: &x})
	},
}

// TestOneNodesShareOfTheLog: whatever a node has logged, it gets the burst and the rate of a host, over its connections; it
// is told how long it waits, and another node is not concerned.
func TestOneNodesShareOfTheLog(t *testing.T) {
	for what, flood := range floods { // order-free: each by itself
		t.Run(what, func(t *testing.T) {
			r := newNodeRig(t, "bad", "good")
			r.set("bad", "wanted", `{"a":"first"}`)
			if f := r.s.Nodes.Nodes["bad"].Flight; f != nil {
				x := drift.Actual{Kind: nodeconfig.Flow, ID: "wanted", ETag: "w0", Config: []byte(`{"a":"first"}`)}
				testkit.Must(t, r.report(drift.Answer{Node: "bad", Session: 1, Op: f.Op, Outcome: drift.Applied, Object: &x}))
			}
			const steps, every = 40_000, 20 * clock.Millisecond
			limit, refused := Config{}.WithDefaults().HostLog, 0
			begun := r.now
			for round := range steps {
				if refused > 10 {
					break
				}
				r.now = r.now.Add(every)
				err := flood(r, "bad", round+1)
				if no, ok := errors.AsType[*drift.Refusal](err); ok && no.Code == drift.CodeTooMuch {
					if refused++; no.After <= 0 || !strings.Contains(no.Message, "node bad") {
						t.Fatalf("it is refused with %+v", no)
					}
				}
			}
			if refused == 0 {
				t.Errorf("nothing was refused, and %d bytes are in the log", r.logged["bad"])
			}
			if most := limit.Burst + int64(r.now.Sub(begun))*limit.Tokens/int64(limit.Per) + 1<<20; r.logged["bad"] > most {
				t.Errorf("%d bytes are in the log, at most %d are allowed", r.logged["bad"], most)
			}
			if err := r.report(r.snapshot("good", objects(48, 10<<10, 1)...)); err != nil {
				t.Errorf("the other node: %v", err)
			}
			if err := r.report(drift.Disconnected{Node: "bad", Session: r.session("bad"), Reason: "gone"}); err != nil || r.s.Nodes.Nodes["bad"].Online {
				t.Errorf("that it is gone: %v", err)
			}
			r.now = r.now.Add(2 * clock.Hour)
			if err := r.connect("bad", nodeconfig.Rules{}); err != nil {
				t.Errorf("two hours later: %v", err)
			}
		})
	}
}

// TestHonestNodesKeepWithinTheirShare: what a large device reports at first, and what operators have pushed to it, fits.
func TestHonestNodesKeepWithinTheirShare(t *testing.T) {
	r := newNodeRig(t)
	testkit.Must(t, r.report(drift.Registered{Node: "big", Event: event.NodeRegistered{OnNode: event.OnNode{Node: "big"}, Key: []byte("big"), Token: "big"}}))
	testkit.Must(t, r.connect("big", nodeconfig.Rules{}))
	testkit.Must(t, r.report(r.snapshot("big", objects(100, 48<<10, 1)...)))
	if n := r.s.Nodes.Nodes["big"]; n.Adoption == nil || len(n.Adoption.Objects) != 100 {
		t.Fatal("it was not asked about")
	}
	r = newNodeRig(t, "big")
	for i := range 450 { // of 40 KiB: more than a node may have logged by itself
		r.now = r.now.Add(10 * clock.Millisecond)
		name, config := fmt.Sprintf("f-%d", i), fmt.Sprintf(`{"x":"%s"}`, strings.Repeat("x", 40<<10))
		r.set("big", name, config)
		f := r.s.Nodes.Nodes["big"].Flight
		if f == nil {
			t.Fatalf("operation %d is not sent", i)
		}
		x := drift.Actual{Kind: nodeconfig.Flow, ID: f.ID, ETag: name, Op: f.Op, OpETag: name, Config: f.Config}
		testkit.Must(t, r.report(drift.Answer{Node: "big", Session: 1, Op: f.Op, Outcome: drift.Applied, Object: &x}))
	}
}

// work is what one node can have the server read and compare, all day, as fast as it likes, with nothing of it in the log.
var work = map[string]func(r *nodeRig, name string, round int) error{
	"one of two configurations": func(r *nodeRig, name string, round int) error {
		return r.report(r.snapshot(name, objects(40, 100<<10, round%2)...))
	},
	"after a reconnection": func(r *nodeRig, name string, round int) error {
		return errors.Join(r.connect(name, nodeconfig.Rules{Ignored: []string{"x"}}), r.report(r.snapshot(name, objects(40, 100<<10, round)...)))
	},
	"an open difference": func(r *nodeRig, name string, _ int) error {
		x := objects(1, 200<<10, 7)[0]
		x.ID = "wanted"
		return r.report(r.snapshot(name, x))
	},
	"a config that cannot be read": func(r *nodeRig, name string, round int) error {
		x := objects(1, 200<<10, round)[0]
		x.Config = append(x.Config, '}')
		return r.report(r.snapshot(name, x))
	},
}

// TestWorkForOneNodeIsBounded: whatever a node has the server compare, it gets a burst and a rate; another node and operators
// are served, and it is once its time is over. A configuration that stays as it is costs nothing.
func TestWorkForOneNodeIsBounded(t *testing.T) {
	for what, flood := range work { // order-free: each by itself
		t.Run(what, func(t *testing.T) {
			r := newNodeRig(t, "bad", "good")
			r.set("bad", "wanted", `{"a":"first"}`)
			x := drift.Actual{Kind: nodeconfig.Flow, ID: "wanted", ETag: "w0", Config: []byte(`{"a":"first"}`)}
			testkit.Must(t, r.report(drift.Answer{Node: "bad", Session: 1, Op: r.s.Nodes.Nodes["bad"].Flight.Op, Outcome: drift.Applied, Object: &x}))
			refused, taken := 0, 0
			for round := range 200 {
				r.now = r.now.Add(clock.Second)
				err := flood(r, "bad", round+1)
				if no, ok := errors.AsType[*drift.Refusal](err); ok && no.Code == drift.CodeTooMuch {
					refused++
				} else if testkit.Must(t, err); true {
					taken++
				}
			}
			if taken < 2 || refused < 50 {
				t.Errorf("%d were taken and %d put off", taken, refused)
			}
			if err := r.report(r.snapshot("good", objects(48, 10<<10, 1)...)); err != nil {
				t.Errorf("the other node: %v", err)
			}
			r.now = r.now.Add(2 * clock.Hour)
			testkit.Must(t, errors.Join(r.connect("bad", nodeconfig.Rules{}), r.report(r.snapshot("bad", x))))
		})
	}
	r := newNodeRig(t, "quiet")
	testkit.Must(t, r.report(r.snapshot("quiet", objects(40, 100<<10, 1)...)))
	for range 500 {
		r.now = r.now.Add(clock.Second)
		testkit.Must(t, r.report(r.snapshot("quiet", objects(40, 100<<10, 1)...)))
	}
}
