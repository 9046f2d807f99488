package event

import "encoding/json"

// OnSession names the session of an event, or the template or the owner of a quota.
type OnSession struct {
	Session  string `json:"session,omitempty"`
	Template string `json:"template,omitempty"`
	Quota    string `json:"quota,omitempty"`
}

// Subject is that of every entry with the event.
func (s OnSession) Subject() Subject {
	switch {
	case s.Template != "":
		return Subject{KindTemplate, s.Template}
	case s.Quota != "":
		return Subject{KindQuota, s.Quota}
	}
	return Subject{KindSession, s.Session}
}

// ResourceRecorded is what one turn changed of the rows of a session, a template or a quota, as an
// engine.Write: they are a fold of these events.
type ResourceRecorded struct {
	OnSession
	Write json.RawMessage `json:"write"`
}

// EventType names of sessions.
func (ResourceRecorded) EventType() string { return "resource.recorded" }

func init() {
	add(ResourceRecorded{})
}
