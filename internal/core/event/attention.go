package event

import "github.com/steadyfleet/steady/internal/core/clock"

// OnItem names what needs a person: an object of a kind, an episode of drift, or what ends or fills up.
type OnItem struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Subject is that of every entry with the event. What is no subject of events is named in the body
// alone.
func (o OnItem) Subject() Subject {
	switch o.Kind {
	case "drift", "expiry", "server":
		return Subject{}
	}
	return Subject(o)
}

// OnAttention is an event of the inbox.
type OnAttention interface {
	Event
	Subject() Subject
	onAttention()
}

func (OnItem) onAttention() {}

// AttentionOpened: an item needs a person from now on, or does for another cause than
// before, and is not acknowledged yet.
type AttentionOpened struct {
	OnItem
	Word   string `json:"word"`
	Level  string `json:"level"`
	Cause  string `json:"cause,omitempty"`
	Reason string `json:"reason"`
}

// AttentionClosed reports that it needs a person no more. Since is when it began to.
type AttentionClosed struct {
	OnItem
	Word  string        `json:"word"`
	Since clock.Instant `json:"since"`
}

// AttentionAcknowledged reports that a person knows of it: it is not counted until an instant, or as long
// as the cause stays the same where Until is zero.
type AttentionAcknowledged struct {
	OnItem
	Until clock.Instant `json:"until,omitempty"`
	Note  string        `json:"note"`
	Actor string        `json:"actor"`
}

// EventType names of the inbox.
func (AttentionOpened) EventType() string       { return "attention.opened" }
func (AttentionClosed) EventType() string       { return "attention.closed" }
func (AttentionAcknowledged) EventType() string { return "attention.acknowledged" }

func init() {
	add(AttentionOpened{}, notice(warn, "something needs a person", "kind name word reason"), mark(2))
	add(AttentionClosed{}, notice(info, "something needs a person no more", "kind name word"))
	add(AttentionAcknowledged{})
}
