// Package store is where the server keeps what must survive it: the event log
// with its head, the lease that says who may append, snapshots of the folded
// state, and content-addressed blobs. It holds the contract and the hash chain;
// engines live below it and must pass TestContract.
//
// An engine is single-writer by term: Acquire raises the term in the head, and
// an Append of any older term is refused with ErrFenced, in whichever process
// it is made (S31). A second process that opens the same store is therefore not
// refused: it fences the first as soon as it acquires. What Append acknowledged
// is durable (S33).
package store

import (
	"context"
	"io"
	"iter"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Bounds that every engine enforces with ErrInvalid.
const (
	// MaxBody is the most bytes of one entry's body.
	MaxBody = 1 << 20
	// MaxBatch is the most entries of one Append.
	MaxBatch = 10_000
	// MaxRead is the most records one Read, ReadAbout or LastAbout returns.
	MaxRead = 10_000
	// MaxName is the most bytes of an entry's type, or of its subject's kind or name.
	MaxName = 255
)

// ReadBudget is the total of body bytes after which a read stops, so that a page of
// large bodies stays small. At least one record is returned.
const ReadBudget = 8 << 20

// Head is the end of the log. The zero Head is that of an empty log that nobody
// has led.
type Head struct {
	// Seq is the sequence of the last record, 0 when there is none.
	Seq uint64
	// Term is the term of the newest lease, 0 when there was none.
	Term uint64
	// Hash is the last record's, or zero.
	Hash [32]byte
}

// Log is the append-only event log. All methods are safe for concurrent use.
type Log interface {
	// Head returns the end of the log as committed.
	Head(ctx context.Context) (Head, error)

	// Append commits entries at expect+1, expect+2, ... under term, all or
	// none, and returns the new head once it is durable. Without entries it
	// only checks expect and term. Errors, in order of precedence: ErrInvalid;
	// ErrSetBack; ErrFenced if term is not the head's; ErrConflict if the head is not at
	// expect; ErrDuplicate (a *DuplicateError) if the HostSeq > 0 of an entry is
	// not greater than all before it, in the log and in the batch, of the same
	// host and incarnation: a host's chain grows in order; ErrFull if there is no room: the
	// log is unchanged and stays usable; ErrBroken (a *FatalError): the outcome
	// is unknown, the handle refuses every later call and the process must end.
	// Once begun, an append is not interrupted by ctx.
	Append(ctx context.Context, expect, term uint64, entries []event.Entry) (Head, error)

	// SetBack says what was found as the store was opened, or is nil. While it stands
	// Append is refused with ErrSetBack.
	SetBack() *SetBack

	// EndSetBack is Append to a log that was set back, and takes its end for what is
	// acknowledged from then on.
	EndSetBack(ctx context.Context, expect, term uint64, entries []event.Entry) (Head, error)

	// Read returns records with Seq > after, in order, at most limit (1 to
	// MaxRead) and about ReadBudget bytes. Only an empty result means the end.
	// Reads check that none is missing and that each follows from the one before
	// it: else ErrCorrupt (a *ChainError), and ErrBroken from then on. Of records that were
	// pruned it is ErrPruned (a *PrunedError).
	Read(ctx context.Context, after uint64, limit int) ([]event.Record, error)

	// ReadAbout returns records with Seq > after that are about a subject, as
	// event.About says, in order, at most limit (1 to MaxRead) and about
	// ReadBudget bytes. Only an empty result means the end. What was pruned is not among
	// them, nor among those of LastAbout.
	ReadAbout(ctx context.Context, subject event.Subject, after uint64, limit int) ([]event.Record, error)

	// LastAbout returns the last records that are about a subject, newest first, at
	// most limit (1 to MaxRead) and about ReadBudget bytes.
	LastAbout(ctx context.Context, subject event.Subject, limit int) ([]event.Record, error)

	// Prune removes the records up to one of the log that is not its end, oldest first and
	// some at a time: appends go on meanwhile. What ends early, at a crash as well, leaves a
	// log that begins in between. The chains of hosts go on where they were. Errors:
	// ErrSetBack, ErrFenced, ErrInvalid if there is no such record, and those of writing.
	Prune(ctx context.Context, term uint64, through Head) error

	// Base is what the log begins behind: the last record that was pruned, or the zero Head.
	Base(ctx context.Context) (Head, error)

	// Wait returns the head as soon as its Seq or its Term is greater than
	// that of known. Appends by other processes are noticed within a second.
	Wait(ctx context.Context, known Head) (Head, error)
}

// Lease says who may append.
type Lease interface {
	// Acquire raises the term, above every one that is known to have been acknowledged, and returns the head with it, durable: from then
	// on every older term is fenced. The holder (1 to MaxName bytes) and the
	// instant are kept for people.
	Acquire(ctx context.Context, holder string, at clock.Instant) (Head, error)

	// Holder returns the newest lease, or ErrNotFound.
	Holder(ctx context.Context) (Holder, error)
}

// Holder is who took a lease, and when.
type Holder struct {
	Term uint64
	Name string
	At   clock.Instant
}

// Snapshot is the state folded up to and including At.Seq.
type Snapshot struct {
	// At is the end of what is folded. Its Hash is checked against the log.
	// Its Term is that of the last folded record.
	At Head
	// Format names the encoding of Body; a reader that does not know it folds
	// from the start. 1 to MaxName bytes.
	Format string
	Body   []byte
	// Skipped lists the sequences of newer snapshots that LatestSnapshot
	// passed over because their body is damaged. SaveSnapshot ignores it.
	Skipped []uint64
}

// Snapshots keeps the last two snapshots.
type Snapshots interface {
	// SaveSnapshot makes s durable and drops all but the last two. It refuses
	// with ErrInvalid a snapshot whose At is not a record of the log.
	SaveSnapshot(ctx context.Context, s Snapshot) error

	// LatestSnapshot returns the newest intact snapshot. Without any it is
	// ErrNotFound; if there are some but all are damaged, ErrCorrupt.
	LatestSnapshot(ctx context.Context) (Snapshot, error)
}

// Blobs keeps bytes by their digest.
type Blobs interface {
	// PutBlob makes b durable and returns its digest. Storing it again is
	// cheap, repairs a damaged copy, and makes it as young as a new one.
	PutBlob(ctx context.Context, b []byte) (digest.Digest, error)

	// Blob returns the bytes, checked against d: ErrNotFound, ErrCorrupt.
	Blob(ctx context.Context, d digest.Digest) ([]byte, error)

	// HasBlob says whether d is there; it does not check the bytes.
	HasBlob(ctx context.Context, d digest.Digest) (bool, error)

	// OpenBlob opens d, to be read as it comes, and returns how many bytes it has. They are
	// not checked: whoever takes them compares the digest. ErrNotFound.
	OpenBlob(ctx context.Context, d digest.Digest) (io.ReadSeekCloser, int64, error)

	// TouchBlob makes d as young as a new one and returns its size; not ok when it is not
	// there.
	TouchBlob(ctx context.Context, d digest.Digest) (size int64, ok bool, err error)

	// ReceiveBlob stores d, of size bytes, as it comes and never whole in memory. It goes on
	// at an offset, which is how much Arrived says of it. What arrived stays when reading
	// fails, and goes when all of it is not d: ErrInvalid. One call for a blob at a time.
	ReceiveBlob(ctx context.Context, d digest.Digest, size, offset int64, from io.Reader) error

	// Arrived returns how much of d was received, which is not whole yet.
	Arrived(ctx context.Context, d digest.Digest) (int64, error)

	// DropArrived removes the beginnings of blobs to which nothing came since an instant of
	// the machine's clock.
	DropArrived(ctx context.Context, before clock.Instant) error

	// RemoveBlob removes d if it was put before an instant of the machine's clock, and
	// returns how many bytes it had; not ok when it stays or is not there.
	RemoveBlob(ctx context.Context, d digest.Digest, before clock.Instant) (size int64, ok bool, err error)

	// Blobs yields every digest, in order. It stops after the first error.
	Blobs(ctx context.Context) iter.Seq2[digest.Digest, error]
}

// SetBack says that the log lacks records that were acknowledged, or may lack them: its
// newest part was lost, or another log was put in its place.
type SetBack struct {
	// Log is where the log ends, Acknowledged the newest end that is known to have been
	// acknowledged; its Seq is not above Log's when it cannot be said what is missing.
	Log, Acknowledged Head
	// Reason says what was found.
	Reason string
}

// Size is in bytes; a Limit of 0 is none.
type Size struct{ Log, Limit int64 }

// Store is all of it on one engine.
type Store interface {
	Log
	Lease
	Snapshots
	Blobs
	// Size is how large the log is and may become.
	Size(ctx context.Context) (Size, error)
	// Writable says why nothing can be written now: ErrFull, or that the store is
	// broken. It writes and removes a file, and is not for every request.
	Writable(ctx context.Context) error
	// Broken is closed when the store broke, whichever call saw it and whatever
	// it was about: log, blobs or snapshots. The process must end then.
	Broken() <-chan struct{}
	// Err is the *FatalError of a broken store, or nil.
	Err() error
	// Close releases the store. Calls under way end first; later ones fail
	// with ErrClosed.
	Close() error
}
