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
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	safe "github.com/steadyfleet/steady/internal/core/prose"
)

// Entry is one event on its way into the log.
type Entry struct {
	// At is when it was decided: on the server's clock or, for a host's own
	// event, on the agent's.
	At clock.Instant
	// Type is the registered name of Body's type.
	Type string
	// Subject is what the event happened to.
	Subject Subject
	// Incarnation and HostSeq place a host's own event in the chain of that host,
	// which is the Subject: the three are unique together. A server's event leaves
	// HostSeq zero.
	Incarnation uint64
	HostSeq     uint64
	// Body is the event as JSON, exactly as stored and hashed.
	Body []byte
}

// KindHost is the kind of a subject that is a host of the fleet.
const KindHost = "host"

// Subject names one thing by its kind and its name within the kind. The zero
// Subject is the fleet itself.
type Subject struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// HostSubject returns the subject of a host, and that of the fleet for "".
func HostSubject(name string) Subject {
	if name == "" {
		return Subject{}
	}
	return Subject{Kind: KindHost, Name: name}
}

// String returns KIND/NAME, and nothing for the fleet.
func (s Subject) String() string {
	if s == (Subject{}) {
		return ""
	}
	return s.Kind + "/" + s.Name
}

// ParseSubject reads KIND/NAME of one of Kinds, or of a kind of objects that nodes have.
func ParseSubject(s string) (Subject, error) {
	kind, name, _ := strings.Cut(s, "/")
	switch {
	case len(s) > 300:
		return Subject{}, fmt.Errorf("%d bytes name nothing that events are about: names have at most 255", len(s))
	case !slices.Contains(Kinds(), kind) && nodeconfig.CheckKind(kind) != nil || !isName(name):
		return Subject{}, fmt.Errorf("%q names nothing that events are about: expected KIND/NAME, the kind one of %s or a kind of objects that nodes have", s, strings.Join(Kinds(), ", "))
	}
	return Subject{Kind: kind, Name: name}, nil
}

// Host returns the name of a host, and "" of what is not one.
func (s Subject) Host() string {
	if s.Kind != KindHost {
		return ""
	}
	return s.Name
}

// Host returns the host that is the entry's subject, or "" if that is not a host.
func (e *Entry) Host() string { return e.Subject.Host() }

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

// NewEntry encodes e as an entry decided at the given instant. What happens to a
// host needs a subject that is one.
func NewEntry(at clock.Instant, subject Subject, e Event) (Entry, error) {
	t := types[e.EventType()]
	if err := t.accepts(subject); err != nil {
		return Entry{}, err
	}
	body, err := encode(e)
	if err != nil {
		return Entry{}, fmt.Errorf("encode event %s: %w", e.EventType(), err)
	}
	if t.reported {
		body = safe.JSON(body)
	}
	return Entry{At: at, Type: e.EventType(), Subject: subject, Body: body}, nil
}

// UnknownTypeError reports an event type that this version does not know. A
// process that meets it must stop: it cannot fold what it cannot read.
type UnknownTypeError struct{ Type string }

func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf("the log contains an event of type %q that this version does not know; run the version that wrote it or a newer one", e.Type)
}

// Decode returns the typed event of an entry, or an *UnknownTypeError. It refuses an
// event of hosts whose subject is not a host.
func Decode(en Entry) (Event, error) {
	if err := types[en.Type].accepts(en.Subject); err != nil {
		return nil, err
	}
	return DecodeBody(en.Type, en.Body)
}

// DecodeBody returns the typed event of a body, or an *UnknownTypeError. What a host
// reports is its own text: each string of it is one line that does nothing to a terminal,
// in whatever field, while the entry keeps the bytes that the host signed.
func DecodeBody(eventType string, body []byte) (Event, error) {
	t := types[eventType]
	if t == nil {
		return nil, &UnknownTypeError{Type: eventType}
	}
	v := reflect.New(t.body)
	if t.reported {
		body = safe.JSON(body)
	}
	if err := json.Unmarshal(body, v.Interface()); err != nil {
		return nil, fmt.Errorf("decode event %s: %w", eventType, err)
	}
	if s, ok := v.Interface().(*HostStepped); ok {
		s.in, _ = s.HostInput() // every reader asks for it; one that cannot be read is found by them
	}
	return v.Elem().Interface().(Event), nil
}
