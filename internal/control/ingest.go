package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/control/hosts"
	"github.com/steadyfleet/steady/internal/control/intake"
	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/wire"
)

// errMoved says that the host's chain moved on between the check of a batch and
// the reducer; the batch is checked again.
var errMoved = refusal.Newf(refusal.ErrConflict, "the host's chain moved on meanwhile")

// Ingest takes a batch of a host's events and returns when it is durable. A
// refusal of kind refusal.ErrConflict comes with the acknowledgement that says from
// where to go on.
func (c *Control) Ingest(ctx context.Context, p *Peer, b *wire.EventBatch) (wire.EventAck, error) {
	batch, err := intake.ReadBatch(p.Name, b)
	if err != nil {
		return wire.EventAck{}, refusal.Newf(refusal.ErrInvalid, "%v", err)
	}
	for {
		v := p.host.View()
		if err := p.check(); err != nil {
			return wire.EventAck{}, err
		}
		ack, err := c.ingest(ctx, p, batch, v)
		if err != errMoved {
			return ack, err
		}
	}
}

// ingest checks a batch against the host's chain as published and hands what is
// new to the reducer.
func (c *Control) ingest(ctx context.Context, p *Peer, b *intake.Batch, v *hosts.View) (wire.EventAck, error) {
	ack := wire.EventAck{Acked: v.Seq}
	refuse := func(format string, a ...any) (wire.EventAck, error) {
		r := refusal.Newf(refusal.ErrConflict, format, a...).(*refusal.Error)
		ack.Reason = r.Words
		return ack, r
	}
	first := b.Entries[0].HostSeq
	switch {
	case b.Incarnation != v.Incarnation:
		ack.Acked = 0
		return refuse("host %s is in incarnation %d, the batch is of %d", p.Name, v.Incarnation, b.Incarnation)
	case first > v.Seq+1:
		c.noteLag(p.Name, v.Incarnation, first-1)
		return refuse("the batch begins at event %d, the server holds %d", first, v.Seq)
	}
	if err := b.Signed(c.cfg.Fleet, v); err != nil {
		return ack, refusal.Newf(refusal.ErrInvalid, "%v", err)
	}
	entries, ok, err := b.After(ctx, c.cfg.Fleet, v, c.cfg.Store)
	switch {
	case err != nil:
		return ack, errors.Join(refusal.ErrUnavailable, err)
	case !ok:
		return c.forked(ctx, p, b, ack)
	case len(entries) == 0:
		return ack, nil
	}
	bytes := weigh(entries)
	if err := c.takeLog(p, bytes); err != nil {
		return ack, err
	}
	if err := c.commitEvents(ctx, p, b, v, entries); err != nil {
		p.host.ReturnLog(c.cfg.HostLog, bytes)
		return ack, err
	}
	c.metrics.events.Add(float64(len(entries)))
	ack.Acked = b.Head.Seq
	return ack, nil
}

// EventWeight is what the record of an event takes beside its body, in bytes, about.
const EventWeight = 512

func weigh(entries []event.Entry) int64 {
	n := int64(0)
	for i := range entries {
		n += EventWeight + int64(len(entries[i].Body))
	}
	return n
}

// takeLog takes bytes of what a host may add to the log, or refuses.
func (c *Control) takeLog(p *Peer, bytes int64) error {
	wait, news := p.host.TakeLog(c.cfg.HostLog, bytes, c.now())
	if wait == 0 {
		return nil
	}
	c.metrics.limited.Inc()
	if news {
		c.cfg.Log.Warn("a host reports more than its share of the log; the rest is taken later, and nobody else waits for it",
			"host", p.Name, "bytesPerSecond", c.cfg.HostLog.Tokens)
	}
	return &refusal.Error{Kind: refusal.ErrTooMuch, After: wait,
		Words: fmt.Sprintf("host %s has used its share of the log; send this again in %s", p.Name, wait)}
}

// commitEvents has the reducer fold and append the new entries of a batch.
func (c *Control) commitEvents(ctx context.Context, p *Peer, b *intake.Batch, v *hosts.View, entries []event.Entry) error {
	ev := event.HostHead{Incarnation: v.Incarnation, Seq: b.Head.Seq, Hash: b.Head.Hash, Signature: b.Head.Signature}
	in := &input{weight: len(entries), done: make(chan error, 1)}
	in.apply = func(t *turn) error {
		h := t.s.Hosts[p.Name]
		if h == nil || h.Incarnation != v.Incarnation || h.Seq != v.Seq || !bytes.Equal(h.ChainHash, v.Chain) ||
			h.RevokedBefore != v.RevokedBefore { // it may be shut out since
			return errMoved
		}
		c.outranked = c.outranked || declinesTerm(entries)
		err := t.add(plan.Ingest(t.s, p.Name, entries, ev, t.now))
		if refused, ok := errors.AsType[*plan.ReportError](err); ok { // it is the report that is wrong
			return refusal.Newf(refusal.ErrInvalid, "%s", refused.Reason)
		}
		return err
	}
	return c.wait(ctx, c.normal, in)
}

