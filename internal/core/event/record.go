// Package event is the vocabulary of the log: every fact the server knows is
// one of these types, and the server's state is a fold over them. The
// vocabulary is append-only: a type, once released, keeps its name, its fields
// and their meaning for ever, because old logs must stay readable.
package event

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	safe "github.com/steadyfleet/steady/internal/core/text"
)

// Entry is one event on its way into the log.
type Entry struct {
	// At is when it was decided: on the server's clock or, for a host's own
	// event, on the agent's.
	At clock.Instant
	// Type is the registered name of Body's type.
	Type string
	// Host, Incarnation and HostSeq place a host's own event in that host's
	// chain and are unique together. A server's event leaves HostSeq zero; its
	// Host, if set, only says whom it concerns.
	Host        string
	Incarnation uint64
	HostSeq     uint64
	// Body is the event as JSON, exactly as stored and hashed.
	Body []byte
}

// Record is an entry that is durable, at its place in the log.
type Record struct {
	Entry
	// Seq counts from 1 without gaps.
	Seq uint64
	// Term is the term of the server that committed it.
	Term uint64
	// Hash chains the log: it covers the previous record's hash and this entry.
	Hash [32]byte
}

// Event is a fact of the vocabulary. Implementations are plain structs that
// encode to JSON and back unchanged.
type Event interface {
	// EventType returns the registered name.
	EventType() string
}

// NewEntry encodes e as an entry decided at the given instant about host, which
// may be empty.
func NewEntry(at clock.Instant, host string, e Event) (Entry, error) {
	body, err := encode(e)
	if err != nil {
		return Entry{}, fmt.Errorf("encode event %s: %w", e.EventType(), err)
	}
	if FromHost(e.EventType()) {
		body = safe.JSON(body)
	}
	return Entry{At: at, Type: e.EventType(), Host: host, Body: body}, nil
}

// UnknownTypeError reports an event type that this version does not know. A
// process that meets it must stop: it cannot fold what it cannot read.
type UnknownTypeError struct{ Type string }

func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf("the log holds an event of type %q that this version does not know; run the version that wrote it or a newer one", e.Type)
}

// Decode returns the typed event of an entry, or an *UnknownTypeError. What a host
// reports is its own text: each string of it is one line that does nothing to a terminal,
// in whatever field, while the entry keeps the bytes that the host signed.
func Decode(en Entry) (Event, error) {
	t, ok := registry[en.Type]
	if !ok {
		return nil, &UnknownTypeError{Type: en.Type}
	}
	v, body := reflect.New(t), en.Body
	if FromHost(en.Type) {
		body = safe.JSON(body)
	}
	if err := json.Unmarshal(body, v.Interface()); err != nil {
		return nil, fmt.Errorf("decode event %s: %w", en.Type, err)
	}
	if s, ok := v.Interface().(*HostStepped); ok {
		s.in, _ = s.Taken() // every reader asks for it; one that cannot be read is found by them
	}
	return v.Elem().Interface().(Event), nil
}

// Types lists every registered name in order.
func Types() []string {
	names := make([]string, 0, len(registry))
	for name := range registry {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

var registry = map[string]reflect.Type{}

func register(events ...Event) {
	for _, e := range events {
		if _, dup := registry[e.EventType()]; dup {
			panic("event type registered twice: " + e.EventType())
		}
		registry[e.EventType()] = reflect.TypeOf(e)
	}
}
