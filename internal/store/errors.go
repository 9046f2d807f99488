package store

import (
	"errors"
	"fmt"
)

// What a caller can tell apart. Engines wrap these with the cause.
var (
	// ErrInvalid: the call breaks a bound of the contract; do not retry.
	ErrInvalid = errors.New("invalid")
	// ErrFenced: another server leads. Stop deciding; do not retry.
	ErrFenced = errors.New("fenced: a newer term leads")
	// ErrConflict: the head is elsewhere. Fold up to it and decide again.
	ErrConflict = errors.New("the log's head has moved")
	// ErrDuplicate: a host's event is in the log already, or behind its chain.
	ErrDuplicate = errors.New("duplicate host event")
	// ErrFull: no room. Nothing was written; reads go on, retry when there is.
	ErrFull = errors.New("the store is full: free disk space")
	// ErrBusy: another process holds the store's lock. Nothing was written.
	ErrBusy = errors.New("the store is locked by another process")
	// ErrBroken: the disk failed, or the log was damaged. The process must end; see FatalError.
	ErrBroken = errors.New("the store is broken: the process must restart")
	// ErrSetBack: the log lacks what was acknowledged; see SetBack.
	ErrSetBack = errors.New("the log was set back: it lacks what was acknowledged")
	// ErrPruned: the log begins later; see PrunedError.
	ErrPruned = errors.New("pruned")
	// ErrCorrupt: what was read is not what was written.
	ErrCorrupt = errors.New("corrupt")
	// ErrNotFound: there is no such thing.
	ErrNotFound = errors.New("not found")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
)

// FatalError reports a failure after which nobody knows what is on the disk.
// A failed fsync may drop the dirty pages and succeed the next time, so that
// neither retrying nor reading back proves anything: the handle is dead, and
// only a new process that recovers from the disk may go on. It matches
// ErrBroken and whatever it wraps.
type FatalError struct {
	// Op is the call that failed first.
	Op  string
	Err error
}

func (e *FatalError) Error() string {
	if errors.Is(e.Err, ErrCorrupt) { // another start finds the same
		return fmt.Sprintf("%s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("%s: %v: %v", e.Op, ErrBroken, e.Err)
}

// Unwrap returns the cause.
func (e *FatalError) Unwrap() error { return e.Err }

// Is makes every FatalError match ErrBroken.
func (e *FatalError) Is(target error) bool { return target == ErrBroken }

// DuplicateError names the first entry of a batch whose sequence its host's
// chain has already reached, in the log or earlier in the batch. It matches
// ErrDuplicate.
type DuplicateError struct {
	// Index is its place in the batch, from 0.
	Index       int
	Host        string
	Incarnation uint64
	HostSeq     uint64
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("%v: host %s, incarnation %d, sequence %d (entry %d of the batch)",
		ErrDuplicate, e.Host, e.Incarnation, e.HostSeq, e.Index)
}

// Is makes every DuplicateError match ErrDuplicate.
func (e *DuplicateError) Is(target error) bool { return target == ErrDuplicate }

// PrunedError says what the log begins behind where earlier records were asked for. It
// matches ErrPruned.
type PrunedError struct{ Base Head }

func (e *PrunedError) Error() string {
	return fmt.Sprintf("the log begins behind record %d: the earlier ones were %v", e.Base.Seq, ErrPruned)
}

// Is makes every PrunedError match ErrPruned.
func (e *PrunedError) Is(target error) bool { return target == ErrPruned }

// ChainError names the first record that does not continue the chain. It
// matches ErrCorrupt.
type ChainError struct {
	// Seq is the sequence that the record should have had.
	Seq    uint64
	Reason string
}

func (e *ChainError) Error() string {
	return fmt.Sprintf("%v log at sequence %d: %s; restore the store from a backup", ErrCorrupt, e.Seq, e.Reason)
}

// Is makes every ChainError match ErrCorrupt.
func (e *ChainError) Is(target error) bool { return target == ErrCorrupt }
