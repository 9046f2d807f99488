package event

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Events of nodes, and of the configuration that the server keeps for them. No rollout and
// no host depends on them.

// OfNodes is an event about a node or about an object that nodes have.
type OfNodes interface {
	Event
	// On is the subject of every entry with the event.
	On() Subject
}

// OnNode names the node of an event.
type OnNode struct {
	Node string `json:"node_id"`
}

// On implements OfNodes.
func (n OnNode) On() Subject { return Subject{KindNode, n.Node} }

// NodeRegistered says that a node presented a signed token and proved that it has a key,
// which is its identity from then on. A node that was registered before has a new one.
type NodeRegistered struct {
	OnNode
	Key      []byte        `json:"key"` // Ed25519
	Token    string        `json:"token"`
	TokenDoc digest.Digest `json:"tokenDoc"`
}

// NodeKeyOffered says that a node announced its next key. Either is accepted until the node
// has used the next one.
type NodeKeyOffered struct {
	OnNode
	Key []byte `json:"key"`
}

// NodeKeyChanged says that a node used its next key, which ends the one before.
type NodeKeyChanged struct{ OnNode }

// NodeConnected begins a session of a node; it ends an earlier one.
type NodeConnected struct {
	OnNode
	Session  uint64 `json:"session"`
	Instance string `json:"instance"`          // of the device's configuration; a rebuilt device has a new one
	Machine  string `json:"machine,omitempty"` // whose ports the device shares with other nodes
	Driver   string `json:"driver"`
	Version  string `json:"version"` // of the node's program
	// Op is the number of the newest operation that the node applied.
	Op uint64 `json:"op"`
	// Collections are left out while they are those of the session before.
	Collections []NodeCollection `json:"collections,omitempty"`
}

// NodeCollection is a kind of objects that a device has, and what is no difference there.
type NodeCollection struct {
	Kind string `json:"kind"`
	nodeconfig.Rules
}

// NodeDisconnected ends a session.
type NodeDisconnected struct {
	OnNode
	Session uint64 `json:"session"`
	Reason  string `json:"reason"`
}

// NodePaused says that nothing is pushed to a node, and nothing it lacks is missing, until an
// operator decides: it applied operations that the log lacks (ahead), it is another instance
// than before (rebuilt), or it reports none of the objects that it had (emptied).
type NodePaused struct {
	OnNode
	Code   string `json:"code"`
	Detail string `json:"detail"`
	// Instance is that of the node since.
	Instance string `json:"instance,omitempty"`
}

