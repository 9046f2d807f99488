package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/control/hosts"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// Batch is a batch of a host's events of which all is checked that needs no
// state.
type Batch struct {
	Host        string
	Incarnation uint64
	Entries     []event.Entry // without gaps, at least one
	Head        wire.Head     // of the last entry
}

// ReadBatch checks all of a batch that needs no state: its bounds, that it has no
// gaps, and that the fold will understand every event.
func ReadBatch(host string, b *wire.EventBatch) (*Batch, error) {
	if len(b.Events) == 0 || len(b.Events) > wire.MaxEventBatch {
		return nil, fmt.Errorf("a batch has 1 to %d events, not %d", wire.MaxEventBatch, len(b.Events))
	}
	if b.Incarnation == 0 || b.Events[0].Seq == 0 {
		return nil, errors.New("incarnations and events count from 1")
	}
	entries := make([]event.Entry, len(b.Events))
	for i := range b.Events {
		e := &b.Events[i]
		switch {
		case e.Seq != b.Events[0].Seq+uint64(i):
			return nil, fmt.Errorf("event %d of the batch has number %d; a batch has no gaps", i, e.Seq)
		case len(e.Body) == 0 || len(e.Body) > wire.MaxEventSize:
			return nil, fmt.Errorf("event %d has a body of %d bytes; 1 to %d are taken", e.Seq, len(e.Body), wire.MaxEventSize)
		case !event.FromHost(e.Type):
			return nil, fmt.Errorf("event %d has type %q, which hosts do not report to this version; update the server first", e.Seq, e.Type)
		}
		entries[i] = event.Entry{At: e.At, Type: e.Type, Host: host, Incarnation: b.Incarnation, HostSeq: e.Seq, Body: e.Body}
		if err := readable(entries[i]); err != nil {
			return nil, fmt.Errorf("event %d: %w", e.Seq, err)
		}
	}
	if last := b.Events[len(b.Events)-1].Seq; b.Head.Seq != last || len(b.Head.Hash) != 32 {
		return nil, fmt.Errorf("the head is of event %d; the batch ends at %d", b.Head.Seq, last)
	}
	return &Batch{Host: host, Incarnation: b.Incarnation, Entries: entries, Head: b.Head}, nil
}

// readable makes sure that the fold will understand an event: what it does not
// must never enter the log, nor what no machine could report.
func readable(e event.Entry) error {
	ev, err := event.Decode(e)
	if err != nil {
		return err
	}
	return plan.Reportable(e, ev)
}

// Signed makes sure that the host signed the head of the batch.
func (b *Batch) Signed(fleetName string, v *hosts.View) error {
	return identity.VerifyHead(v.EventKey, fleetName, b.Host, v.Incarnation, b.head(), b.Head.Signature)
}

func (b *Batch) head() identity.Chain {
	return identity.Chain{Seq: b.Head.Seq, Hash: [32]byte(b.Head.Hash)}
}

// Histories gives the last records about a host, newest first.
type Histories interface {
	ReadHost(ctx context.Context, host string, limit int) ([]event.Record, error)
}

// After returns the entries that follow the view's end of the host's chain; none
// when the server holds them all. It is not ok when the host tells another
// history than it told before. The batch must be of the view's incarnation, begin
// at its end or before, and be signed. Errors are those of reading the log.
func (b *Batch) After(ctx context.Context, fleetName string, v *hosts.View, log Histories) (fresh []event.Entry, ok bool, err error) {
	fresh = b.Entries
	if first := fresh[0].HostSeq; first <= v.Seq {
		if same, err := b.sameAsStored(ctx, v, log); err != nil || !same {
			return nil, false, err
		}
		if b.Head.Seq <= v.Seq {
			return nil, true, nil
		}
		fresh = fresh[v.Seq-first+1:]
	}
	chain := chainOf(fleetName, b.Host, v)
	for i := range fresh {
		chain = chain.Next(fresh[i].At, fresh[i].Type, fresh[i].Body)
	}
	// The signature holds, so a host whose chain differs has another history than
	// it told.
	return fresh, chain == b.head(), nil
}

func chainOf(fleetName, name string, v *hosts.View) identity.Chain {
	if v.Seq == 0 {
		return identity.Genesis(fleetName, name, v.Incarnation)
	}
	return identity.Chain{Seq: v.Seq, Hash: [32]byte(v.Chain)}
}

// sameAsStored compares the events that the server holds already with those in
// the log. Ones too old to be among the last that a host reported are believed.
func (b *Batch) sameAsStored(ctx context.Context, v *hosts.View, log Histories) (bool, error) {
	entries, first := b.Entries, b.Entries[0].HostSeq
	overlap := min(v.Seq-first+1, uint64(len(entries)))
	// Between a host's own events stand its heads and what concerns it.
	limit := int(min(store.MaxRead, 4*(v.Seq-first+1)+64))
	for {
		records, err := log.ReadHost(ctx, b.Host, limit)
		if err != nil {
			return false, err
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
