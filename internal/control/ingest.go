package control

import (
	"bytes"
	"context"
	"errors"

	"github.com/steadyfleet/steady/internal/control/hosts"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// errMoved says that the host's chain moved on between the check of a batch and
// the reducer; the batch is checked again.
var errMoved = refusef(ErrConflict, "the host's chain moved on meanwhile")

// Ingest takes a batch of a host's events and returns when it is durable. A
// refusal of kind ErrConflict comes with the acknowledgement that says from
// where to go on.
func (c *Control) Ingest(ctx context.Context, p *Peer, b *wire.EventBatch) (wire.EventAck, error) {
	entries, err := batchEntries(p.Name, b)
	if err != nil {
		return wire.EventAck{}, err
	}
	for {
		v := p.host.View()
		if err := p.check(); err != nil {
			return wire.EventAck{}, err
		}
		ack, err := c.ingest(ctx, p, b, v, entries)
		if err != errMoved {
			return ack, err
		}
	}
}

// batchEntries checks all of a batch that needs no state.
func batchEntries(name string, b *wire.EventBatch) ([]event.Entry, error) {
	if len(b.Events) == 0 || len(b.Events) > wire.MaxEventBatch {
		return nil, refusef(ErrInvalid, "a batch has 1 to %d events, not %d", wire.MaxEventBatch, len(b.Events))
	}
	if b.Incarnation == 0 || b.Events[0].Seq == 0 {
		return nil, refusef(ErrInvalid, "incarnations and events count from 1")
	}
	entries := make([]event.Entry, len(b.Events))
	for i := range b.Events {
		e := &b.Events[i]
		switch {
		case e.Seq != b.Events[0].Seq+uint64(i):
			return nil, refusef(ErrInvalid, "event %d of the batch has number %d; a batch has no gaps", i, e.Seq)
		case len(e.Body) == 0 || len(e.Body) > wire.MaxEventSize:
			return nil, refusef(ErrInvalid, "event %d has a body of %d bytes; 1 to %d are taken", e.Seq, len(e.Body), wire.MaxEventSize)
		case !event.FromHost(e.Type):
			return nil, refusef(ErrInvalid, "event %d has type %q, which hosts do not report to this version; update the server first", e.Seq, e.Type)
		}
		entries[i] = event.Entry{At: e.At, Type: e.Type, Host: name, Incarnation: b.Incarnation, HostSeq: e.Seq, Body: e.Body}
		if err := readable(entries[i]); err != nil {
			return nil, refusef(ErrInvalid, "event %d: %v", e.Seq, err)
		}
	}
	if last := b.Events[len(b.Events)-1].Seq; b.Head.Seq != last || len(b.Head.Hash) != 32 {
		return nil, refusef(ErrInvalid, "the head is of event %d; the batch ends at %d", b.Head.Seq, last)
	}
	return entries, nil
}

// readable makes sure that the fold will understand an event: what it does not
// must never enter the log.
func readable(e event.Entry) error {
	ev, err := event.Decode(e)
	if err != nil {
		return err
	}
	if s, ok := ev.(event.HostStepped); ok {
		_, err = host.DecodeInput(s.Input, s.Data)
	}
	return err
}

// ingest checks a batch against the host's chain as published and hands what is
// new to the reducer.
func (c *Control) ingest(ctx context.Context, p *Peer, b *wire.EventBatch, v *hosts.View, entries []event.Entry) (wire.EventAck, error) {
	ack := wire.EventAck{Acked: v.Seq}
	refuse := func(format string, a ...any) (wire.EventAck, error) {
		r := refusef(ErrConflict, format, a...).(*Refusal)
		ack.Reason = r.Words
		return ack, r
	}
	first, last := entries[0].HostSeq, b.Head.Seq
	switch {
	case b.Incarnation != v.Incarnation:
		ack.Acked = 0
		return refuse("host %s is in incarnation %d, the batch is of %d", p.Name, v.Incarnation, b.Incarnation)
	case first > v.Seq+1:
		c.noteLag(p.Name, v.Incarnation, first-1)
		return refuse("the batch begins at event %d, the server holds %d", first, v.Seq)
	}
	head := identity.Chain{Seq: last, Hash: [32]byte(b.Head.Hash)}
	if err := identity.VerifyHead(v.EventKey, c.cfg.Fleet, p.Name, v.Incarnation, head, b.Head.Signature); err != nil {
		return ack, refusef(ErrInvalid, "%v", err)
	}
	if first <= v.Seq {
		same, err := c.sameAsStored(ctx, p.Name, v, entries)
		if err != nil {
			return ack, err
		}
		if !same {
			return c.forked(ctx, p, b, ack)
		}
		if last <= v.Seq {
			return ack, nil
		}
		entries = entries[v.Seq-first+1:]
	}
	chain := chainOf(c.cfg.Fleet, p.Name, v)
	for i := range entries {
		chain = chain.Next(entries[i].At, entries[i].Type, entries[i].Body)
	}
	if chain != head {
		// The signature holds, so the host has another history than it told.
		return c.forked(ctx, p, b, ack)
	}
	ev := event.HostHead{Incarnation: v.Incarnation, Seq: head.Seq, Hash: b.Head.Hash, Signature: b.Head.Signature}
	in := &input{weight: len(entries), done: make(chan error, 1)}
	in.apply = func(t *turn) error {
		h := t.s.Hosts[p.Name]
		if h == nil || h.Incarnation != v.Incarnation || h.Seq != v.Seq || !bytes.Equal(h.ChainHash, v.Chain) {
			return errMoved
		}
		c.outranked = c.outranked || declinesTerm(entries)
		return t.add(plan.Ingest(t.s, p.Name, entries, ev, t.now))
	}
	if err := c.wait(ctx, c.normal, in); err != nil {
		return ack, err
	}
	c.metrics.events.Add(float64(len(entries)))
	ack.Acked = head.Seq
	return ack, nil
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

func chainOf(fleetName, name string, v *hosts.View) identity.Chain {
	if v.Seq == 0 {
		return identity.Genesis(fleetName, name, v.Incarnation)
	}
	return identity.Chain{Seq: v.Seq, Hash: [32]byte(v.Chain)}
}

// sameAsStored compares the events that the server holds already with those in
// the log. Ones too old to be among the last that a host reported are believed.
func (c *Control) sameAsStored(ctx context.Context, name string, v *hosts.View, entries []event.Entry) (bool, error) {
	first := entries[0].HostSeq
	overlap := min(v.Seq-first+1, uint64(len(entries)))
	// Between a host's own events stand its heads and what concerns it.
	limit := int(min(store.MaxRead, 4*(v.Seq-first+1)+64))
	for {
		records, err := c.cfg.Store.ReadHost(ctx, name, limit)
		if err != nil {
			return false, errors.Join(ErrUnavailable, err)
		}
		found := uint64(0)
		for i := range records {
			r := &records[i]
			if r.HostSeq == 0 || r.Incarnation != v.Incarnation || r.HostSeq < first || r.HostSeq-first >= uint64(len(entries)) {
				continue
			}
			found++
			if e := &entries[r.HostSeq-first]; e.At != r.At || e.Type != r.Type || !bytes.Equal(e.Body, r.Body) {
				return false, nil
			}
		}
		if found >= overlap || len(records) < limit || limit == store.MaxRead {
			return true, nil
		}
		limit = store.MaxRead
	}
}

// forked records that a host's identity tells two histories.
func (c *Control) forked(ctx context.Context, p *Peer, b *wire.EventBatch, ack wire.EventAck) (wire.EventAck, error) {
	c.cfg.Log.Warn("two histories of one host: its state was copied or set back", "host", p.Name, "seq", b.Head.Seq)
	err := c.submit(ctx, c.normal, func(t *turn) error {
		if h := t.s.Hosts[p.Name]; h == nil || h.Forked {
			return nil
		}
		return t.add(plan.Record(t.s, p.Name, t.now, event.HostForked{Incarnation: b.Incarnation, Seq: b.Head.Seq}))
	})
	if err != nil {
		return ack, err
	}
	r := &Refusal{Kind: ErrConflict, Words: "host " + p.Name + " tells another history than it told before: two agents share its identity, or its state was set back; enrol it again"}
	ack.Reason = r.Words
	return ack, r
}

// Claim commits a host's claim of a grant.
func (c *Control) Claim(ctx context.Context, p *Peer, m wire.Claim) (wire.ClaimAnswer, error) {
	if m.Grant == "" || len(m.Grant) > 64 {
		return wire.ClaimAnswer{}, refusef(ErrInvalid, "a claim names a grant")
	}
	err := c.submit(ctx, c.urgent, func(t *turn) error {
		switch {
		case m.Term > c.head.Term:
			c.outranked = true
			return &plan.ClaimRefusedError{Reason: "the grant is of a newer server than this one"}
		case c.ahead.Owes(t.s.Hosts, t.now):
			return refusef(ErrUnavailable, "the server waits for hosts that know more than its log does")
		case t.s.Hosts[p.Name] != nil && t.s.Hosts[p.Name].Forked:
			return &plan.ClaimRefusedError{Reason: "two agents share the identity of host " + p.Name + "; enrol it again"}
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
	return wire.HeartbeatReply{Interval: c.cfg.Heartbeat, Acked: v.Seq, TimestampVersion: c.public.Load().timestampVersion}
}
