package engine

import (
	"slices"
	"strconv"
)

// Trigger is why a turn was asked for.
type Trigger uint8

// The triggers. The zero value is not a trigger.
const (
	TriggerStartup  Trigger = iota + 1 // the controller started and enqueued everything
	TriggerResync                      // the periodic look
	TriggerSchedule                    // a Wait ended
	TriggerRetry                       // a back-off ended
	TriggerChild                       // a child changed
	TriggerParent                      // the parent set or deleted this resource
	TriggerSibling                     // something beside it changed that it waits for; asked for by who sees it, never by a commit
	TriggerExternal                    // an event from outside
	TriggerDeadline                    // an absolute deadline was reached
	TriggerOperator                    // a person or the owner of a root changed or nudged it
	TriggerActed                       // an act ended, and no retry is due: what it did is to be observed
)

var triggerNames = [...]string{"", "startup", "resync", "schedule", "retry", "child", "parent", "sibling", "external", "deadline", "operator", "act"}

// String is the trigger's name as written in history.
func (t Trigger) String() string {
	if int(t) < len(triggerNames) {
		return triggerNames[t]
	}
	return "trigger-" + strconv.Itoa(int(t))
}

// Priority of a turn; a higher one goes first among those that are due, until a lower one
// was passed over too often (MaxPassed).
type Priority uint8

// Priorities, lowest first. Interrupted is startup work that was left in the
// middle of an act. Deadline is that of a deadline which has passed: see Queue.SetDeadline.
const (
	PriorityStartup Priority = iota + 1
	PriorityInterrupted
	PriorityResync
	PriorityRetry
	PriorityEvent
	PriorityOperator
	PriorityDeadline
)

// Priority is the priority that goes with the trigger.
func (t Trigger) Priority() Priority {
	switch t {
	case TriggerOperator, TriggerDeadline:
		return PriorityOperator
	case TriggerChild, TriggerParent, TriggerSibling, TriggerExternal:
		return PriorityEvent
	case TriggerRetry, TriggerSchedule, TriggerActed:
		return PriorityRetry
	case TriggerResync:
		return PriorityResync
	default:
		return PriorityStartup
	}
}

// Cause says what asked for a turn: the trigger and the id of the thing that
// raised it (a request, an event, a transition such as file/a#12). It goes to
// history and to the log, never into a View: reconcilers stay level-triggered.
type Cause struct {
	Trigger Trigger `json:"trigger"`
	ID      string  `json:"id,omitempty"`
}

// String prints trigger or trigger:id.
func (c Cause) String() string {
	if c.ID == "" {
		return c.Trigger.String()
	}
	return c.Trigger.String() + ":" + c.ID
}

// MaxCauses bounds the distinct causes kept for one turn; the count goes on.
const MaxCauses = 8

// Causes is a bounded set of causes. The first is held inline, so that a turn
// with one cause allocates nothing. A copy shares the rest with the original:
// only one of the two may be added to.
type Causes struct {
	first Cause
	more  *[]Cause
	count int32
}

// CausesOf makes a set of the given causes.
func CausesOf(cs ...Cause) Causes {
	var s Causes
	for _, c := range cs {
		s.Add(c)
	}
	return s
}

func (s *Causes) others() []Cause {
	if s.more == nil {
		return nil
	}
	return *s.more
}

// Add puts c into the set. A cause beyond MaxCauses is only counted.
func (s *Causes) Add(c Cause) {
	s.count++
	if s.first.Trigger == 0 {
		s.first = c
		return
	}
	if s.Has(c) || 1+len(s.others()) >= MaxCauses {
		return
	}
	more := append(s.others(), c)
	s.more = &more
}

// Merge adds all of o, with its count.
func (s *Causes) Merge(o Causes) {
	want := s.count + o.count
	for _, c := range o.List() {
		s.Add(c)
	}
	s.count = want
}

// Has reports whether c is kept in the set.
func (s *Causes) Has(c Cause) bool { return s.first == c || slices.Contains(s.others(), c) }

// HasTrigger reports whether any kept cause has trigger t.
func (s *Causes) HasTrigger(t Trigger) bool {
	return s.first.Trigger == t ||
		slices.ContainsFunc(s.others(), func(c Cause) bool { return c.Trigger == t })
}

// List returns the kept causes in order of arrival.
func (s *Causes) List() []Cause {
	if s.first.Trigger == 0 {
		return nil
	}
	return append([]Cause{s.first}, s.others()...)
}

// Count is how many causes were added, kept or not.
func (s *Causes) Count() int { return int(s.count) }
