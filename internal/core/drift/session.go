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

// Admits refuses a key that is not that of the node.
func (s *State) Admits(node string, key []byte) error {
	switch n := s.Nodes[node]; {
	case n == nil || n.RegisteredAt == 0:
		return refuse(CodeForbidden, "node %s is not registered; start it with a token: steady node token %s", node, node)
	case n.RetiredAt != 0:
		return refuse(CodeForbidden, "node %s was retired; a new token brings it back: steady node token %s", node, node)
	case !n.accepts(key):
		return refuse(CodeForbidden, "the key is not that of node %s; if the device lost its state folder, register it anew: steady node token %s", node, node)
	}
	return nil
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
	out, err := in.decide(s, now)
	if err != nil {
		return nil, err
	}
	for _, ev := range out {
		s.fold(now, ev)
	}
	return append(out, s.flush(now)...), nil
}
