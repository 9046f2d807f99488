package drift

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

func (in Registered) node() string   { return in.Node }
func (in Connected) node() string    { return in.Node }
func (in Disconnected) node() string { return in.Node }
func (in Snapshot) node() string     { return in.Node }
func (in Answer) node() string       { return in.Node }
func (in Effect) node() string       { return in.Node }
func (in NextKey) node() string      { return in.Node }
func (in Refused) node() string      { return in.Node }
func (in Limited) node() string      { return in.Node }

// About is the node that an input is about.
func About(in Input) string { return in.node() }

// decide registers a node, or knows it already by the same token and key: the answer may
// have been lost.
func (in Registered) decide(s *State, _ clock.Instant) ([]event.OfNodes, error) {
	n := s.Nodes[in.Node]
	if used, spent := s.Tokens[in.Event.Token]; spent {
		if n != nil && used == in.Node && n.accepts(in.Event.Key) {
			return nil, nil
		}
		return nil, refuse(CodeForbidden, "the token was used already; if that was not node %s, retire it: steady node retire %s", in.Node, in.Node)
	}
	if n != nil && in.Issued < n.RetiredAt {
		return nil, refuse(CodeForbidden, "the token is older than the retirement of node %s; make a new one: steady node token %s", in.Node, in.Node)
	}
	return []event.OfNodes{in.Event}, nil
}

func (n *Node) accepts(key []byte) bool {
	return len(key) > 0 && (bytes.Equal(key, n.Key) || bytes.Equal(key, n.NextKey))
}

// Admits refuses a key that is not that of the node. A stranger does not learn which names there are.
func (s *State) Admits(node string, key []byte) error {
	cause := ""
	switch n := s.Nodes[node]; {
	case n == nil || n.RegisteredAt == 0:
		cause = "no node of that name is registered"
	case n.RetiredAt != 0:
		cause = "the node was retired"
	case !n.accepts(key):
		cause = "the key is not that of the node"
	default:
		return nil
	}
	return &Refusal{Code: CodeForbidden, Cause: cause, Message: fmt.Sprintf("no node %s has this key; a device that is new, was retired, or lost its state folder is registered with a new token: steady node token %s", node, node)}
}

// CheckCollections refuses kinds that no objects can have, and too many of them.
func CheckCollections(list []event.NodeCollection) error {
	if len(list) == 0 || len(list) > nodeconfig.MaxKinds {
		return refuse(CodeInvalid, "a node has 1 to %d collections, not %d", nodeconfig.MaxKinds, len(list))
	}
	seen := map[string]bool{}
	for _, c := range list {
		if err := nodeconfig.CheckKind(c.Kind); err != nil {
			return refuse(CodeInvalid, "%v", err)
		}
		if seen[c.Kind] {
			return refuse(CodeInvalid, "the collection %s is there twice", c.Kind)
		}
		seen[c.Kind] = true
		if err := c.Check(); err != nil {
			return refuse(CodeInvalid, "collection %s: %v", c.Kind, err)
		}
	}
	return nil
}

func (in Connected) decide(s *State, _ clock.Instant) ([]event.OfNodes, error) {
	if err := s.Admits(in.Node, in.Key); err != nil {
		return nil, err
	}
	if err := CheckCollections(in.Collections); err != nil {
		return nil, err
	}
	n, on := s.Nodes[in.Node], event.OnNode{Node: in.Node}
	if !event.Plausible(n.Op, in.Op) {
		return nil, refuse(CodeNumber, "the node claims to have applied operation %d, and the log of the server ends with %d: no restored backup is so far behind; "+
			"if the device is to begin anew, steady node retire %s, and register it with a new token", in.Op, n.Op, in.Node)
	}
	var out []event.OfNodes
	if bytes.Equal(in.Key, n.NextKey) {
		out = append(out, event.NodeKeyChanged{OnNode: on})
	}
	ev := event.NodeConnected{OnNode: on, Session: n.Session + 1, Instance: in.Instance, Machine: in.Machine, Driver: in.Driver, Version: in.Version, Op: in.Op}
	if !reflect.DeepEqual(n.Collections, in.Collections) {
		ev.Collections = in.Collections
	}
	out = append(out, ev)
	switch {
	case n.Paused != nil && n.Paused.Code != Emptied && (n.Paused.Code == Ahead || in.Op <= n.Op):
	case in.Op > n.Op:
		out = append(out, event.NodePaused{OnNode: on, Code: Ahead, Detail: fmt.Sprintf("the node applied operation %d and the log of the server ends with %d: the server was restored from a backup", in.Op, n.Op)})
	case n.Instance != "" && in.Instance != n.Instance && s.expects(n) > 0:
		out = append(out, n.rebuilt(in.Instance))
	}
	return out, nil
}

