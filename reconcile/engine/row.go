package engine

import (
	"encoding/json"
	"fmt"
	"time"
)

// Row is one resource as stored: what is desired of it, and what the controller
// recorded. A store reads and writes the exported fields, and keeps with them
// what State returns, unread.
type Row struct {
	Ref        Ref             `json:"ref"`
	Parent     Ref             `json:"parent"`  // zero for a root
	Created    int64           `json:"created"` // order of creation, from 1; 0 until the store has numbered the row
	Order      int             `json:"order"`
	Generation int64           `json:"generation"` // rises with every change of Desired or Delete
	Revision   int64           `json:"revision"`   // rises with every write
	Desired    json.RawMessage `json:"desired,omitempty"`
	Delete     bool            `json:"delete,omitempty"` // absence is desired

	Phase        Phase  `json:"phase"`
	Reason       Reason `json:"reason"`
	Attempts     int    `json:"attempts"`     // acts and observes of this episode that failed or whose outcome is unknown
	ConvergedGen int64  `json:"convergedGen"` // last generation observed converged; 0 if none
	Transitions  int64  `json:"transitions"`  // number of transitions ever; the last one's N

	state state
}

// state is what only the steps of a turn read. An episode is one try to
// converge: it begins with a change, a first repair or a revival.
type state struct {
	SetAt        instant `json:"set,omitempty"` // when this generation began
	ConvergeBy   instant `json:"convergeBy,omitempty"`
	NotAfter     instant `json:"notAfter,omitempty"`
	DeleteBy     instant `json:"deleteBy,omitempty"`  // the earliest of its own and the deleting parent's
	Steps        int     `json:"steps,omitempty"`     // acts of this episode that made progress
	RetryAt      instant `json:"retry,omitempty"`     // no attempt before it; given up: the next life
	Action       string  `json:"action,omitempty"`    // last begun in this episode, name and encoding; given up: the one that no attempt was left for
	ActionOK     bool    `json:"ok,omitempty"`        // it reported success
	DueBy        instant `json:"due,omitempty"`       // while Acting
	EpisodeAt    instant `json:"episode,omitempty"`   // when this episode began
	FailedAt     instant `json:"failed,omitempty"`    // when it was given up
	GivenUp      bool    `json:"givenUp,omitempty"`   // no more acts in this life
	Lives        int     `json:"lives,omitempty"`     // given to this generation since it last converged, beside the first
	Aborted      bool    `json:"aborted,omitempty"`   // failed by a child; its children are deleted
	EscalatedGen int64   `json:"escalated,omitempty"` // last generation whose failure was escalated
	AckedGen     int64   `json:"acked,omitempty"`     // last failed generation that the parent gave its verdict on
	KnownGen     int64   `json:"known,omitempty"`     // last generation whose alert a person acknowledged
	Report       string  `json:"report,omitempty"`    // for the parent, encoded
	Handled      int64   `json:"handled,omitempty"`   // events up to here are not shown again
	Version      int     `json:"version,omitempty"`   // of the form of what is desired, above 1
}

// State is the part of the row that only the framework reads, encoded.
func (r *Row) State() []byte {
	raw, err := json.Marshal(r.state)
	if err != nil {
		panic(err) // numbers, texts and truths encode
	}
	return raw
}

// SetState sets the part of the row that State returned.
func (r *Row) SetState(raw []byte) error {
	var s state
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("decode the state of %s: %w", r.Ref, err)
	}
	r.state = s
	return nil
}

// Report is what the parent has of it, encoded; nil if it has nothing.
func (r *Row) Report() json.RawMessage { return rawReport(r.state.Report) }

// NotAfter is the time that the resource must not outlive; zero: none.
func (r *Row) NotAfter() time.Time { return r.state.NotAfter.time() }

// Handled is the number of the last event that is not shown again.
func (r *Row) Handled() int64 { return r.state.Handled }

// Alerts reports whether the row needs a person: it is orphaned, or a root that failed and has
// not converged since, also while it has another life; and nobody acknowledged it.
func (r *Row) Alerts() bool {
	failed := r.Phase == Failed || r.state.Lives > 0 && !r.Phase.Terminal()
	bad := r.Phase == Orphaned || failed && r.Parent.IsZero() && r.state.EscalatedGen == r.Generation
	return bad && r.state.KnownGen != r.Generation
}

// DesiredVersion is the version of the form of what is desired, 1 where none was given.
func (r *Row) DesiredVersion() int { return max(1, r.state.Version) }

// Lives is how often the attempts of this generation began afresh since it last converged: by
// the policy's Revive, or since something else was to be done.
func (r *Row) Lives() int { return r.state.Lives }

// GivenUp reports whether nothing more is done for this generation by itself
// before NextAttempt.
func (r *Row) GivenUp() bool { return r.state.GivenUp }

// Action is the name and encoding of the action last begun in this episode, with a
// space between; empty if none was.
func (r *Row) Action() string { return r.state.Action }

// NextAttempt is the earliest time of the next attempt; zero if none is scheduled.
func (r *Row) NextAttempt() time.Time { return r.state.RetryAt.time() }

// Since is when the present episode began; for a deleted row, when it was gone.
func (r *Row) Since() time.Time { return r.state.EpisodeAt.time() }

// Transition is one entry of a resource's history. Within one resource N counts
// from 1 and From equals the previous To.
type Transition struct {
	Ref        Ref           `json:"ref"`
	Parent     Ref           `json:"parent"`
	N          int64         `json:"n"`
	Generation int64         `json:"generation"`
	From       Phase         `json:"from"` // empty for a new resource
	To         Phase         `json:"to"`
	Attempt    int           `json:"attempt"`
	Reason     Reason        `json:"reason"`
	Action     string        `json:"action,omitempty"` // name and encoding
	Error      string        `json:"error,omitempty"`
	Causes     []Cause       `json:"causes,omitempty"`     // at most MaxCauses
	CauseCount int           `json:"causeCount,omitempty"` // of all
	At         time.Time     `json:"at"`                   // UTC, whole milliseconds
	Duration   time.Duration `json:"took,omitempty"`       // length of the act, where one ended
	Escalated  bool          `json:"escalated,omitempty"`  // raised to the parent, or to the operator for a root
	Alert      bool          `json:"alert,omitempty"`      // needs a person: orphaned, or a root that failed
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
	Parent   *Row    // nil for a root, or if the parent's row is gone
	Children []Row   // by (Order, Created); orphaned ones too, deleted ones not
	Events   []Event // numbered above Row.Handled, in order
	TriggerN int64   // newest outbox trigger for Row.Ref; it is acknowledged by the turn
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
	DueBy   time.Time
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
	Verdicts    []Verdict // on failed children
	Raises      []Raise
	NoHistory   bool  // the kind keeps no history; transitions are only announced
	AckTrigger  int64 // outbox triggers for Row.Ref up to here are done
	Handled     int64 // the data of events of Row.Ref up to here is dropped; 0: none
	Now         time.Time

	Act      *Act      // begin this act after the commit
	Wake     time.Time // next turn at, even without a trigger; zero: none
	Why      Trigger   // cause of that turn
	Deadline time.Time // and a turn at this instant at the latest: a deadline of the row; zero: none
	// Passed is set where the decision asked for a turn at a time that is not after the turn's own:
	// Wake is then the end of a pause, which doubles while that is so (Input.Passed).
	Passed bool
}

// Change is what applying an intent did.
type Change struct {
	Ref        Ref
	Generation int64
	Changed    bool         // the row was written
	Transition []Transition // none or one
}
