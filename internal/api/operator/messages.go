// Package operator is the operator API as both ends see it: its routes,
// messages, roles, and a client. It decides nothing.
//
// The API is JSON over HTTPS with a bearer token. Its description in OpenAPI
// 3.1 is served at RouteOpenAPI.
package operator

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/core/warning"
)

// Prefix starts every route of the operator API.
const Prefix = "/v1/operator"

// Routes that stand outside of the described API or stream.
const (
	RouteOpenAPI = Prefix + "/openapi.json"
	RouteStream  = Prefix + "/events/stream"
	RouteHistory = Prefix + "/history"
	RoutePush    = Prefix + "/releases"
	RouteContent = Prefix + "/content" // PUT {digest}?size=N&offset=N: the rest of an archive
	RouteNewest  = Prefix + "/releases/newest"
	RouteMetrics = "/metrics"
	RouteHealth  = "/healthz"
	RouteReady   = "/readyz"
	RouteHook    = "/v1/hooks/release"
	RouteEvents  = "/v1/sessions/{name}/events"
)

// Role is what an operator's token allows. Admin allows everything; operator
// and releaser allow what a viewer may as well.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
	Releaser Role = "releaser"
	Admin    Role = "admin"
)

// Status sums up the fleet.
type Status struct {
	Fleet string `json:"fleet"`
	// Version is that of the server's program.
	Version string `json:"version,omitempty"`
	// Seq and Term are the end of the log.
	Seq  uint64        `json:"seq"`
	Term uint64        `json:"term"`
	Now  clock.Instant `json:"now"`
	// SafeMode says why nothing but ways back is granted, or is empty.
	SafeMode string      `json:"safeMode,omitempty"`
	Release  ReleaseInfo `json:"release"`
	Root     RootInfo    `json:"root"`
	// Inbox is what needs a person: of the items MaxInbox at most, Needed counts them all.
	Inbox Inbox `json:"inbox"`
	// Expiries lists all that ends or fills up, the worst first.
	Expiries []warning.Item `json:"expiries"`
	// Nodes and Sessions are counted by the word of their summary.
	Nodes    map[string]int `json:"nodes"`
	Sessions map[string]int `json:"sessions"`
	Hosts    HostCounts     `json:"hosts"`
	Health   FleetHealth    `json:"health"`
	Channels []ChannelState `json:"channels"`
	// Sources are where releases are kept, besides being pushed.
	Sources []Source `json:"sources,omitempty"`
}

// ReleaseInfo is the newest accepted release; Version is 0 before the first.
type ReleaseInfo struct {
	Version     uint64        `json:"version"`
	Ref         string        `json:"ref"`
	Resolved    digest.Digest `json:"resolved,omitempty"` // of its snapshot
	AcceptedAt  clock.Instant `json:"acceptedAt"`
	TimestampAt clock.Instant `json:"timestampAt"`
	RootVersion uint64        `json:"rootVersion"`
}

// Gives are what the channels of a release that is not pushed yet would give their hosts.
type Gives struct {
	Given []plan.Given `json:"given" maxItems:"100000" doc:"The hosts of each channel that get a bundle"`
}

// Contents names content by digest and size.
type Contents struct {
	Content []ContentRow `json:"content" maxItems:"200000" doc:"The archives of store paths that a release names"`
}

// ContentRow is one of them. Arrived is how much of it the server has, where that is not all.
type ContentRow struct {
	Digest  digest.Digest `json:"digest"`
	Size    int64         `json:"size" minimum:"1"`
	Arrived int64         `json:"arrived,omitempty"`
}

// Health is the answer of the routes of health and readiness: "ok", or what is wrong.
type Health struct {
	Status  string                 `json:"status"`
	Reasons []health.ServerProblem `json:"reasons"`
}

// HostCounts counts hosts.
type HostCounts struct {
	Total    int `json:"total"` // decommissioned ones aside
	Enrolled int `json:"enrolled"`
	Online   int `json:"online"`
	InFlight int `json:"inFlight"`
	Failed   int `json:"failed"`
	// ToEnrol counts the declared hosts that do nothing until they enrol again: they
	// are revoked or parked, or two agents share their identity.
	ToEnrol int `json:"toEnrol"`
	// Behind counts the hosts that are in contact and run another bundle than the newest that
	// their channel gives them, by why.
	Behind map[plan.BehindCode]int `json:"behind"`
	// Presence counts every host by its presence.
	Presence map[gate.HostPresence]int `json:"presence"`
	// Versions counts the hosts that are online by the version of their agents.
	Versions map[string]int `json:"versions,omitempty"`
	// NeverEnrolled names the hosts that are declared and never enrolled, sorted.
	NeverEnrolled []string `json:"neverEnrolled"`
	// Leaving are the hosts that leave the fleet and are not decommissioned, by name.
	Leaving []Removal `json:"leaving,omitempty"`
}

