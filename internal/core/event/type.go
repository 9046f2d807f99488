package event

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// row is what is known of a type of events. It stands below the type, as one call of
// add: readers of the log, its index, the server's log lines and counters go by it.
type row struct {
	name     string
	body     reflect.Type
	ofHost   bool     // its subject is a host
	reported bool     // by the host itself
	ofNodes  bool     // an OfNodes
	about    []member // what its events are about beside their subject
	decision bool
	notice   *Notice
	mark     int // how much it matters to who looks back
}

var types = map[string]*row{}

// add enters a type of events. The zero options are an event of the server about the
// fleet, which the server's log does not repeat.
func add(e Event, options ...func(*row)) {
	r := &row{name: e.EventType(), body: reflect.TypeOf(e)}
	if types[r.name] != nil {
		panic("event type entered twice: " + r.name)
	}
	_, r.ofNodes = e.(OfNodes)
	for _, o := range options {
		o(r)
	}
	types[r.name] = r
}

// ofHost events happen to a host, which is their subject.
func ofHost(r *row) { r.ofHost = true }

// reported events are those of a host's own chain.
func reported(r *row) { r.ofHost, r.reported = true, true }

// about names the members of the body that say what else an event is about.
func about(members ...member) func(*row) { return func(r *row) { r.about = members } }

// decision events are decided by the planner, counted and logged. Operators decide some
// of them too: those name an actor.
func decision(level int, message, keys string) func(*row) {
	return func(r *row) { r.decision, r.notice = true, &Notice{level, message, keys} }
}

// notice events are logged.
func notice(level int, message, keys string) func(*row) {
	return func(r *row) { r.notice = &Notice{level, message, keys} }
}

// mark events are found again by who looks back at the log; 3 before 2 before 1.
func mark(importance int) func(*row) { return func(r *row) { r.mark = importance } }

// Importance is how much events of a type matter to who looks back at the log: 3 before 2 before
// 1, and 0 not at all.
func Importance(eventType string) int {
	if r := types[eventType]; r != nil {
		return r.mark
	}
	return 0
}

// Notice is how a committed event shows in the server's log.
type Notice struct {
	Level   int // as package log/slog counts
	Message string
	Keys    string // the members of the body that the line shows, separated by spaces
}

const info, warn = 0, 4

// NoticeOf returns how the server logs events of a type; nil is not at all.
func NoticeOf(eventType string) *Notice {
	if r := types[eventType]; r != nil {
		return r.notice
	}
	return nil
}

// Types lists every name in order.
func Types() []string { return slices.Sorted(maps.Keys(types)) }

// FromHost reports whether a type is one that hosts report.
func FromHost(eventType string) bool {
	r := types[eventType]
	return r != nil && r.reported
}

// IsOfNodes reports whether events of a type are OfNodes.
func IsOfNodes(eventType string) bool {
	r := types[eventType]
	return r != nil && r.ofNodes
}

// IsDecision reports whether the planner decides events of a type.
func IsDecision(eventType string) bool {
	r := types[eventType]
	return r != nil && r.decision
}

// accepts refuses a subject that events of the type cannot have; nil is a type that is
// not known, which whoever decodes it refuses.
func (r *row) accepts(s Subject) error {
	if r != nil && r.ofHost && s.Host() == "" {
		return fmt.Errorf("event %s is about a host; its subject %q is not one", r.name, s)
	}
	return nil
}
