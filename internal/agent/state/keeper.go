package state

import (
	"context"
	"database/sql"
	"io"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/system"
)

// FileKeeper keeps foreign files and reports each.
type FileKeeper struct {
	Store *Store
	Now   func() clock.Instant
	// Wake is called when there is something to send; it must not block.
	Wake func()
}

var _ system.Keeper = FileKeeper{}

// Keep implements system.Keeper.
func (k FileKeeper) Keep(ctx context.Context, path string, d digest.Digest, r io.Reader) error {
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