// Queued is the phase and status of a rollout that has not opened.
const Queued = rollout.StatusQueued

// ChannelState is where a channel stands.
type ChannelState struct {
	Name    string `json:"name"`
	Rollout string `json:"rollout,omitempty"`
	Status  string `json:"status,omitempty"`
	// Summary is that of the rollout.
	Summary  status.Summary `json:"summary"`
	Queued   string         `json:"queued,omitempty"`
	Deferral string         `json:"deferral,omitempty"`
	// Health counts the hosts of the newest rollout by how well they are.
	Health     map[health.Status]int `json:"health,omitempty"`
	Quarantine []QuarantineRow       `json:"quarantine,omitempty"`
}

// QuarantineRow is one quarantined bundle.
type QuarantineRow struct {
	Channel string        `json:"channel"`
	Bundle  digest.Digest `json:"bundle"`
	Reason  string        `json:"reason"`
}

// Host is one host in a list.
type Host struct {
	Name    string   `json:"name"`
	Channel string   `json:"channel,omitempty"`
	Tags    []string `json:"tags,omitempty"` // of the newest release
	Online  bool     `json:"online"`
	// Presence says in a word whether the host is there.
	Presence gate.HostPresence `json:"presence"`
	// Summary is how it is; State is its word, see plan.HostStates, and Since is when that began.
	Summary status.Summary `json:"summary"`
	State   plan.HostState `json:"state"`
	Since   clock.Instant  `json:"since,omitempty"`
	// Behind reports that it is behind its channel, and why; nil where it is not.
	Behind      *plan.Behind `json:"behind,omitempty"`
	Incarnation uint64       `json:"incarnation"` // 0: not enrolled
	Phase       string       `json:"phase"`
	Rollout     string       `json:"rollout,omitempty"`
	// Runs is the release that brought the host what it runs, where the log has it.
	Runs    string        `json:"runs,omitempty"`
	Current digest.Digest `json:"current,omitempty"`
	Target  digest.Digest `json:"target,omitempty"`
	Grant   string        `json:"grant,omitempty"`
	// Failed reports why its last activation failed, while that is its state.
	Failed string        `json:"failed,omitempty"`
	Health health.Status `json:"health"`
	// Degraded is what the host is degraded for; nil while it is not.
	Degraded *plan.Degradation `json:"degraded,omitempty"`
	Forked   bool              `json:"forked,omitempty"`
	// IdentityStatus says why its identity counts for nothing: parked, forked, leaving, revoked
	// or decommissioned.
	IdentityStatus string `json:"identityStatus,omitempty"`
	// FrozenUntil is set while an operator keeps the host from grants.
	FrozenUntil clock.Instant `json:"frozenUntil,omitempty"`
	FrozenWhy   string        `json:"frozenWhy,omitempty"`
	// Owed is set of a host that has to send events again, since the log lacks them.
	Owed *server.Owed `json:"owed,omitempty"`
	// Removed is set of a host that leaves the fleet.
	Removed *Removal `json:"removed,omitempty"`
	// RenamedFrom is what the newest release says that the host was called.
	RenamedFrom string `json:"renamedFrom,omitempty"`
	// What the agent said of itself since this server started: its version, the address at
	// which it reaches the server, and the version of the newest release that it accepted.
	AgentVersion string `json:"agentVersion,omitempty"`
	Server       string `json:"server,omitempty"`
	Accepted     uint64 `json:"accepted,omitempty"`
}

