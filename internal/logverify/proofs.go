package logverify

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Blobs gives bytes by digest.
type Blobs interface {
	Blob(ctx context.Context, d digest.Digest) ([]byte, error)
}

// of returns the signed documents that a record is the first to name. What hosts run is
// not among them.
func (p *proofs) of(r *event.Record) ([][]byte, error) {
	p.out = nil
	if err := p.record(r); err != nil {
		return nil, fmt.Errorf("documents of record %d: %w", r.Seq, err)
	}
	return p.out, nil
}

type proofs struct {
	ctx  context.Context
	from Blobs
	sent map[digest.Digest]bool
	out  [][]byte
}

func (p *proofs) record(r *event.Record) error {
	switch r.Type {
	case event.RootTrusted{}.EventType(), event.TimestampAccepted{}.EventType(), event.HostEnrolled{}.EventType(), event.NodeRegistered{}.EventType(),
		event.OverrideAccepted{}.EventType(), event.ReleaseAccepted{}.EventType():
	default:
		return nil
	}
	ev, err := event.Decode(r.Entry)
	if err != nil {
		return err
	}
	switch ev := ev.(type) {
	case event.RootTrusted:
		_, err = p.send(ev.Root)
	case event.TimestampAccepted:
		_, err = p.send(ev.Envelope)
	case event.HostEnrolled:
		_, err = p.send(ev.TokenDoc)
	case event.NodeRegistered:
		_, err = p.send(ev.TokenDoc)
	case event.OverrideAccepted:
		_, err = p.send(ev.Envelope)
	case event.ReleaseAccepted:
		err = p.release(ev)
	}
	return err
}

// release sends a release's envelopes and lists, and the members of its budgets.
func (p *proofs) release(ev event.ReleaseAccepted) error {
	for _, file := range slices.Sorted(maps.Keys(ev.Envelopes)) {
		raw, err := p.send(ev.Envelopes[file])
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if raw == nil || !documents.IsManifest(file) {
			continue
		}
		members, err := documents.BudgetsOf(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, d := range members {
			if _, err := p.send(d); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}

// send returns what it sends, or nil for what was sent before.
func (p *proofs) send(d digest.Digest) ([]byte, error) {
	if p.sent[d] || d == "" {
		return nil, nil
	}
	b, err := p.from.Blob(p.ctx, d)
	if err != nil {
		return nil, err
	}
	p.sent[d] = true
	p.out = append(p.out, b)
	return b, nil
}
