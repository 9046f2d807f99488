package engine

import "encoding/json"

// Row is one resource as stored: what is desired, and what the loop recorded.
type Row struct {
	Ref        Ref             `json:"ref"`
	Parent     Ref             `json:"parent"`
	Created    int64           `json:"created"` // creation order; given by the store
	Order      int             `json:"order"`
	Generation int64           `json:"generation"`
	Revision   int64           `json:"revision"`
	Desired    json.RawMessage `json:"desired,omitempty"`
	Retire     bool            `json:"retire,omitempty"`
	SetAt      Instant         `json:"setAt"` // when this generation began
	NotAfter   Instant         `json:"notAfter,omitempty"`
	RetireCap  Instant         `json:"retireCap,omitempty"` // the retiring parent's RetireBy

	Phase        Phase   `json:"phase"`
	Reason       Reason  `json:"reason"`
	Attempts     int     `json:"attempts"`
	Steps        int     `json:"steps"`              // acts of this episode that made progress
	RetryAt      Instant `json:"retryAt,omitempty"`  // no attempt before it; given up: the second life
	Action       string  `json:"action,omitempty"`   // last begun in this episode, name and encoding; given up: the one that no attempt was left for
	ActionOK     bool    `json:"actionOK,omitempty"` // it reported success
	DueBy        Instant `json:"dueBy,omitempty"`    // while Acting
	EpisodeAt    Instant `json:"episodeAt"`          // when this try to converge began: the change, a first repair, a revival
	FailedAt     Instant `json:"failedAt,omitempty"` // when it was given up
	GivenUp      bool    `json:"givenUp,omitempty"`  // no more acts in this life
	Lives        int     `json:"lives,omitempty"`    // that this generation was given since it last converged, beside the first
	Aborted      bool    `json:"aborted,omitempty"`  // failed by a child; children are retired
	ConvergedGen int64   `json:"convergedGen"`       // last generation observed converged
	EscalatedGen int64   `json:"escalatedGen"`       // last generation whose failure was escalated
	AckedGen     int64   `json:"ackedGen"`           // last failed generation the parent ruled on
	Transitions  int64   `json:"transitions"`        // number of transitions ever; the last one's N
}

// Transition is one entry of a resource's history. Within one resource N counts
// from 1 and From equals the previous To.
type Transition struct {
	Ref        Ref      `json:"ref"`
	Parent     Ref      `json:"parent"`
	N          int64    `json:"n"`
	Generation int64    `json:"generation"`
	From       Phase    `json:"from"` // empty for a new resource
	To         Phase    `json:"to"`
	Attempt    int      `json:"attempt"`
	Reason     Reason   `json:"reason"`
	Action     string   `json:"action,omitempty"`
	Error      string   `json:"error,omitempty"`
	Causes     []Cause  `json:"causes,omitempty"`
	CauseCount int      `json:"causeCount,omitempty"`
	At         Instant  `json:"at"`
	Took       Duration `json:"took,omitempty"`      // length of the act, where one ended
	Escalated  bool     `json:"escalated,omitempty"` // raised to the parent, or to the operator for a root
	Alert      bool     `json:"alert,omitempty"`     // needs a person: orphaned, or a root that failed
}

// Fold rebuilds the recorded part of a row's status from its transitions.
func Fold(ts []Transition) Status {
	var s Status
	for _, t := range ts {
		s.Phase, s.Reason, s.Attempts = t.To, t.Reason, t.Attempt
		if t.To == Converged || t.To == Degraded {
			s.ConvergedGeneration = t.Generation
		}
	}
	return s
}

// Snapshot is what one turn loads in one read transaction.
type Snapshot struct {
	Row      Row
	Parent   *Row  // nil for a root, or if the parent's row is gone
	Children []Row // by (Order, Created); terminal ones too
	TriggerN int64 // newest outbox trigger for Row.Ref; it is acknowledged by the turn
}

// Raise is a trigger to be written to the outbox with the record that causes it.
type Raise struct {
	N     int64 // given by the store
	Ref   Ref
	Cause Cause
}

// Act is an action about to begin.
type Act struct {
	Name    string
	JSON    json.RawMessage
	Attempt int
	DueBy   Instant
}

// Record is the outcome of a step of a turn, to be committed in one transaction
// if Write is set: compare-and-swap the row on Expect, append transitions,
// apply intents and verdicts to children, write triggers to the outbox.
type Record struct {
	Write       bool
	Expect      int64 // revision the step was computed from
	Row         Row   // Revision is Expect+1
	Transitions []Transition
	Intents     []Intent  // for children of Row.Ref
	Verdicts    []Verdict // acknowledged failures of children (Continue)
	Raises      []Raise
	NoHistory   bool  // the kind keeps no history; transitions are only announced
	AckTrigger  int64 // outbox triggers for Row.Ref up to here are done
	Now         Instant

	Act  *Act    // begin this act after the commit
	Wake Instant // next turn at, even without a trigger; 0 none
	Why  Trigger // cause of that turn
}

// Change is what applying an intent did.
type Change struct {
	Ref        Ref
	Generation int64
	Changed    bool         // the row was written
	Transition []Transition // none or one
}
