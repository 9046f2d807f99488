package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// batch is a batch of a host's events of which all is checked that needs no
// state.
type batch struct {
	Host        string
	Incarnation uint64
	Entries     []event.Entry // without gaps, at least one
	Events      []event.Event `json:"-"` // what they decode to
	Head        wire.Head     // of the last entry
}

// readBatch checks all of a batch that needs no state: its bounds, that it has no
// gaps, and that the fold will understand every event: what it does not must never
// enter the log, nor what no machine could report.
func readBatch(host string, b *wire.EventBatch) (*batch, error) {
	if len(b.Events) == 0 || len(b.Events) > wire.MaxEventBatch {
		return nil, fmt.Errorf("a batch has 1 to %d events, not %d", wire.MaxEventBatch, len(b.Events))
	}
	if b.Incarnation == 0 || b.Events[0].Seq == 0 {
		return nil, errors.New("incarnations and events count from 1")
	}
	entries, events := make([]event.Entry, len(b.Events)), make([]event.Event, len(b.Events))
	for i := range b.Events {
		e := &b.Events[i]
		switch {
		case e.Seq != b.Events[0].Seq+uint64(i):
			return nil, fmt.Errorf("event %d of the batch has number %d; a batch has no gaps", i, e.Seq)
		case len(e.Body) == 0 || len(e.Body) > wire.MaxEventSize:
			return nil, fmt.Errorf("event %d has a body of %d bytes; 1 to %d are allowed", e.Seq, len(e.Body), wire.MaxEventSize)
		case !event.FromHost(e.Type):
			return nil, fmt.Errorf("event %d has type %q, which hosts do not report to this version; update the server first", e.Seq, e.Type)
		}
		entries[i] = event.Entry{At: e.At, Type: e.Type, Subject: event.HostSubject(host), Incarnation: b.Incarnation, HostSeq: e.Seq, Body: e.Body}
		var err error
		if events[i], err = event.Decode(entries[i]); err == nil {
			err = plan.Reportable(entries[i], events[i])
		}
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", e.Seq, err)
		}
	}
	if last := b.Events[len(b.Events)-1].Seq; b.Head.Seq != last || len(b.Head.Hash) != 32 {
		return nil, fmt.Errorf("the head is of event %d; the batch ends at %d", b.Head.Seq, last)
	}
	return &batch{Host: host, Incarnation: b.Incarnation, Entries: entries, Events: events, Head: b.Head}, nil
}

// signed makes sure that the host signed the head of the batch.
func (b *batch) signed(fleetName string, v *server.View) error {
	return identity.VerifyHead(v.EventKey, fleetName, b.Host, v.Incarnation, b.head(), b.Head.Signature)
}

func (b *batch) head() identity.Chain {
	return identity.Chain{Seq: b.Head.Seq, Hash: [32]byte(b.Head.Hash)}
}

// after returns the entries that follow the view's end of the host's chain; see
// identity.Report. The batch must be of the view's incarnation and signed.
func (b *batch) after(ctx context.Context, fleetName string, v *server.View, log identity.Histories) (fresh []event.Entry, ok bool, err error) {
	end := identity.Chain{Seq: v.Seq}
	if v.Seq != 0 {
		end.Hash = [32]byte(v.Chain)
	}
	r := identity.Report{Host: b.Host, Incarnation: v.Incarnation, Entries: b.Entries, Head: b.head()}
	return r.After(ctx, fleetName, end, log, store.MaxRead)
}
