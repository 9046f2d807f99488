package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/wire"
)

// Ingest takes a batch of a host's events and returns when it is durable. A
// refusal of kind wire.ErrConflict comes with the acknowledgement that says from
// where to go on.
func (c *Control) Ingest(ctx context.Context, p *Peer, b *wire.EventBatch) (wire.EventAck, error) {
	read, err := readBatch(p.Name, b)
	if err != nil {
		return wire.EventAck{}, wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	for {
		v := p.host.View()
		if err := p.check(); err != nil {
			return wire.EventAck{}, err
		}
		ack, err := c.ingest(ctx, p, read, v)
		if !errors.Is(err, server.ErrMoved) {
			return ack, err
		}
	}
}

// ingest checks a batch against the host's chain as published and hands what is
// new to the reducer.
func (c *Control) ingest(ctx context.Context, p *Peer, b *batch, v *server.View) (wire.EventAck, error) {
	acked, ahead, err := v.Continues(p.Name, b.Incarnation, b.Entries[0].HostSeq)
	ack := wire.EventAck{Acked: acked}
	if ahead > 0 {
		c.noteAhead(p.Name, v.Incarnation, ahead)
	}
	if err != nil {
		ack.Reason, ack.Head = err.Error(), c.signedHead(ctx, p.Name, v.Incarnation)
		return ack, refusal(err)
	}
	if err := b.signed(c.cfg.Fleet, v); err != nil {
		return ack, wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	entries, ok, err := b.after(ctx, c.cfg.Fleet, v, c.cfg.Store)
	switch {
	case err != nil:
		return ack, errors.Join(wire.ErrUnavailable, err)
	case !ok:
		return c.forked(ctx, p, b, ack)
	case len(entries) == 0:
		return ack, nil
	}
	bytes := server.Weight(entries)
	if err := c.takeLog(p, bytes); err != nil {
		return ack, err
	}
	if err := c.commitEvents(ctx, p, b, v, entries); err != nil {
		p.host.do(func(s *server.Session) { s.ReturnLog(c.cfg.HostLog, bytes) })
		return ack, err
	}
	c.metrics.events.Add(float64(len(entries)))
	ack.Acked = b.Head.Seq
	return ack, nil
}

// takeLog takes bytes of what a host may add to the log, or refuses.
func (c *Control) takeLog(p *Peer, bytes int64) error {
	var wait clock.Duration
	var news bool
	p.host.do(func(s *server.Session) { wait, news = s.SpendLog(c.cfg.HostLog, bytes, c.now()) })
	if wait == 0 {
		return nil
	}
	c.metrics.limited.Inc()
	if news {
		c.cfg.Log.Warn("a host reports more than its share of the log; the rest is accepted later, and nobody else waits for it",
			"host", p.Name, "bytesPerSecond", c.cfg.HostLog.Tokens)
	}
	return &wire.Refusal{Kind: wire.ErrTooMuch, After: wait,
		Message: fmt.Sprintf("host %s has used its share of the log; send this again in %s", p.Name, wait)}
}

// commitEvents has the reducer fold and append the new entries of a batch.
func (c *Control) commitEvents(ctx context.Context, p *Peer, b *batch, v *server.View, entries []event.Entry) error {
	head := event.HostHead{Incarnation: v.Incarnation, Seq: b.Head.Seq, Hash: b.Head.Hash, Signature: b.Head.Signature}
	in := server.Batch{Host: p.Name, View: v, Entries: entries, Events: b.Events[len(b.Events)-len(entries):], Head: head}
	err := c.wait(ctx, c.normal, &input{Input: in, weight: len(entries), done: make(chan error, 1)})
	if r, ok := errors.AsType[*plan.ReportError](err); ok { // it is the report that is wrong
		return wire.Refuse(wire.ErrInvalid, "%s", r.Reason)
	}
	return err
}

// forked records that a host's identity tells two histories.
func (c *Control) forked(ctx context.Context, p *Peer, b *batch, ack wire.EventAck) (wire.EventAck, error) {
	first := false
	p.host.do(func(s *server.Session) { first = s.BeginFork(p.host.View()) })
	if first {
		defer p.host.do((*server.Session).EndFork)
		c.cfg.Log.Warn("two histories of one host: its state was copied or set back", "host", p.Name, "seq", b.Head.Seq)
		if err := c.recordFork(ctx, p, b); err != nil {
			return ack, err
		}
	}
	r := &wire.Refusal{Kind: wire.ErrConflict, Message: "host " + p.Name + " reports another history than before: two agents share its identity, or its state was set back; enrol it again"}
	ack.Reason, ack.Head = r.Message, c.signedHead(ctx, p.Name, b.Incarnation)
	return ack, r
}

// headWithin is how many records about a host are searched for its newest signed head:
// more than a batch with what follows it has.
const headWithin = 2 * wire.MaxEventBatch

// signedHead is the newest head that a host signed in an incarnation, or nil.
func (c *Control) signedHead(ctx context.Context, name string, incarnation uint64) *wire.Head {
	records, err := c.cfg.Store.LastAbout(ctx, event.HostSubject(name), headWithin)
	if err != nil {
		c.cfg.Log.Warn("the signed head of a host could not be read; the answer goes without it", "host", name, "err", err)
		return nil
	}
	for i := range records {
		if h, ok := documents.HeadIn(&records[i], incarnation); ok {
			return &wire.Head{Seq: h.Seq, Hash: h.Hash, Signature: h.Signature}
		}
	}
	return nil
}

// recordFork keeps the second history and logs where it is.
func (c *Control) recordFork(ctx context.Context, p *Peer, b *batch) error {
	raw, err := json.Marshal(b)
	if err != nil {
		return err
	}
	record, err := c.cfg.Store.PutBlob(ctx, raw)
	if err != nil {
		return errors.Join(wire.ErrUnavailable, err)
	}
	return c.submit(ctx, c.normal, server.Fork{Host: p.Name, Incarnation: b.Incarnation, Seq: b.Head.Seq, Record: record})
}

// Claim commits a host's claim of a grant.
func (c *Control) Claim(ctx context.Context, p *Peer, m wire.Claim) (wire.ClaimAnswer, error) {
	if m.Grant == "" || len(m.Grant) > 64 {
		return wire.ClaimAnswer{}, wire.Refuse(wire.ErrInvalid, "a claim names a grant")
	}
	err := c.submit(ctx, c.urgent, server.Claim{Host: p.Name, Grant: m.Grant, Term: m.Term})
	if r, ok := errors.AsType[*plan.ClaimRefusedError](err); ok {
		return wire.ClaimAnswer{Reason: r.Reason}, nil
	}
	if u, ok := errors.AsType[*server.UnsureError](err); ok {
		err = wire.Refuse(wire.ErrUnavailable, "%s", u.Reason)
	}
	return wire.ClaimAnswer{Accepted: err == nil}, err
}

// Heartbeat answers a host's heartbeat; it never advances a state.
func (c *Control) Heartbeat(p *Peer, m wire.Heartbeat) wire.HeartbeatReply {
	v, every := p.host.view.Load(), c.cfg.Heartbeat
	if v.settings != nil && v.settings.HeartbeatInterval != 0 {
		every = v.settings.HeartbeatInterval
	}
	var a server.HeartbeatAnswer
	p.host.do(func(s *server.Session) {
		a = s.Heartbeat(v.View, server.Heartbeat{Incarnation: m.Incarnation, LastSeq: m.LastSeq, Pending: uint64(max(m.Pending, 0)),
			Repairing: m.Repairing, Process: m.Process, Mark: m.Mark, Parked: m.Parked}, every, rand.Uint64())
	})
	if a.Ahead > 0 {
		c.noteAhead(p.Name, v.Incarnation, a.Ahead)
	}
	if a.Believed {
		p.host.lastEvent.Store(m.LastSeq + 1)
	}
	c.hosts.keep(p.host, &m, c.now())
	if a.Forked || a.Parked != "" {
		c.recordTwice(p, &m, a.Parked)
	}
	var head *wire.Head
	if a.Behind {
		head = c.signedHead(context.Background(), p.Name, v.Incarnation)
	}
	public := c.public.Load()
	return wire.HeartbeatReply{Head: head, Interval: a.Interval, Mark: a.Mark, Acked: a.Acked, TimestampVersion: public.TimestampVersion, RootVersion: public.Verifier.RootVersion(),
		Settings: v.settings, Managed: v.Layer, Overrides: c.signed.Load().digest, Facts: !c.cfg.NoHostFacts && c.time().Up >= c.facts}
}

// recordTwice records that two processes share a host's identity, or that the host is
// parked.
func (c *Control) recordTwice(p *Peer, m *wire.Heartbeat, parked string) {
	if parked != "" {
		c.cfg.Log.Warn("a host is parked until it enrols again: its state was set back", "host", p.Name, "code", parked)
	} else {
		c.cfg.Log.Warn("two agents are alive on one identity: its state was copied", "host", p.Name)
	}
	err := c.submit(context.Background(), c.normal, server.Fork{Host: p.Name, Incarnation: m.Incarnation, Seq: m.LastSeq, Parked: parked})
	if err != nil { // the next heartbeat proves it again
		c.cfg.Log.Warn("that a host is forked was not recorded", "host", p.Name, "err", err)
	}
}
