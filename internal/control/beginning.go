package control

import (
	"context"
	"slices"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/store"
)

// Beginning is what the log came to at a record, with what who plays on from there has to read.
type Beginning struct {
	Through store.Head
	At      clock.Instant // of the record
	State   []byte
	// Manifests are those that the state reads, which Library has. Roster is that of the
	// newest release, if there is one.
	Manifests []digest.Digest
	Library   *documents.Library
	Roster    []byte
}

// Beginning is that of a record. Folding up to it takes a share of a processor, and its turn.
func (c *Control) Beginning(ctx context.Context, seq uint64) (*Beginning, error) {
	b := &Beginning{Library: c.past.library}
	var roster digest.Digest
	err := c.pastAt(ctx, seq, func(f *folded) (err error) {
		b.Through, b.At, roster = f.head, f.at, f.state.Plan.Release.Roster
		live, _ := f.state.Plan.Live()
		places := b.Library.Places()
		b.Manifests = slices.DeleteFunc(live, func(d digest.Digest) bool { _, known := places[d]; return !known })
		b.State, err = f.state.Snapshot()
		return err
	})
	if err == nil && roster != "" {
		b.Roster, err = c.Blob(ctx, roster)
	}
	return b, err
}
