package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Event is something that happened outside and was received for one resource. Its fields are
// those of CloudEvents 1.0.
type Event struct {
	N      int64           `json:"n"` // given by the store: rises with each event that it keeps
	Source string          `json:"source"`
	ID     string          `json:"id"` // with Source, the same for each delivery of one event
	Type   string          `json:"type"`
	At     time.Time       `json:"at"`             // when it was received; UTC, whole milliseconds
	Data   json.RawMessage `json:"data,omitempty"` // its bytes are kept as encoding/json writes them
}

// Bounds of a resource's inbox.
const (
	MaxEventData = 64 << 10 // bytes
	MaxEventName = 256      // bytes of Source, ID and Type each
	MaxUnhandled = 256      // events that no decision has named as handled
)

// Why an event is not kept.
var (
	ErrEventTooLarge = fmt.Errorf("an event has at most %d bytes of data, and %d in each of source, id and type", MaxEventData, MaxEventName)
	ErrEventUnnamed  = errors.New("an event needs source, id and type, in UTF-8")
	ErrEventData     = errors.New("the data of an event is not JSON")
	ErrInboxFull     = fmt.Errorf("%d events wait to be handled", MaxUnhandled)
)

// Cause is the cause of the turn that an event asks for.
func (e *Event) Cause() Cause {
	return Cause{Trigger: TriggerExternal, ID: e.Source + " " + e.ID}
}

// Receive judges an event for the row cur (nil if there is none), of which unhandled events
// wait, and returns it as it is kept: with its data in the one form that survives another
// encoding. Stores call it, so that all of them agree; known events never come here.
func Receive(cur *Row, ref Ref, e Event, unhandled int, now time.Time) (Event, error) {
	for _, name := range []string{e.Source, e.ID, e.Type} {
		switch {
		case name == "" || !utf8.ValidString(name):
			return e, ErrEventUnnamed
		case len(name) > MaxEventName:
			return e, ErrEventTooLarge
		}
	}
	switch {
	case len(e.Data) > MaxEventData:
		return e, ErrEventTooLarge
	case cur == nil || cur.Phase.Terminal():
		return e, fmt.Errorf("%s: %w", ref, ErrNotFound)
	case unhandled >= MaxUnhandled:
		return e, fmt.Errorf("%s: %w", ref, ErrInboxFull)
	}
	e.At = now.UTC().Truncate(time.Millisecond)
	if len(e.Data) == 0 {
		return e, nil
	}
	raw, err := json.Marshal(e.Data)
	if err != nil {
		return e, ErrEventData
	}
	e.Data = raw
	return e, nil
}
