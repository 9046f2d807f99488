// Package journal writes what a host reports: events of its own hash chain, each in
// the transaction of what it tells, so that neither is without the other. They wait
// in the outbox until the server has them; sending and signing is the courier's.
// Nothing that is written here changes what the host does.
package journal

import (
	"context"
	"database/sql"
	"io"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/system"
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
