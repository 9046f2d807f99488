// Package wire is the agent API as both ends see it: the messages, their bounds,
// the strict decoder and the kinds of refusals. It decides nothing.
//
// The API is JSON over HTTP/2 with mutual TLS 1.3. Header Protocol names the
// version; a server serves its own and the one before. The certificate's host
// is the caller's identity on every route; no field of a body ever is.
package wire

import (
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Routes of the agent API.
const (
	RouteDispatch        = "/v1/agent/dispatch"         // GET, long-poll, ?wait=SECONDS&news=N&documents=N: Dispatch, or 204 when nothing came
	RouteClaim           = "/v1/agent/claim"            // POST Claim: ClaimAnswer
	RouteEvents          = "/v1/agent/events"           // POST EventBatch: EventAck, or 409 with EventAck
	RouteHeartbeat       = "/v1/agent/heartbeat"        // POST Heartbeat: HeartbeatReply
	RouteManaged         = "/v1/agent/managed"          // GET: Managed, with ETag
	RouteSecrets         = "/v1/agent/secrets"          // GET: SessionSecrets
	RouteStreams         = "/v1/agent/streams/"         // POST {id}: frames both ways, HTTP/2 only
	RouteRenew           = "/v1/agent/renew"            // POST Renew: Certificate
	RouteBootstrapReport = "/v1/agent/bootstrap-report" // POST BootstrapReport, by token: 204
	RouteEnrol           = "/v1/enroll"                 // POST Enrol, by token: Certificate
	RouteRollouts        = "/v1/rollouts/"              // GET {channel@ref}: HostManifest
	RouteBundles         = "/v1/bundles/"               // GET {digest}: the bundle's bytes
	RouteBlobs           = "/v1/blobs/"                 // GET {digest}: the blob's bytes
	RouteNars            = "/v1/nars/"                  // GET {digest}, with Range: an archive of a store path
	RouteTrust           = "/v1/trust/"                 // GET {file}: an envelope
)

// Files below RouteTrust; roots are "<version>.root.json".
const (
	TrustTimestamp   = "timestamp.json"
	TrustResolved    = "fleet.resolved.json"
	TrustRevocations = "revocations.json"
	TrustOverrides   = "overrides.json" // Overrides, made up by the server of envelopes
)

// Bounds on bodies, in bytes, checked before parsing.
const (
	MaxSmallBody  = 64 << 10 // claims, enrolment
	MaxMetrics    = 256 << 10
	MaxHeartbeat  = MaxSmallBody + MaxMetrics
	MaxEventBody  = 1 << 20
	MaxEventBatch = 500      // events
	MaxEventSize  = 32 << 10 // one event's body
	MaxDocument   = 8 << 20  // envelopes, manifests, bundles
	MaxBlob       = 1 << 30
	MaxCarried    = 64 << 10 // the content of one dispatch
	MaxDepth      = 32
)

// Waits of the API.
const (
	MaxWait          = 60 * clock.Second // of a long-poll
	DefaultHeartbeat = 60 * clock.Second
)

// Dispatch offers one grant, or none when Grant is empty, and carries news and
// streams for agents that ask with ?news=N. Everything in it is a hint: what the
// host may do comes from its own verified manifest.
type Dispatch struct {
	Grant    string         `json:"grant"`
	Purpose  host.Purpose   `json:"purpose"`
	Rollout  string         `json:"rollout"`
	Manifest digest.Digest  `json:"manifest"`
	Term     uint64         `json:"term"`
	TTL      clock.Duration `json:"ttl"` // from now
	Reason   string         `json:"reason"`
	// Failures proves a grant of purpose "rollback".
	Failures []FailureProof `json:"failures,omitempty"`
	// Override proves one too: the envelope of an operator's rollback. With a grant that
	// needs no proof it is of a retry, for a host that refuses the bundle by itself.
	Override json.RawMessage `json:"override,omitempty"`
	// News counts changes of the host's managed layer and settings. An agent
	// whose N differs from it asks for them with a heartbeat.
	News uint64 `json:"news,omitempty"`
	// Streams asks the agent to open each at RouteStreams. One may come again
	// until it is open.
	Streams []StreamRequest `json:"streams,omitempty"`
	// Documents saves the agent the requests for what the grant needs. It comes to
	// agents that ask with ?documents=N.
	Documents *Documents `json:"documents,omitempty"`
}

// Documents are what an agent would fetch to act on a grant, as far as it is small. They
// are verified as if they had been fetched; what is missing is fetched.
type Documents struct {
	// Root is the version of the newest root: an agent that trusts it asks for no other.
	Root uint64 `json:"root,omitempty"`
	// Timestamp and Resolved are left out when the agent's timestamp, N of ?documents=N, is
	// the newest.
	Timestamp json.RawMessage `json:"timestamp,omitempty"`
	Resolved  json.RawMessage `json:"resolved,omitempty"`
	Manifest  *HostManifest   `json:"manifest,omitempty"`
	// Content is the bundle and the blobs that fit, at most MaxCarried bytes.
	Content map[digest.Digest][]byte `json:"content,omitempty"`
}

// Overrides lists the envelopes of operators' signed overrides that are in force.
type Overrides struct {
	Overrides []json.RawMessage `json:"overrides"`
}

// FailureProof shows that a host of the same manifest failed: its leaf, and its
// own signed events from the failure to a signed head.
type FailureProof struct {
	Leaf        LeafProof       `json:"leaf"`
	EventKey    []byte          `json:"eventKey"`
	Token       json.RawMessage `json:"token"` // the enrolment token's envelope, which names the host
	Incarnation uint64          `json:"incarnation"`
	PrevHash    []byte          `json:"prevHash"`
	Events      []Event         `json:"events"`
	Head        Head            `json:"head"`
}

// LeafProof is a leaf's canonical bytes with its Merkle inclusion proof.
type LeafProof struct {
	Leaf  []byte   `json:"leaf"`
	Index int      `json:"index"`
	Proof [][]byte `json:"proof"`
}

// HostManifest is a rollout's manifest as one host needs it.
type HostManifest struct {
	Envelope json.RawMessage `json:"envelope"`
	Leaf     LeafProof       `json:"leaf"`
}

// Claim takes a grant. It may be repeated until it is answered.
type Claim struct {
	Grant string `json:"grant"`
	Term  uint64 `json:"term"`
}

// ClaimAnswer accepts a claim after it is durable, or says why not.
type ClaimAnswer struct {
	Accepted bool   `json:"accepted"`
	Reason   string `json:"reason"`
}

// Event is one link of a host's chain.
type Event struct {
	Seq  uint64          `json:"seq"`
	At   clock.Instant   `json:"at"` // on the agent's clock
	Type string          `json:"type"`
	Body json.RawMessage `json:"body"`
}

// Head is the signed end of a batch.
type Head struct {
	Seq       uint64 `json:"seq"`
	Hash      []byte `json:"hash"`
	Signature []byte `json:"signature"`
}

// EventBatch carries consecutive events and the signed head after the last.
type EventBatch struct {
	Incarnation uint64  `json:"incarnation"`
	Events      []Event `json:"events"`
	Head        Head    `json:"head"`
}

// EventAck acknowledges every event up to Acked, which is then durable. With
// 409, Acked tells an agent where to go on from.
type EventAck struct {
	Acked  uint64 `json:"acked"`
	Reason string `json:"reason,omitempty"`
	// Head, with 409, is the newest head that the server has of this host, signed by it:
	// events that the host does not have prove that its state was set back.
	Head *Head `json:"head,omitempty"`
}

// Check refuses counters that no agent has come to.
func (m *Heartbeat) Check() error {
	for _, n := range []uint64{m.Incarnation, m.LastSeq, m.Mark, m.Resolved} {
		if n > event.MaxCounter {
			return fmt.Errorf("the counter %d of a heartbeat: at most %d are counted", n, uint64(event.MaxCounter))
		}
	}
	if m.Pending < 0 || m.Uptime < 0 {
		return fmt.Errorf("a heartbeat with %d events pending, %d seconds after the start", m.Pending, m.Uptime)
	}
	return nil
}

// Heartbeat is liveness and news for people; it never advances a state.
type Heartbeat struct {
	AgentVersion string        `json:"agentVersion"`
	Incarnation  uint64        `json:"incarnation"`
	BootID       string        `json:"bootId"`
	Current      digest.Digest `json:"current"`
	LastSeq      uint64        `json:"lastSeq"`
	Pending      int           `json:"pending"` // events not yet acknowledged
	Uptime       int64         `json:"uptime"`  // seconds
	// Process is drawn at random, at most 64 bytes, when the agent starts, and Mark
	// is that of the latest reply to it: two agents on one identity show in these.
	Process string `json:"process,omitempty"`
	Mark    uint64 `json:"mark,omitempty"`
	// Parked is the code of package host for why the host does nothing until it enrols
	// again, at most 64 bytes; empty while it is not parked.
	Parked string `json:"parked,omitempty"`
	// Server is the address at which the agent reaches the server, and Resolved the version
	// of the newest snapshot of the fleet that it accepted.
	Server   string `json:"server,omitempty"`
	Resolved uint64 `json:"resolved,omitempty"`
	// Repairing is the grant under which something that runs may be stopped to repair
	// it now: no event tells of it before it is over.
	Repairing string `json:"repairing,omitempty"`
	// Runtimes lists the container runtimes that the engine can use.
	Runtimes []string `json:"runtimes,omitempty"`
	Engine   *Engine  `json:"engine,omitempty"`
	// Bin counts the volumes that are kept of sessions that are over, and has the MaxBinned that go first.
	Bin *Bin `json:"bin,omitempty"`
	// Capabilities names what this agent can do beyond its version.
	Capabilities []string `json:"capabilities,omitempty"`
	// Metrics is the newest sample, at most MaxMetrics bytes, as the agent's
	// collector wrote it.
	Metrics json.RawMessage `json:"metrics,omitempty"`
}

// MaxBinned is how many volumes a heartbeat lists.
const MaxBinned = 100

// Bin is the volumes that a host keeps of sessions that are over.
type Bin struct {
	Count   int      `json:"count"`
	Volumes []Binned `json:"volumes"`
}

// Binned is one of them.
type Binned struct {
	ID      string        `json:"id"` // to discard it
	Volume  string        `json:"volume"`
	Session string        `json:"session"`
	Pod     string        `json:"pod"` // SESSION/PART/POD
	Since   clock.Instant `json:"since"`
	Until   clock.Instant `json:"until"` // it goes then
}

// Engine is the container engine of a host; Problem says why it is not usable.
type Engine struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	API        string `json:"api"`
	OS         string `json:"os,omitempty"`
	Arch       string `json:"arch,omitempty"`
	Kernel     string `json:"kernel,omitempty"`
	Storage    string `json:"storage,omitempty"` // driver
	Cgroup     int    `json:"cgroup,omitempty"`  // version
	Containers int    `json:"containers"`
	Running    int    `json:"running"`
	// GPUs is what the host has for containers with GPUs; nil: nothing.
	GPUs    *spec.GPUFacts `json:"gpus,omitempty"`
	Problem string         `json:"problem,omitempty"`
}

