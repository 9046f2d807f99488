// Package status is the one form in which every surface tells how an object is: a word, how bad
// that is, why, since when, who can act, and the next step as data. Each kind of object has one
// pure function that makes a Summary, beside the state of that kind; lists, pages, -o json,
// metrics, the inbox and exit codes read nothing else.
package status

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Level is how bad a status is.
type Level string

// The levels. From Warning on a person is needed.
const (
	OK       Level = "ok"       // as it should be
	Waiting  Level = "waiting"  // nothing is wrong, and nothing moves
	Busy     Level = "busy"     // on its way
	Away     Level = "away"     // no contact: nothing new is known
	Warning  Level = "warning"  // it works, and needs a decision or a repair
	Critical Level = "critical" // it does not do what it should
)

// Levels lists them from good to bad.
var Levels = []Level{OK, Waiting, Busy, Away, Warning, Critical}

// Worse reports whether l is worse than m.
func (l Level) Worse(m Level) bool { return slices.Index(Levels, l) > slices.Index(Levels, m) }

// NeedsPerson reports whether the level is one that a person has to act on.
func (l Level) NeedsPerson() bool { return l == Warning || l == Critical }

// Summary is how an object is.
type Summary struct {
	// Word is the state in one word of the kind's vocabulary.
	Word  string `json:"word"`
	Level Level  `json:"level"`
	// Reason reports why, in a sentence without a full stop; empty where the word is enough.
	Reason string `json:"reason,omitempty"`
	// Since is when the state began; zero where that is not known.
	Since clock.Instant `json:"since,omitempty"`
	// Who can act; empty where nothing has to be done.
	Who Actor `json:"who,omitempty"`
	// Next are the steps that help, the best first.
	Next []Remedy `json:"next,omitempty"`
}

// Worst is the worst of the parts of an object: the first of those with the worst level. Without
// parts it is the zero Summary at level OK.
func Worst(parts ...Summary) Summary {
	worst := Summary{Level: OK}
	for i := range parts {
		if i == 0 || parts[i].Level.Worse(worst.Level) {
			worst = parts[i]
		}
	}
	return worst
}

// Item is one thing that needs a person.
type Item struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Cause tells one cause of a word from another, for machines: who acknowledged an item knew this
	// one.
	Cause string `json:"cause,omitempty"`
	Summary
	// From is when the item begins to need a person; zero is at once.
	From clock.Instant `json:"-"`
}

// Key names what the item is about, KIND/NAME: it has no second item.
func (i *Item) Key() string { return i.Kind + "/" + i.Name }

// Due reports whether the item needs a person already.
func (i *Item) Due(now clock.Instant) bool { return i.From == 0 || i.From.Reached(now) }

// Actor is who can act on an object.
type Actor string

// The actors.
const (
	Operator    Actor = "operator"     // of the fleet, by CLI, API or page
	Releaser    Actor = "releaser"     // who builds and signs releases
	KeyHolder   Actor = "key holder"   // of the override key
	HostOwner   Actor = "host owner"   // who has hands on the host
	DeviceOwner Actor = "device owner" // who runs the node's device
	ServerOwner Actor = "server owner" // who runs the server
)

// Remedy is one step that a person can take: a verb of the product and what it is applied to.
// How the verb is spelled on a command line or a button is the edge's.
type Remedy struct {
	Verb Verb     `json:"verb"`
	Args []string `json:"args,omitempty"`
}

// Do is the remedy of a verb and its arguments.
func Do(v Verb, args ...string) Remedy { return Remedy{Verb: v, Args: args} }

// Verb names what a person can do, KIND-VERB.
type Verb string

// The verbs, each with the arguments that it takes.
const (
	HostWhy           Verb = "host-why"           // host
	HostResources     Verb = "host-resources"     // host
	HostRetry         Verb = "host-retry"         // host
	HostEnrol         Verb = "host-enrol"         // host: a token for it
	HostUnfreeze      Verb = "host-unfreeze"      // host
	HostDecommission  Verb = "host-decommission"  // host
	HostStart         Verb = "host-start"         // host: start its agent, check its log and network
	QuarantineClear   Verb = "quarantine-clear"   // channel, bundle
	RolloutShow       Verb = "rollout-show"       // rollout
	RolloutPromote    Verb = "rollout-promote"    // rollout
	RolloutResume     Verb = "rollout-resume"     // rollout
	RolloutCancel     Verb = "rollout-cancel"     // rollout
	RolloutRetry      Verb = "rollout-retry"      // rollout
	RolloutRetrySign  Verb = "rollout-retry-sign" // rollout
	ReleasePublish    Verb = "release-publish"    // nothing
	ReleaseRefresh    Verb = "release-refresh"    // nothing
	SourceShow        Verb = "source-show"        // nothing
	NodeShow          Verb = "node-show"          // node
	NodeResume        Verb = "node-resume"        // node
	NodeAdopt         Verb = "node-adopt"         // node
	NodeToken         Verb = "node-token"         // node
	NodeStart         Verb = "node-start"         // node: check the device and its driver
	ObjectShow        Verb = "object-show"        // command of the kind, name
	ObjectEdit        Verb = "object-edit"        // command of the kind, name
	ObjectPush        Verb = "object-push"        // command of the kind, name
	DriftShow         Verb = "drift-show"         // episode
	DriftResolve      Verb = "drift-resolve"      // episode
	SessionShow       Verb = "session-show"       // session
	SessionReconcile  Verb = "session-reconcile"  // session
	SessionRetryPhase Verb = "session-retry"      // session, part/phase
	SafeModeShow      Verb = "safe-mode-show"     // nothing
	Doctor            Verb = "doctor"             // nothing: on the server's machine
	Expiries          Verb = "expiries"           // nothing
)
