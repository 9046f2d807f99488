// Package journal writes what a host reports: events of its own hash chain, each in
// the transaction of what it tells, so that neither is without the other. They wait
// in the outbox until the server has them; sending and signing is the courier's.
// Nothing that is written here changes what the host does.
package journal

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Append adds an event to the outbox in somebody's transaction.
func Append(ctx context.Context, tx *sql.Tx, at clock.Instant, e event.Event) error {
	return state.Append(ctx, tx, link, at, e)
}

// link is the host's chain as the outbox keeps it.
func link(l state.Link, at clock.Instant, eventType string, body []byte) state.Link {
	c := identity.Chain{Seq: l.Seq}
	copy(c.Hash[:], l.Hash)
	c = c.Next(at, eventType, body)
	return state.Link{Seq: c.Seq, Hash: c.Hash[:]}
}

// Keeper keeps foreign files and reports each.
type Keeper struct {
	Store *state.Store
	Now   func() clock.Instant
	// Wake is called when there is something to send; it must not block.
	Wake func()
}

var _ system.Keeper = Keeper{}

// Keep implements system.Keeper.
func (k Keeper) Keep(ctx context.Context, path string, d digest.Digest, r io.Reader) error {
	kept, err := k.Store.Keep(d, r)
	if err != nil {
		return err
	}
	name, err := filepath.Rel(k.Store.Dir(), kept)
	if err != nil {
		return err
	}
	record := context.WithoutCancel(ctx)
	err = k.Store.Tx(record, func(tx *sql.Tx) error {
		return Append(record, tx, k.Now(), event.FileKept{Path: path, Digest: d, KeptAs: name})
	})
	k.Wake()
	return err
}

// Transition reports what is notable of a resource, in the transaction that
// records it: drift found and repaired, failures, and what could not be removed.
func Transition(ctx context.Context, tx *sql.Tx, at clock.Instant, rows Rows, t engine.Transition) error {
	ref := t.Ref.String()
	if slices.Contains(container.Kinds, t.Ref.Kind) {
		return ofContainer(ctx, tx, at, rows, t)
	}
	if t.To == engine.Pending || t.To == engine.Retiring {
		_, err := state.Undrifted(ctx, tx, ref) // another generation starts afresh
		return err
	}
	news := t.To == engine.Orphaned || t.To == engine.Failed && t.Ref.Kind != system.KindGeneration
	switch {
	case t.Ref.Kind == system.KindGeneration:
		// Its parts report themselves; the host's steps report the whole.
	case t.From == engine.Converged && t.To != engine.Converged && t.To != engine.Retired:
		found, err := state.Drifted(ctx, tx, ref)
		if err != nil {
			return err
		}
		news = news || found
	case t.To == engine.Converged:
		repaired, err := state.Undrifted(ctx, tx, ref)
		if err != nil {
			return err
		}
		news = news || repaired
	}
	if !news {
		return nil
	}
	detail := t.Reason.Words
	if t.Error != "" {
		detail = fmt.Sprintf("%s (%s)", detail, t.Error)
	}
	return Append(ctx, tx, at, event.ResourceChanged{
		Resource: ref, From: string(t.From), To: string(t.To), Reason: string(t.Reason.Code),
		Detail: system.Scrub(detail, 2048),
	})
}