// HeartbeatReply tunes the agent within fixed bounds.
type HeartbeatReply struct {
	Interval clock.Duration `json:"interval"` // of heartbeats, 5 s to 10 min
	// Acked is the last event that the server holds; a lower one than the agent
	// knows asks it to send again from there.
	Acked uint64 `json:"acked"`
	// Head is as in EventAck; it comes when the heartbeat names fewer events than the
	// server has, or the host's identity counts for nothing.
	Head *Head `json:"head,omitempty"`
	// Mark is to be sent back with the next heartbeat, which proves that the agent
	// was alive after this reply.
	Mark uint64 `json:"mark,omitempty"`
	// TimestampVersion hints that a newer freshness statement can be fetched.
	TimestampVersion uint64 `json:"timestampVersion"`
	// RootVersion hints that a newer root of trust can be fetched; a new key epoch
	// begins the versions of timestamps again. 0 says nothing.
	RootVersion uint64 `json:"rootVersion,omitempty"`
	// Overrides names the content of TrustOverrides, if there is any.
	Overrides digest.Digest `json:"overrides,omitempty"`
	// Settings are the host's, if any were ever set.
	Settings *Settings `json:"settings,omitempty"`
	// Managed is the version of the host's managed layer, 0 when there never was
	// one; an agent that holds another fetches RouteManaged.
	Managed uint64 `json:"managed,omitempty"`
	// Facts asks for the event host.facts, which older servers do not take.
	Facts bool `json:"facts,omitempty"`
}