// Removal is how a host leaves the fleet. Done says that it reported that its workloads
// are stopped, or wiped.
type Removal struct {
	Host      string          `json:"host"`
	Workloads fleet.Workloads `json:"workloads"`
	Done      bool            `json:"done"`
	// Signed is what the override behind it says, if one is; Detail what keeps it from
	// being done.
	Signed string `json:"signed,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// String is it in a word.
func (r Removal) String() string {
	if r.Done {
		return "removed"
	}
	return "removing"
}

// HostDetail is one host alone.
type HostDetail struct {
	Host
	LastSeen    clock.Instant `json:"lastSeen,omitempty"`
	Seq         uint64        `json:"seq"`
	CertSerial  string        `json:"certSerial,omitempty"`
	CertExpires clock.Instant `json:"certExpires,omitempty"`
	// Facts are what the host is, as it said itself; nil where it did not, as agents before 0.2.0
	// do not.
	Facts *event.HostFacts `json:"facts,omitempty"`
	// Probes are those since the last activation, with those that read evidence of compliance.
	Probes []host.ProbeState `json:"probes,omitempty"`
	Why    plan.Answer       `json:"why"`
}

// Rollout is one rollout in a list.
type Rollout struct {
	Name     string        `json:"name"`
	Channel  string        `json:"channel"`
	Ref      string        `json:"ref"`
	Manifest digest.Digest `json:"manifest"`
	Phase    string        `json:"phase"`
	// Summary is how it is; Status is its word: the phase with what lies over it.
	Summary status.Summary `json:"summary"`
	Status  string         `json:"status"`
	Reason  string         `json:"reason,omitempty"`
	// QueuedAt is when a release listed a rollout that has not opened.
	QueuedAt clock.Instant `json:"queuedAt,omitempty"`
	// Behind is the rollout of its channel that it is queued behind.
	Behind   string        `json:"behind,omitempty"`
	OpenedAt clock.Instant `json:"openedAt"`
	EndedAt  clock.Instant `json:"endedAt,omitempty"`
	// Blocked says what keeps it from going on, right now.
	Blocked string `json:"blocked,omitempty"`
	// Step is what comes next, and when at the soonest, of one that goes forward.
	Step *plan.Step `json:"step,omitempty"`
}

// RolloutDetail is one rollout alone.
type RolloutDetail struct {
	Rollout
	// AsOf is when Waves and Members were so, of a rollout that was followed by another: its end.
	// Without it they are of now, and empty where the log has them no more.
	AsOf *AsOf `json:"asOf,omitempty"`
	// Now is the server's clock.
	Now     clock.Instant `json:"now"`
	Waves   []Wave        `json:"waves"`
	Members []Member      `json:"members"`
	// WaveBlocks is everything that keeps the open wave from being promoted.
	WaveBlocks []*gate.Block `json:"waveBlocks,omitempty"`
	// Gates are all that could keep it, and Next the first hosts in line for a grant.
	Gates []plan.Gate     `json:"gates,omitempty"`
	Next  []plan.Upcoming `json:"next,omitempty"`
	// Verbs list what can be decided about it now, and why the rest cannot.
	Verbs []plan.VerbState `json:"verbs,omitempty"`
	// Budgets are those that bound how many of its hosts change at a time, with the slots that
	// any rollout uses of them.
	Budgets []Budget `json:"budgets,omitempty"`
	// CancelOpens is what a cancel of it would open the way for, now.
	CancelOpens []plan.Opening `json:"cancelOpens,omitempty"`
}

// AsOf is a record of the log, and when it was committed.
type AsOf struct {
	Record uint64        `json:"record"`
	At     clock.Instant `json:"at"`
}

// Budget is a bound on the hosts of a selector that change at a time, and how many do.
type Budget struct {
	Selector string `json:"selector"`
	Max      int    `json:"max"`
	InFlight int    `json:"inFlight"`
}

// Wave is one stage of a rollout. Counts are hosts by their status in the rollout, for programs, and States
// the same hosts by the state that every list of hosts shows.
type Wave struct {
	Name string         `json:"name"`
	Soak clock.Duration `json:"soak"`
	Open bool           `json:"open"`
	// State is closed, open, promoted or forced, or over where the rollout ended while
	// the wave was open.
	State    string         `json:"state"`
	Summary  status.Summary `json:"summary"`
	Hosts    int            `json:"hosts"`
	Counts   map[string]int `json:"counts"`
	States   map[string]int `json:"states"`
	Failures int            `json:"failures"`
	Offline  int            `json:"offline"`
}

// Member is one host of a rollout.
type Member struct {
	Host   string `json:"host"`
	Wave   int    `json:"wave"`
	Status string `json:"status"`
	// State is that of the host, in the words of every list of hosts.
	State  plan.HostState `json:"state"`
	Online bool           `json:"online"`
	// Skipped says that the rollout went on without it, since it was away; it is served
	// when it returns.
	Skipped bool `json:"skipped,omitempty"`
	// Presence and FrozenUntil are those of the host.
	Presence    gate.HostPresence `json:"presence"`
	FrozenUntil clock.Instant     `json:"frozenUntil,omitempty"`
	Health      health.Status     `json:"health"`
	// Progress is set while the host is in flight in the rollout, and so are the
	// resources that do not run yet, at most event.MaxDegraded and how many more.
	Progress    *plan.Progress           `json:"progress,omitempty"`
	Unready     []event.DegradedResource `json:"unready,omitempty"`
	MoreUnready int                      `json:"moreUnready,omitempty"`
}

// Verb is the body of a verb that needs nothing but its reason.
type Verb struct {
	Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the log"`
}