func (n *Node) rebuilt(instance string) event.NodePaused {
	return event.NodePaused{OnNode: event.OnNode{Node: n.Name}, Code: Rebuilt, Instance: instance, Detail: "the device was set up anew: its configuration is another one than before"}
}

// expects counts the legs that a node acknowledged.
func (s *State) expects(n *Node) (count int) {
	for _, r := range s.legs[n.Name] { // order-free: it only counts
		if o, _, l := s.leg(r); l.Acked != nil && !o.Removed {
			count++
		}
	}
	return count
}

func (in Disconnected) decide(s *State, _ clock.Instant) ([]event.OfNodes, error) {
	if n := s.Nodes[in.Node]; n == nil || !n.Online || n.Session != in.Session {
		return nil, nil
	}
	return []event.OfNodes{event.NodeDisconnected{OnNode: event.OnNode{Node: in.Node}, Session: in.Session, Reason: in.Reason}}, nil
}

func (in Refused) decide(s *State, _ clock.Instant) ([]event.OfNodes, error) {
	n := s.Nodes[in.Node]
	if n == nil || n.RefusedFor == in.Code {
		return nil, nil // whoever makes names up fills no log
	}
	return []event.OfNodes{event.NodeRefused{OnNode: event.OnNode{Node: in.Node}, Code: in.Code, Detail: in.Detail}}, nil
}

func (in Limited) decide(s *State, _ clock.Instant) ([]event.OfNodes, error) {
	n := s.Nodes[in.Node]
	if n == nil || n.Session != in.Session || n.Refusal == CodeTooMuch {
		return nil, nil
	}
	return []event.OfNodes{event.SnapshotRefused{OnNode: event.OnNode{Node: in.Node}, Code: CodeTooMuch, Detail: clip(in.Detail)}}, nil
}

func (in NextKey) decide(s *State, _ clock.Instant) ([]event.OfNodes, error) {
	n := s.Nodes[in.Node]
	if n == nil || n.RetiredAt != 0 || n.Session != in.Session || n.accepts(in.Key) {
		return nil, nil
	}
	return []event.OfNodes{event.NodeKeyOffered{OnNode: event.OnNode{Node: in.Node}, Key: in.Key}}, nil
}

func (in Effect) decide(s *State, _ clock.Instant) ([]event.OfNodes, error) {
	n := s.Nodes[in.Node]
	if n == nil || n.Session != in.Session {
		return nil, nil
	}
	o, d, l := s.leg(s.legs[in.Node][place{in.Kind, in.ID}])
	if o == nil || l.Acked == nil || l.Effect == in.Effect && l.Detail == in.Detail {
		return nil, nil
	}
	return []event.OfNodes{event.EffectChanged{SyncOf: o.sync(d), Effect: in.Effect, Detail: in.Detail}}, nil
}

// Step decides about an input and what is to be pushed after it, and folds that. The events
// are to be committed together.
func (s *State) Step(in Input, now clock.Instant) ([]event.OfNodes, error) {
	return s.StepIf(in, now, func([]event.OfNodes) error { return nil })
}

// StepIf is Step unless may refuses what was decided about the input itself: then nothing is changed.
func (s *State) StepIf(in Input, now clock.Instant, may func([]event.OfNodes) error) ([]event.OfNodes, error) {
	out, err := in.decide(s, now)
	if err == nil {
		err = may(out)
	}
	if err != nil {
		return nil, err
	}
	for _, ev := range out {
		s.fold(now, ev)
	}
	return append(out, s.flush(now)...), nil
}
