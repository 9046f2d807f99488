package control

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// registry has what every node is asked next. It is safe for concurrent use; the zero value
// is empty.
type registry struct {
	mu        sync.Mutex
	m         map[string]*station
	uncounted bool // something of nodes changed since they were counted; the reducer's alone
	// online has the session of every node that was online when the process began.
	online map[string]uint64
}

// station is a node in the registry. It is never removed.
type station struct {
	signal
	mu   sync.Mutex
	work drift.Work
}

// get finds a node, or adds it.
func (r *registry) get(name string) *station {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.m[name]
	if n == nil {
		if n = (&station{}); r.m == nil {
			r.m = map[string]*station{}
		}
		r.m[name] = n
	}
	return n
}

// publish makes what a node is asked next visible, and wakes its connection if that changed.
func (n *station) publish(w drift.Work) {
	n.mu.Lock()
	same := sameWork(n.work, w)
	n.work = w
	n.mu.Unlock()
	if !same {
		n.wake()
	}
}

func sameWork(a, b drift.Work) bool {
	return a.Session == b.Session && a.Snapshot == b.Snapshot && a.At == b.At &&
		(a.Push == nil) == (b.Push == nil) && (a.Push == nil || a.Push.Op == b.Push.Op)
}

func (c *Control) publishNodes(names []string) {
	c.nodes.uncounted = c.nodes.uncounted || len(names) > 0
	for _, name := range names {
		c.nodes.get(name).publish(c.state.Nodes.Work(name))
	}
}

// publishAllNodes publishes those that the log names.
func (c *Control) publishAllNodes() {
	for name := range c.state.Nodes.Nodes { // order-free: each by itself
		c.nodes.get(name).publish(c.state.Nodes.Work(name))
	}
}

// NodeWork is what a node that registered is asked next, and a channel that is closed when that
// changes.
func (c *Control) NodeWork(name string) (drift.Work, <-chan struct{}) {
	n := c.nodes.get(name)
	changed := n.watch()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.work, changed
}

// Term is the term that the server leads under.
func (c *Control) Term() uint64 { return c.Head().Term }

// Nodes is how many nodes the server knows, with those that were retired.
func (c *Control) Nodes() int {
	c.nodes.mu.Lock()
	defer c.nodes.mu.Unlock()
	return len(c.nodes.m)
}

// decideNodes has the fold of nodes decide, and returns when that is durable. Its refusals are
// *drift.Refusal.
func (c *Control) decideNodes(ctx context.Context, lane chan *input, weight int, decide func(*drift.State, clock.Instant) ([]event.OfNodes, error)) error {
	return c.wait(ctx, lane, &input{Input: server.Nodes{Decide: decide}, done: make(chan error, 1), weight: weight})
}

// RegisterNode lets a node have a key by a token, unless it has it already: the answer may have
// been lost. Refusals are *drift.Refusal.
func (c *Control) RegisterNode(ctx context.Context, node string, key, token []byte) error {
	if err := c.Admits(); err != nil {
		return err
	}
	var admitted error
	if err := c.ViewNodes(ctx, func(s *drift.State) { admitted = s.Admits(node, key) }); err != nil || admitted == nil {
		return err
	}
	t, err := identity.VerifyNodeToken(c.public.Load().Verifier, token, c.now(), node, ed25519.PublicKey(key))
	if err != nil {
		return &drift.Refusal{Code: drift.CodeForbidden, Message: err.Error()}
	}
	doc, err := c.cfg.Store.PutBlob(ctx, token)
	if err != nil {
		return errors.Join(wire.ErrUnavailable, err)
	}
	in := drift.Registered{Node: node, Issued: t.IssuedAt, Event: event.NodeRegistered{
		OnNode: event.OnNode{Node: node}, Key: bytes.Clone(key), Token: t.ID, TokenDoc: doc}}
	return c.ReportNode(ctx, in)
}

// ConnectNode begins a session of a node that proved its key. It is begun also when ctx ends
// meanwhile, so that the caller can end it.
func (c *Control) ConnectNode(ctx context.Context, in drift.Connected) (session uint64, err error) {
	if err := c.Admits(); err != nil {
		return 0, err
	}
	err = c.report(context.WithoutCancel(ctx), server.NodeReport{Input: in, Then: func(s *drift.State) { session = s.Nodes[in.Node].Session }}, 1)
	return session, err
}

// ReportNode takes what the connection of a node reports, and returns when what follows from
// it is durable.
func (c *Control) ReportNode(ctx context.Context, in drift.Input) error {
	weight := 1
	if s, ok := in.(drift.Snapshot); ok {
		weight += len(s.Objects) / 8
	}
	return c.report(ctx, server.NodeReport{Input: in}, weight)
}

// report has the reducer take in what a node reports.
func (c *Control) report(ctx context.Context, in server.NodeReport, weight int) error {
	return c.wait(ctx, c.normal, &input{Input: in, done: make(chan error, 1), weight: weight})
}

// limited counts that a node was put off, and names it once an hour.
func (c *Control) limited(e server.NodeLimited) {
	c.metrics.nodesLimited.Inc()
	if e.News {
		c.cfg.Log.Warn("a node takes more than its share; the rest is accepted later, and no other node waits for it", "node", e.Node, "reason", e.Reason)
	}
}

// EditNodes has an operator's change of the configuration of nodes be durable.
func (c *Control) EditNodes(ctx context.Context, e drift.Edit, by drift.By) (events []event.OfNodes, err error) {
	err = c.decideNodes(ctx, c.urgent, 1, func(s *drift.State, now clock.Instant) (_ []event.OfNodes, err error) {
		events, err = s.Edit(e, by, now)
		return events, err
	})
	return events, refusal(err)
}

// reconnectWithin is how long after a start a node has to come back before it is offline.
const reconnectWithin = time.Minute

// dropGone ends the sessions of before the start of nodes that did not come back.
func (c *Control) dropGone(ctx context.Context) {
	if len(c.nodes.online) == 0 {
		return
	}
	t := time.NewTicker(reconnectWithin)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		err := c.decideNodes(ctx, c.normal, len(c.nodes.online), func(s *drift.State, now clock.Instant) ([]event.OfNodes, error) {
			return server.EndNodeSessions(s, c.nodes.online, now)
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		c.cfg.Log.Warn(fmt.Sprintf("nodes that did not come back are shown as online for another %s", reconnectWithin), "err", err)
	}
}

// countRetries counts the operations that are sent to a node though the one before failed.
func (c *Control) countRetries(entries []event.Entry) {
	for i := range entries {
		if entries[i].Type != (event.PushStarted{}).EventType() {
			continue
		}
		ev, err := event.Decode(entries[i])
		if p, is := ev.(event.PushStarted); err == nil && is && c.state.Nodes.Retries(p.SyncOf) {
			c.metrics.retries.Inc()
		}
	}
}