// Settings are what an operator tuned of a host; Version rises with every change.
type Settings struct {
	Version           uint64              `json:"version"`
	HeartbeatInterval clock.Duration      `json:"heartbeatInterval,omitempty"`
	ResyncInterval    clock.Duration      `json:"resyncInterval,omitempty"`
	Enabled           *bool               `json:"enabled,omitempty"`
	Pools             fleet.Pools         `json:"pools"`
	Metrics           fleet.MetricsChoice `json:"metrics"`
}

// SettingsOf is a version of a host's settings as the wire has them.
func SettingsOf(version uint64, s fleet.Settings) *Settings {
	return &Settings{Version: version, HeartbeatInterval: s.HeartbeatInterval, ResyncInterval: s.ResyncInterval,
		Enabled: s.Enabled, Pools: s.Pools, Metrics: s.Metrics}
}

// Tuned returns the settings without their version; check them before use.
func (s *Settings) Tuned() fleet.Settings {
	return fleet.Settings{HeartbeatInterval: s.HeartbeatInterval, ResyncInterval: s.ResyncInterval,
		Enabled: s.Enabled, Pools: s.Pools, Metrics: s.Metrics}
}

// Enrol trades a token for an identity.
type Enrol struct {
	Token    json.RawMessage `json:"token"` // envelope
	CSR      []byte          `json:"csr"`   // DER
	EventKey []byte          `json:"eventKey"`
}

// Certificate answers Enrol and Renew.
type Certificate struct {
	Chain       []byte `json:"chain"` // PEM
	Incarnation uint64 `json:"incarnation"`
}

// Renew asks for a certificate for a new key.
type Renew struct {
	CSR []byte `json:"csr"`
}

// BootstrapReport tells why a host could not enrol. The token is not consumed.
type BootstrapReport struct {
	Token  json.RawMessage `json:"token"`
	Kind   string          `json:"kind"` // TrustError or EnrolmentFailed
	Detail string          `json:"detail"`
}

// Problem is the body of every refusal (RFC 9457).
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}