// declinesTerm reports whether a host declined a grant for its term.
func declinesTerm(entries []event.Entry) bool {
	for i := range entries {
		if entries[i].Type != (event.GrantDeclined{}).EventType() {
			continue
		}
		ev, err := event.Decode(entries[i])
		if d, ok := ev.(event.GrantDeclined); err == nil && ok && d.Code == host.DeclineOldTerm {
			return true
		}
	}
	return false
}

// forked records that a host's identity tells two histories.
func (c *Control) forked(ctx context.Context, p *Peer, b *intake.Batch, ack wire.EventAck) (wire.EventAck, error) {
	if end, first := p.host.Fork(); first {
		defer end()
		c.cfg.Log.Warn("two histories of one host: its state was copied or set back", "host", p.Name, "seq", b.Head.Seq)
		if err := c.recordFork(ctx, p, b); err != nil {
			return ack, err
		}
	}
	r := &refusal.Error{Kind: refusal.ErrConflict, Words: "host " + p.Name + " tells another history than it told before: two agents share its identity, or its state was set back; enrol it again"}
	ack.Reason = r.Words
	return ack, r
}

// recordFork keeps the second history and logs where it is.
func (c *Control) recordFork(ctx context.Context, p *Peer, b *intake.Batch) error {
	raw, err := json.Marshal(b)
	if err != nil {
		return err
	}
	record, err := c.cfg.Store.PutBlob(ctx, raw)
	if err != nil {
		return errors.Join(refusal.ErrUnavailable, err)
	}
	return c.submit(ctx, c.normal, func(t *turn) error {
		if h := t.s.Hosts[p.Name]; h == nil || h.Forked {
			return nil
		}
		return t.add(plan.Record(t.s, p.Name, t.now, event.HostForked{Incarnation: b.Incarnation, Seq: b.Head.Seq, Record: record}))
	})
}

// Claim commits a host's claim of a grant.
func (c *Control) Claim(ctx context.Context, p *Peer, m wire.Claim) (wire.ClaimAnswer, error) {
	if m.Grant == "" || len(m.Grant) > 64 {
		return wire.ClaimAnswer{}, refusal.Newf(refusal.ErrInvalid, "a claim names a grant")
	}
	err := c.submit(ctx, c.urgent, func(t *turn) error {
		if m.Term > c.head.Term {
			c.outranked = true
			return &plan.ClaimRefusedError{Reason: "the grant is of a newer server than this one"}
		}
		if b := c.restored(t.s, t.now).Claim(t.s, p.Name, m.Grant); b != nil {
			return refusal.Newf(refusal.ErrUnavailable, "%s", b.Words)
		}
		return t.add(plan.Claim(t.s, p.Name, m.Grant, t.now))
	})
	var refused *plan.ClaimRefusedError
	if errors.As(err, &refused) {
		return wire.ClaimAnswer{Reason: refused.Reason}, nil
	}
	return wire.ClaimAnswer{Accepted: err == nil}, err
}

// Heartbeat answers a host's heartbeat; it never advances a state.
func (c *Control) Heartbeat(p *Peer, m wire.Heartbeat) wire.HeartbeatReply {
	v := p.host.View()
	if acked := m.LastSeq - min(m.LastSeq, uint64(max(m.Pending, 0))); m.Incarnation == v.Incarnation && acked > v.Seq {
		c.noteLag(p.Name, v.Incarnation, acked)
	}
	if m.Incarnation == v.Incarnation && (m.Repairing == "" || v.Grant != nil && v.Grant.Claimed && v.Grant.ID == m.Repairing) {
		p.host.Tell(m.LastSeq) // or it acts on a claim that the log lacks
	}
	c.hosts.Keep(p.host, &m, c.now())
	mark, hurry := c.beat(p, v, &m)
	public := c.public.Load()
	r := wire.HeartbeatReply{Interval: c.cfg.Heartbeat, Acked: v.Seq, TimestampVersion: public.TimestampVersion, RootVersion: public.Verifier.RootVersion(),
		Settings: v.Layer.Settings, Managed: v.Layer.Version, Overrides: c.signed.Load().digest}
	if s := r.Settings; s != nil && s.HeartbeatInterval != 0 {
		r.Interval = s.HeartbeatInterval
	}
	r.Mark = mark
	if hurry {
		r.Interval = min(r.Interval, hosts.Hurry)
	}
	return r
}

// beat takes in which process of a host speaks, and records once that two do.
func (c *Control) beat(p *Peer, v *hosts.View, m *wire.Heartbeat) (mark uint64, hurry bool) {
	if m.Incarnation != v.Incarnation {
		return 0, false
	}
	mark, hurry, twice := p.host.Beat(m)
	if !twice || v.Forked {
		return mark, hurry
	}
	c.cfg.Log.Warn("two agents are alive on one identity: its state was copied", "host", p.Name)
	err := c.submit(context.Background(), c.normal, func(t *turn) error {
		if h := t.s.Hosts[p.Name]; h == nil || h.Forked || h.Incarnation != m.Incarnation {
			return nil
		}
		return t.add(plan.Record(t.s, p.Name, t.now, event.HostForked{Incarnation: m.Incarnation, Seq: m.LastSeq}))
	})
	if err != nil { // the next heartbeat proves it again
		c.cfg.Log.Warn("that a host is forked was not recorded", "host", p.Name, "err", err)
	}
	return mark, hurry
}
