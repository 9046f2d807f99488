package nodesdk

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Driver reads and writes the configuration of one device. Its methods are called one at a
// time, but for those of Watcher and Prober.
type Driver interface {
	// Snapshot reads the whole configuration. An error says that nothing could be read; a
	// State that is not Complete, that a part is missing. It must never return a part as a
	// whole.
	Snapshot(ctx context.Context) (State, error)
	// Apply creates, replaces or deletes one object. It is done when the device would have
	// the change after a restart, if it keeps anything at all. It is idempotent: creating
	// what is there and deleting what is not there succeed. An *InvalidError and ErrConflict
	// say that nothing was changed; after any other error the object is read back.
	Apply(ctx context.Context, op Op) error
	// Normalize returns an object in the device's normal form: without defaults, numbers and
	// addresses in one spelling. It is a pure function, and idempotent.
	Normalize(Item) Item
}

// State is a configuration as a driver reads it.
type State struct {
	Items []Item
	// Revision is the device's own revision of the whole, if it has one.
	Revision string
	Complete bool
	// Instance names the configuration, where the device can tell one that was set up anew.
	Instance string
}

// Item is one object of a device.
type Item struct {
	Kind, ID string
	Config   json.RawMessage // with secrets in clear
	// Revision is the device's own of the object, if it has one.
	Revision string
}

// Op is a change of one object.
type Op struct {
	Number   uint64
	Kind, ID string
	Delete   bool
	Config   json.RawMessage // whole, with secrets in clear
	// Was is the object as it was read just before, nil where there was none. A driver whose
	// device compares revisions sends the one of Was and returns ErrConflict if it moved.
	Was *Item
}

// ErrConflict says that the device's object moved since it was read, and nothing was changed.
var ErrConflict = errors.New("the object changed on the device meanwhile")

// InvalidError says that the device refuses an object as it is; nothing was changed.
type InvalidError struct {
	Code     string // port-in-use, invalid, …
	Problems []Problem
}

// Error lists the problems.
func (e *InvalidError) Error() string {
	out := ""
	for i, p := range e.Problems {
		if i > 0 {
			out += "; "
		}
		if p.Field != "" {
			out += p.Field + ": "
		}
		out += p.Message
	}
	if out == "" {
		return "the device refuses it"
	}
	return out
}

// Reader is a Driver that reads one object cheaper than all.
type Reader interface {
	Read(ctx context.Context, kind, id string) (item Item, there bool, err error)
}

// Validator is a Driver whose device says beforehand whether it would accept an object.
type Validator interface {
	Validate(ctx context.Context, item Item) ([]Problem, error)
}

// Confirmer is a Driver whose device takes a change back by itself unless it is confirmed
// (RFC 6241 section 8.4).
type Confirmer interface {
	// ApplyUnconfirmed is Apply, of which the device takes back what is not confirmed within
	// the time.
	ApplyUnconfirmed(ctx context.Context, op Op, within time.Duration) error
	// Confirm keeps what was applied. It succeeds where nothing is to be confirmed.
	Confirm(ctx context.Context) error
}

// Watcher is a Driver whose device tells of changes. Watch calls changed for each, until ctx
// ends; after an error it is called again. The configuration of other devices is read in
// intervals.
type Watcher interface {
	Watch(ctx context.Context, changed func()) error
}

// Prober is a Driver that can tell whether an object which the device has is in effect: media
// arrive, a port is listened on. Detail is for people.
type Prober interface {
	Probe(ctx context.Context, item Item) (effect, detail string, err error)
}

// Redactor is a Driver that hides more secrets than the fields that its collections name: it
// returns the item with each replaced by digest of it.
type Redactor interface {
	Redact(item Item, digest func(string) string) Item
}
