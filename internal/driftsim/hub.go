package driftsim

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
)

// conn is a connection of a node. Messages come in order; what is on its way is lost when it
// is cut.
type conn struct {
	session  uint64
	toNode   []request
	toServer []reply
	// asked is the request that the hub waits for, zero for none.
	asked   uint64
	last    uint64
	changed bool          // the node said that somebody else changed something
	rest    clock.Instant // no snapshot is asked for before
}

// request is what the hub asks of a node: an operation, or else its configuration.
type request struct {
	id   uint64
	push *drift.Push
}

// reply is what a node sends: an answer, or word of a change.
type reply struct {
	id       uint64
	answer   *drift.Answer
	snapshot *drift.Snapshot
	op       uint64 // the newest operation that the node applied in truth, of a snapshot
	effect   *drift.Effect
}

// step has the server decide about an input, and commits what comes of it.
func (w *World) step(in drift.Input) error {
	if a, is := in.(drift.Answer); is {
		w.judge.Answer(said(&a))
	}
	events, err := w.state.Step(in, w.now)
	w.commit(events)
	return err
}

// commit writes the log, which the judge reads.
func (w *World) commit(events []event.OfNodes) {
	for _, ev := range events {
		w.log = append(w.log, entry{w.now, ev})
		w.trace("log %s", ev)
		found := len(w.judge.Found)
		w.judge.Log(w.now, ev)
		for _, v := range w.judge.Found[found:] {
			w.trace("VIOLATION %s: %s", v.Invariant, v.Message)
		}
		w.flies(ev)
	}
	w.judge.Committed()
}

// flies checks that the operation in flight to a node is of a leg that there is: else nothing
// that the node answers would end it.
func (w *World) flies(ev event.OfNodes) {
	n := w.state.Nodes[ev.On().Name]
	if n == nil || n.Flight == nil {
		return
	}
	if o := w.state.Objects[n.Flight.Object]; o == nil || o.Legs[n.Flight.Role] == nil || o.Legs[n.Flight.Role].Status != drift.Pushing {
		w.judge.Violate("S45", "operation %d to node %s is of no leg that is being pushed", n.Flight.Op, n.Name)
	}
}

// connect begins a session of a node; one that is still there is replaced.
func (w *World) connect(n *node) {
	if n.conn != nil {
		for len(n.conn.toNode) > 0 && w.chance(50) {
			w.serve(n, n.conn)
		}
		n.late = append(n.late[max(0, len(n.late)-1):], n.conn)
		n.conn = nil
	}
	key := n.key
	if n.next != nil && w.chance(70) {
		key = n.next
	}
	if st := w.state.Nodes[n.name]; st == nil || st.RegisteredAt == 0 || w.state.Admits(n.name, key) != nil {
		if !w.quiet && w.chance(20) {
			return // nobody gave it a token yet
		}
		w.register(n)
		key = n.key
	}
	in := drift.Connected{Node: n.name, Key: key, Instance: n.instanceName(), Machine: n.machine, Driver: "model", Version: "1", Op: n.reported(), Collections: n.collections()}
	if err := w.step(in); err != nil {
		w.trace("%s is refused: %v", n.name, err)
		return
	}
	if n.next != nil && string(key) == string(n.next) {
		n.key, n.next = n.next, nil
	}
	n.conn = &conn{session: w.state.Nodes[n.name].Session}
	w.trace("%s is connected, op %d, instance %d", n.name, n.op, n.instance)
}

func (w *World) register(n *node) {
	for {
		err := w.step(drift.Registered{Node: n.name, Issued: w.now, Event: event.NodeRegistered{OnNode: event.OnNode{Node: n.name}, Key: n.key, Token: string(n.key)}})
		if err == nil && w.state.Admits(n.name, n.key) == nil {
			return
		}
		n.identify()
	}
}

// pump sends what is due.
func (w *World) pump() {
	for _, n := range w.nodes {
		c := n.conn
		if c == nil || c.asked != 0 {
			continue
		}
		work := w.state.Work(n.name)
		if work.Session != c.session {
			continue
		}
		read := (work.Snapshot && work.At <= w.now || c.changed) && c.rest <= w.now
		switch {
		case work.Push != nil:
			p := *work.Push
			c.ask(request{push: &p})
		case read:
			c.changed = false
			c.ask(request{})
		}
	}
}

func (c *conn) ask(r request) {
	c.last++
	r.id, c.asked = c.last, c.last
	c.toNode = append(c.toNode, r)
}

// serve has a node do the next request of a connection.
func (w *World) serve(n *node, c *conn) {
	r := c.toNode[0]
	c.toNode = c.toNode[1:]
	out := reply{id: r.id}
	if r.push == nil {
		s := n.snapshot()
		s.Session = c.session
		out.snapshot, out.op = &s, n.op
		w.trace("%s is read: complete %v, %d objects, op %d", n.name, s.Complete, len(s.Objects), s.Op)
	} else {
		a := n.apply(r.push)
		a.Session = c.session
		out.answer = &a
		w.trace("%s is pushed %d %s %s delete=%v if %q %s: %s %s", n.name, r.push.Op, r.push.Kind, r.push.ID, r.push.Delete, r.push.IfMatch, r.push.Config, a.Outcome, a.Code)
	}
	c.toServer = append(c.toServer, out)
	if !w.quiet && w.chance(5) {
		c.toServer = append(c.toServer, out) // twice
	}
}

// receive has the server read the next message of a connection.
func (w *World) receive(c *conn) {
	m := c.toServer[0]
	c.toServer = c.toServer[1:]
	if m.answer == nil && m.snapshot == nil && m.effect == nil {
		c.changed = true
		return
	}
	if m.effect != nil {
		w.must(w.step(*m.effect))
		return
	}
	if m.answer != nil {
		w.must(w.step(*m.answer))
	} else if m.id == c.asked {
		w.judge.Snapshot(seen(m.snapshot, m.op))
		w.must(w.step(*m.snapshot))
		if st := w.state.Nodes[m.snapshot.Node]; st.Refusal != "" {
			c.rest = w.now.Add(drift.RetryEvery)
		}
	}
	if m.id == c.asked {
		c.asked = 0
	}
}

// cut ends a connection. What the node was asked it may have done before.
func (w *World) cut(n *node, known bool) {
	c := n.conn
	if c == nil {
		return
	}
	for len(c.toNode) > 0 && w.chance(50) {
		w.serve(n, c)
	}
	n.conn = nil
	if known {
		w.must(w.step(drift.Disconnected{Node: n.name, Session: c.session, Reason: "the connection was cut"}))
	}
	if w.chance(30) {
		c.toNode = nil
		n.late = append(n.late[max(0, len(n.late)-1):], c)
	}
	w.trace("%s is cut off, known %v", n.name, known)
}

// deliver moves one message, and reports whether there was one.
func (w *World) deliver() bool {
	var can []func()
	for _, n := range w.nodes {
		for _, c := range append(slices.Clone(n.late), n.conn) {
			if c == nil {
				continue
			}
			if len(c.toNode) > 0 && c == n.conn {
				can = append(can, func() { w.serve(n, c) })
			}
			if len(c.toServer) > 0 {
				can = append(can, func() { w.receive(c) })
			}
		}
	}
	if len(can) == 0 {
		return false
	}
	can[w.rng.IntN(len(can))]()
	return true
}