// Event is one record of the log.
type Event struct {
	Seq         uint64          `json:"seq"`
	At          clock.Instant   `json:"at"`                 // on a host's own clock if HostSeq is set
	Received    clock.Instant   `json:"received,omitempty"` // when the server took what a host reported
	Term        uint64          `json:"term"`
	Type        string          `json:"type"`
	Subject     event.Subject   `json:"subject,omitzero"` // what it happened to; none: the fleet
	Incarnation uint64          `json:"incarnation,omitempty"`
	HostSeq     uint64          `json:"hostSeq,omitempty"`
	Body        json.RawMessage `json:"body"`
	// Message says what it means, as steady events does.
	Message string `json:"message,omitempty"`
	// WhatIf has the changes of a rerun that may be of this event.
	WhatIf []string `json:"whatIf,omitempty" enum:"delay,drop"`
	// Hash chains the log: SHA-256, in hex, over the hash of the record before and this one.
	Hash string `json:"hash,omitempty"`
}

// Committed is when the server committed the event, or 0 of a host's own that an older server sent.
func (e *Event) Committed() clock.Instant {
	if e.HostSeq != 0 {
		return e.Received
	}
	return e.At
}

// EventQuery picks events. Events after After, at most Limit (1 to 1000, 100 by
// default), that are about all of About. With Tail, the last Limit events instead. Types are any of
// them, or groups such as rollout.*; From and Until are instants.
type EventQuery struct {
	After       uint64
	Limit       int
	About       []event.Subject
	Types       []string
	Actor       string
	From, Until clock.Instant
	Tail        bool
	At          uint64
}

// AboutHost is About of what concerns a host.
func AboutHost(name string) []event.Subject { return []event.Subject{event.HostSubject(name)} }

// AboutRollout is About of what concerns a rollout.
func AboutRollout(name string) []event.Subject {
	return []event.Subject{{Kind: event.KindRollout, Name: name}}
}

// EventPage is a page of events in order. Next is the After of the next page; Earlier, with Tail,
// the At of the page before it, or 0 where nothing is left to look at.
type EventPage struct {
	Events  []Event `json:"events"`
	Next    uint64  `json:"next"`
	Earlier uint64  `json:"earlier,omitempty"`
}

// Pushed says what came of a release: "accepted", "refreshed" or "unchanged".
type Pushed struct {
	Version uint64 `json:"version"`
	Ref     string `json:"ref"`
	Outcome string `json:"outcome"`
}

// Token is an operator token without its secret.
type Token struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role Role   `json:"role"`
	// CreatedAt is zero for a token from before that was kept, Expires for one
	// without an end. LastUsed is known to the day after the server was restarted.
	CreatedAt clock.Instant `json:"createdAt,omitempty"`
	Expires   clock.Instant `json:"expires,omitempty"`
	LastUsed  clock.Instant `json:"lastUsed,omitempty"`
	// Parent is the id of the token that a login was opened with; a token has none.
	Parent string `json:"parent,omitempty"`
}

// NewToken asks for a token. Life is how long it is good; zero is the default.
type NewToken struct {
	Name string         `json:"name" minLength:"1" maxLength:"63"`
	Role Role           `json:"role" enum:"viewer,operator,releaser,admin"`
	Life clock.Duration `json:"life,omitempty" doc:"How long the token is good, in milliseconds; a year by default"`
}

// TokenRevocation is the body of a token's end.
type TokenRevocation struct {
	Force bool `json:"force,omitempty" doc:"Also the token of the last admin"`
}

// MadeToken is a new token; Secret is shown this once.
type MadeToken struct {
	Token
	Secret string `json:"secret"`
}

// Enrolment is what an enrolment token's text needs besides the signed token.
type Enrolment struct {
	Fleet    string `json:"fleet"`
	Epoch    uint64 `json:"epoch"`
	ServerCA []byte `json:"serverCA"` // PEM
	Root     []byte `json:"root"`     // envelope
	// RootDigest names the root's payload.
	RootDigest digest.Digest `json:"rootDigest"`
	// MinVersions holds, per document type, the newest accepted version.
	MinVersions map[string]uint64 `json:"minVersions"`
}
