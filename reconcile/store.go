package reconcile

import (
	"context"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Store keeps rows, history, inboxes and the trigger outbox. reconcile/sqlite and
// reconcile/memory are two, and reconcile/storetest holds one to this contract. What it is handed and gives back are
// values of package engine, which has the other half of this contract: [engine.Record]
// says what one commit has to write.
//
// The outbox has the triggers that commits raised and no turn has answered yet: each is
// an [engine.Raise], numbered by the store (N). A verdict is a parent's
// answer to a child that failed ([engine.Verdict]).
type Store interface {
	// Load reads a row with its parent, its children that are not deleted and its newest
	// trigger, in one consistent read. Deleted children, which stay for their retention, must
	// not make it slower. What is desired of the parent may be left out. It returns
	// ErrNotFound if there is no row.
	Load(ctx context.Context, ref engine.Ref) (engine.Snapshot, error)
	// Commit writes a record in one transaction: the row if its revision is
	// still Expect (else ErrConflict), transitions, child intents, verdicts,
	// outbox. It returns what was raised and every transition it wrote.
	Commit(ctx context.Context, rec engine.Record) (Committed, error)
	// Ack removes the triggers of ref up to n from the outbox, for a turn that
	// had nothing to record.
	Ack(ctx context.Context, ref engine.Ref, n int64) error
	// Open lists every row whose [engine.Phase] is not Terminal, so that it may still
	// want a turn, and the outbox.
	Open(ctx context.Context) (Opened, error)
	// Apply sets what is desired of a root, in a transaction of its own.
	Apply(ctx context.Context, in engine.Intent, now time.Time, cause engine.Cause) (engine.Change, error)
	// Deliver puts an event into the inbox of ref, with the trigger that it raises, in one
	// transaction. One that has the source and id of an event that ref received before, in
	// any of its generations, is dropped: there is nothing to raise. [engine.Receive] says
	// which are refused. Events stay until their row is purged, those that were handled
	// without data.
	Deliver(ctx context.Context, ref engine.Ref, e engine.Event, now time.Time) (engine.Raise, error)
	// Get reads one row. It returns ErrNotFound if there is none.
	Get(ctx context.Context, ref engine.Ref) (engine.Row, error)
	// List reads rows, ordered by kind and id.
	List(ctx context.Context, f Filter) ([]engine.Row, error)
	// History reads up to limit transitions of ref with N > after, oldest first; limit 0 is all.
	History(ctx context.Context, ref engine.Ref, after int64, limit int) ([]engine.Transition, error)
	// Trim applies a history policy to one resource.
	Trim(ctx context.Context, ref engine.Ref, h engine.History, now time.Time) error
	// Purge removes deleted rows, with their history, inbox and triggers, that were
	// deleted before the instant and have no row below them. It returns how many.
	Purge(ctx context.Context, kind string, before time.Time) (int, error)
}
