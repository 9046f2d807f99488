package drift

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Input is what the connection of a node reports. Inputs of a session that is over change
// nothing.
type Input interface {
	node() string
	decide(s *State, now clock.Instant) ([]event.OfNodes, error)
}

// Connected is a node whose key was verified. The session that begins is the one of the
// state after it.
type Connected struct {
	Node              string
	Key               []byte // that it proved
	Instance, Machine string
	Driver, Version   string
	Op                uint64 // the newest operation that it applied
	Collections       []event.NodeCollection
}

// Disconnected is the end of a connection.
type Disconnected struct {
	Node    string
	Session uint64
	Reason  string
}

// Snapshot is the configuration of a node at an instant, read after all that was sent to it
// before had been answered.
type Snapshot struct {
	Node       string
	Session    uint64
	Generation uint64
	Op         uint64 // the newest operation that it applied
	Complete   bool
	Error      string // why it is not complete
	Instance   string
	Objects    []Actual
}

// Actual is an object as a node has it.
type Actual struct {
	Kind, ID string
	ETag     string
	Op       uint64 // the newest that was applied to it
	OpETag   string // the ETag right after that
	Config   json.RawMessage
}

// Answer is what came of an operation.
type Answer struct {
	Node    string
	Session uint64
	Op      uint64
	Outcome Outcome
	Code    string
	Error   string
	// Object is what the node has now, nil where there is none.
	Object *Actual
	// Want is what was asked in the node's spelling, where that is another.
	Want   json.RawMessage
	Effect string
}

// Outcome is what came of an operation.
type Outcome string

// The outcomes.
const (
	Applied      Outcome = "applied"
	Already      Outcome = "already"  // it was applied before, or the object was like that
	Conflict     Outcome = "conflict" // the node has something else than it was to replace
	Invalid      Outcome = "invalid"  // the device refused it; nothing was changed
	NotApplied   Outcome = "failed"   // nothing was changed; trying again may help
	MaybeApplied Outcome = "unknown"  // it may have been applied, in part or whole
)

// Effect is a node's report of whether an object is in effect.
type Effect struct {
	Node     string
	Session  uint64
	Kind, ID string
	Effect   string
	Detail   string
}

// Limited is a configuration that was not taken in, since its node has used its share of the log.
type Limited struct {
	Node    string
	Session uint64
	Detail  string
}

// NextKey is the key that a node announces.
type NextKey struct {
	Node    string
	Session uint64
	Key     []byte
}

// Registered is a node that presented a genuine token for the first time.
type Registered struct {
	Node  string
	Event event.NodeRegistered
	// Issued is when the token was signed.
	Issued clock.Instant
}

// Refused is a connection in the name of a node that was refused.
type Refused struct {
	Node, Code, Detail string
}

// Work is what a node is to be asked next.
type Work struct {
	Session uint64 // that it is for; zero is no session
	// Snapshot says that the configuration is to be read, not before At.
	Snapshot bool
	At       clock.Instant
	// Push is the operation to send, or nil. It goes before a snapshot.
	Push *Push
}

// Push is an operation on a node.
type Push struct {
	Op      uint64
	Kind    string
	ID      string
	Delete  bool
	Config  json.RawMessage
	IfMatch string
}
