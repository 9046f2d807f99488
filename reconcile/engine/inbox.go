package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Event is something that happened outside and was received for one resource. Its fields are
// those of CloudEvents 1.0.
type Event struct {
	N      int64           `json:"n"` // given by the store: rises with each event that it keeps
	Source string          `json:"source"`
	ID     string          `json:"id"` // with Source, the same for each delivery of one event
	Type   string          `json:"type"`
	At     time.Time       `json:"at"` // when it was received; UTC, whole milliseconds
	Data   json.RawMessage `json:"data,omitempty"`
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
	ErrEventUnnamed  = errors.New("an event needs source, id and type")
	ErrInboxFull     = fmt.Errorf("%d events wait to be handled", MaxUnhandled)
)

// Cause is the cause of the turn that an event asks for.
func (e *Event) Cause() Cause {
	return Cause{Trigger: TriggerExternal, ID: e.Source + " " + e.ID}
}

// Receive judges an event for the row cur (nil if there is none), of which unhandled events
// wait. Stores call it, so that all of them agree; known events never come here.
func Receive(cur *Row, ref Ref, e Event, unhandled int) error {
	switch {
	case e.Source == "" || e.ID == "" || e.Type == "":
		return ErrEventUnnamed
	case len(e.Data) > MaxEventData, len(e.Source) > MaxEventName, len(e.ID) > MaxEventName, len(e.Type) > MaxEventName:
		return ErrEventTooLarge
	case cur == nil || cur.Phase.Terminal():
		return fmt.Errorf("%s: %w", ref, ErrNotFound)
	case unhandled >= MaxUnhandled:
		return fmt.Errorf("%s: %w", ref, ErrInboxFull)
	}
	return nil
}