// NodeResumed says how an operator had a paused node go on: Push pushes again what the node
// lost, else what differs is reported as drift.
type NodeResumed struct {
	OnNode
	Push   bool   `json:"push,omitempty"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

// NodeRetired says that a node is gone for good: its key and tokens issued before NotBefore
// are refused, and what it has counts no more.
type NodeRetired struct {
	OnNode
	NotBefore clock.Instant `json:"notBefore"`
	Actor     string        `json:"actor"`
	Reason    string        `json:"reason"`
}

// NodeRefused says that a connection in the name of a node was refused, once for each
// cause.
type NodeRefused struct {
	OnNode
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// EventType names of nodes.
func (NodeRegistered) EventType() string   { return "node.registered" }
func (NodeKeyOffered) EventType() string   { return "node.key_offered" }
func (NodeKeyChanged) EventType() string   { return "node.key_changed" }
func (NodeConnected) EventType() string    { return "node.connected" }
func (NodeDisconnected) EventType() string { return "node.disconnected" }
func (NodePaused) EventType() string       { return "node.paused" }
func (NodeResumed) EventType() string      { return "node.resumed" }
func (NodeRetired) EventType() string      { return "node.retired" }
func (NodeRefused) EventType() string      { return "node.refused" }

// Object names an object of the configuration of nodes.
type Object struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// On implements OfNodes.
func (o Object) On() Subject { return Subject(o) }

// Origins of a definition.
const (
	OriginOperator = "operator"
	OriginIngest   = "ingest" // as the node has it
	OriginUndo     = "undo"
)

// Values of ConfigSet.Base.
const (
	BaseDefined = "defined" // they have what is defined: anything else is drift
	BaseUnknown = "unknown" // nothing: they are compared before anything is pushed
)

// ConfigSet says that an object is as defined from then on.
type ConfigSet struct {
	Object
	Version uint64 `json:"version"`
	nodeconfig.Definition
	Origin string `json:"origin"`
	// Base is what is known of the nodes whose legs are other ones than before; empty is what
	// was known until then, so that the change is pushed.
	Base   string `json:"base,omitempty"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

// ConfigRemoved says that an object is not wanted any more: its nodes are told to delete it,
// or, if Keep is set, keep it while the server forgets it.
type ConfigRemoved struct {
	Object
	Keep   bool   `json:"keep,omitempty"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

// ConfigRestored takes an object out of the bin.
type ConfigRestored struct {
	Object
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

// ConfigPurged says that an object was in the bin for as long as it is kept there.
type ConfigPurged struct{ Object }

// EventType names of objects.
func (ConfigSet) EventType() string      { return "config.set" }
func (ConfigRemoved) EventType() string  { return "config.removed" }
func (ConfigRestored) EventType() string { return "config.restored" }
func (ConfigPurged) EventType() string   { return "config.purged" }

// SyncOf names the node of an event, and the object, by the member of its kind: an
// object that the server does not know by what the device calls it.
type SyncOf struct {
	OnNode
	Flow     string `json:"flow_id,omitempty"`
	Tunnel   string `json:"tunnel_id,omitempty"`
	Document string `json:"document_id,omitempty"`
	// Kind and Of are the kind and name of an object that a driver has a word of its own for.
	Kind string `json:"kind,omitempty"`
	Of   string `json:"object_id,omitempty"`
	Leg  string `json:"leg,omitempty"`
	// Local says that the object is none of the server's: its name is what the device calls it.
	Local bool `json:"local,omitempty"`
}

// Sync returns what names an object of a kind on a node.
func Sync(node, kind, name, leg string) SyncOf {
	s := SyncOf{OnNode: OnNode{node}}
	switch kind {
	case nodeconfig.Flow:
		s.Flow = name
	case nodeconfig.Tunnel:
		s.Tunnel, s.Leg = name, leg
	case nodeconfig.Document:
		s.Document = name
	default:
		s.Kind, s.Of = kind, name
	}
	return s
}

// Object is the object's kind and name.
func (s SyncOf) Object() (kind, name string) {
	switch {
	case s.Flow != "":
		return nodeconfig.Flow, s.Flow
	case s.Tunnel != "":
		return nodeconfig.Tunnel, s.Tunnel
	case s.Kind != "":
		return s.Kind, s.Of
	}
	return nodeconfig.Document, s.Document
}

// PushStarted says that an operation is about to be sent to a node: it sets the leg to its
// Version, or deletes it. The node refuses it unless what it has is IfMatch, or, if that is
// empty, nothing.
type PushStarted struct {
	SyncOf
	Op      uint64 `json:"op"`
	Session uint64 `json:"session"`
	Delete  bool   `json:"delete,omitempty"`
	Version uint64 `json:"version"`
	IfMatch string `json:"ifMatch,omitempty"`
}

// PushSucceeded says that the node acknowledged an operation. Observed is what the device
// made of it, with digests in place of secrets.
type PushSucceeded struct {
	SyncOf
	Op       uint64          `json:"op"`
	Delete   bool            `json:"delete,omitempty"`
	Version  uint64          `json:"version"`
	ETag     string          `json:"etag,omitempty"`
	Observed json.RawMessage `json:"observed,omitempty"`
	// ReadBack says that the acknowledgement was lost, and the node's configuration read
	// instead. Already says that the node had it before. Respelt says that Observed is other
	// than what was asked, and that the node named it as how it spells just that.
	ReadBack bool   `json:"readBack,omitempty"`
	Already  bool   `json:"already,omitempty"`
	Respelt  bool   `json:"respelt,omitempty"`
	Effect   string `json:"effect,omitempty"`
}

// PushFailed says that an operation failed. Conflict says that the node refused it since it
// has something else, of ETag; Absent, that it has no such object.
type PushFailed struct {
	SyncOf
	Op       uint64 `json:"op"`
	Code     string `json:"code"`
	Error    string `json:"error"`
	Conflict bool   `json:"conflict,omitempty"`
	Absent   bool   `json:"absent,omitempty"`
	ETag     string `json:"etag,omitempty"`
	// Observed is what the node has, where it differs from what the server knew in nothing that
	// counts.
	Observed json.RawMessage `json:"observed,omitempty"`
	Attempt  int             `json:"attempt"`
	RetryAt  clock.Instant   `json:"retry_at,omitempty"`
}

// EffectChanged says whether what a node acknowledged is in effect.
type EffectChanged struct {
	SyncOf
	Effect string `json:"effect"`
	Detail string `json:"detail,omitempty"`
}

// GhostCleanup says that a leg which its node never had, and refused for as long as its node
// was online, was moved to the bin, where it can be restored until an instant.
type GhostCleanup struct {
	SyncOf
	Error        string        `json:"error"`
	FailedSince  clock.Instant `json:"failedSince"`
	RestoreUntil clock.Instant `json:"restoreUntil"`
}

// Drifted is what a node has other than it should.
type Drifted struct {
	Episode string `json:"episode"`
	// ID is what the device calls the object; ETag and Actual are what it has, nothing
	// where it is missing.
	ID     string          `json:"id"`
	ETag   string          `json:"etag,omitempty"`
	Actual json.RawMessage `json:"actual,omitempty"`
	// Conflict says that a change by an operator waits for a decision.
	Conflict    bool              `json:"conflict,omitempty"`
	Differences []diff.Difference `json:"differences,omitempty"`
	More        int               `json:"more,omitempty"` // differences that are not listed
}

// MaxNodeDifferences bounds the differences that one event lists.
const MaxNodeDifferences = 64

// DriftExtraneous opens an episode: the node has an object that the server does not know.
type DriftExtraneous struct {
	SyncOf
	Drifted
}

// DriftMissing opens an episode: the node lacks what it acknowledged.
type DriftMissing struct {
	SyncOf
	Drifted
}

// DriftMismatched opens an episode: the node has an object with other values.
type DriftMismatched struct {
	SyncOf
	Drifted
}

// DriftChanged says that an open episode is of other values now.
type DriftChanged struct {
	SyncOf
	Drifted
}

// DriftClosed ends an episode.
type DriftClosed struct {
	SyncOf
	Episode string `json:"episode"`
	Reason  string `json:"reason"`
}

// DriftResolved says what an operator decided about an episode: repush, ingest, delete-node or
// delete-server; Fields are those that are as on the node, of a repush. Before is the
// definition until then.
type DriftResolved struct {
	SyncOf
	Episode    string                 `json:"episode"`
	Resolution string                 `json:"resolution"` // names the decision, for undo
	Action     string                 `json:"action"`
	Drift      string                 `json:"drift"`
	ID         string                 `json:"id"`
	Name       string                 `json:"name"` // of the object on the server, which an ingest may make
	Fields     []string               `json:"fields,omitempty"`
	ETag       string                 `json:"etag,omitempty"`
	Actual     json.RawMessage        `json:"actual,omitempty"`
	Before     *nodeconfig.Definition `json:"before,omitempty"`
	Actor      string                 `json:"actor"`
	Reason     string                 `json:"reason"`
}

// ResolutionUndone says that a decision was taken back.
type ResolutionUndone struct {
	SyncOf
	Resolution string `json:"resolution"`
	Actor      string `json:"actor"`
	Reason     string `json:"reason"`
}

// AdoptionOpened says that a node has many objects of its own, as one that is new to the
// server does: an operator is asked about them once instead of for each. It replaces an
// earlier list.
type AdoptionOpened struct {
	OnNode
	Objects []NodeObject `json:"objects"`
}

// NodeObject is an object as a node has it.
type NodeObject struct {
	Kind   string          `json:"kind"`
	ID     string          `json:"id"`
	ETag   string          `json:"etag"`
	Config json.RawMessage `json:"config"`
}

// AdoptionClosed says that nobody is asked any more: the objects were decided about, are gone,
// or become an episode each.
type AdoptionClosed struct {
	OnNode
	Reason string `json:"reason"`
	Actor  string `json:"actor,omitempty"`
}

// SyncRequested says that an operator asked for a node to be compared now.
type SyncRequested struct {
	OnNode
	Actor string `json:"actor"`
}

// SyncCompleted says that a node was compared after it had connected, was pushed to or an
// operator asked: Objects is how many it has, Open how many episodes are open.
type SyncCompleted struct {
	OnNode
	Session    uint64 `json:"session"`
	Generation uint64 `json:"generation"`
	Objects    int    `json:"objects"`
	Open       int    `json:"open"`
}

// SnapshotRefused says that what a node reported of its configuration is no ground for a
// comparison, once for each cause.
type SnapshotRefused struct {
	OnNode
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// DriftIgnored says that fields of objects are no drift, and not pushed, until an instant.
// Node, Kind and Name narrow it.
type DriftIgnored struct {
	Rule   string        `json:"rule"`
	Node   string        `json:"node_id,omitempty"`
	Kind   string        `json:"kind,omitempty"`
	Name   string        `json:"name,omitempty"`
	Field  string        `json:"field"` // empty is the whole object
	Until  clock.Instant `json:"until,omitempty"`
	Actor  string        `json:"actor"`
	Reason string        `json:"reason"`
}

// DriftUnignored ends a DriftIgnored; without an Actor its time has come.
type DriftUnignored struct {
	Rule  string `json:"rule"`
	Actor string `json:"actor,omitempty"`
}

// On implements OfNodes.
func (DriftIgnored) On() Subject { return Subject{} }

// On implements OfNodes.
func (DriftUnignored) On() Subject { return Subject{} }

// EventType names of what the server keeps of nodes and finds of them.
func (PushStarted) EventType() string      { return "config_sync.push_started" }
func (PushSucceeded) EventType() string    { return "config_sync.push_succeeded" }
func (PushFailed) EventType() string       { return "config_sync.push_failed" }
func (EffectChanged) EventType() string    { return "config_sync.effect_changed" }
func (GhostCleanup) EventType() string     { return "config_sync.ghost_cleanup" }
func (DriftExtraneous) EventType() string  { return "config_sync.drift_extraneous" }
func (DriftMissing) EventType() string     { return "config_sync.drift_missing" }
func (DriftMismatched) EventType() string  { return "config_sync.drift_mismatched" }
func (DriftChanged) EventType() string     { return "config_sync.drift_changed" }
func (DriftClosed) EventType() string      { return "config_sync.drift_closed" }
func (DriftResolved) EventType() string    { return "config_sync.drift_resolved" }
func (ResolutionUndone) EventType() string { return "config_sync.resolution_undone" }
func (AdoptionOpened) EventType() string   { return "config_sync.adoption_opened" }
func (AdoptionClosed) EventType() string   { return "config_sync.adoption_closed" }
func (SyncRequested) EventType() string    { return "config_sync.requested" }
func (SyncCompleted) EventType() string    { return "config_sync.completed" }
func (SnapshotRefused) EventType() string  { return "config_sync.snapshot_refused" }
func (DriftIgnored) EventType() string     { return "config_sync.drift_ignored" }
func (DriftUnignored) EventType() string   { return "config_sync.drift_unignored" }

func init() {
	for _, e := range []Event{NodeRegistered{}, NodeKeyOffered{}, NodeKeyChanged{}, NodeConnected{}, NodeDisconnected{}, SyncRequested{}, SyncCompleted{}} {
		add(e, about(node))
	}
	add(NodeRetired{}, about(node), mark(1))
	add(NodeResumed{}, about(node), mark(1))
	add(NodePaused{}, about(node), notice(warn, "nothing is pushed to a node until an operator decides", "node_id code detail"), mark(2))
	add(NodeRefused{}, about(node), notice(warn, "a connection in the name of a node was refused", "node_id code detail"))
	add(SnapshotRefused{}, about(node), notice(warn, "the configuration that a node reports is no ground for a comparison", "node_id code detail"))
	add(AdoptionOpened{}, about(node), mark(1))
	add(AdoptionClosed{}, about(node))
	for _, e := range []Event{ConfigSet{}, ConfigRemoved{}, ConfigRestored{}, ConfigPurged{}} {
		add(e, about(node), mark(1))
	}
	for _, e := range []Event{PushStarted{}, PushSucceeded{}, EffectChanged{}, DriftChanged{}, DriftClosed{}} {
		add(e, about(node, flow, tunnel, document, object))
	}
	for _, e := range []Event{DriftExtraneous{}, DriftMissing{}, DriftMismatched{}, DriftResolved{}, ResolutionUndone{}} {
		add(e, about(node, flow, tunnel, document, object), mark(1))
	}
	add(PushFailed{}, about(node, flow, tunnel, document, object), notice(warn, "a push to a node failed", "node_id flow_id tunnel_id document_id kind object_id leg code error"))
	add(GhostCleanup{}, about(node, flow, tunnel, document, object), notice(warn, "what a node never accepted was moved to the bin", "node_id flow_id tunnel_id document_id kind object_id leg error"), mark(2))
	add(DriftIgnored{}, about(node))
	add(DriftUnignored{})
}
