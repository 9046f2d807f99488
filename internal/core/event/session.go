package event

import "encoding/json"

// OnSession names the session of an event.
type OnSession struct {
	Session string `json:"session"`
}

// Subject is that of every entry with the event.
func (s OnSession) Subject() Subject { return Subject{KindSession, s.Session} }

// ResourceRecorded is what one turn changed of the rows of a session, as an engine.Write: they are
// a fold of these events.
type ResourceRecorded struct {
	OnSession
	Write json.RawMessage `json:"write"`
}

// EventType names of sessions.
func (ResourceRecorded) EventType() string { return "resource.recorded" }

func init() {
	add(ResourceRecorded{})
}
