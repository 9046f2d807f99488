package event

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Events that the server decides. Every decision carries its reason. Where an
// event names a rollout, Rollout is for people and Manifest is the identity: two
// plans of one ref share a name.

// RootTrusted says which root of trust the server follows; Root is a blob.
type RootTrusted struct {
	Version uint64        `json:"version"`
	Epoch   uint64        `json:"epoch"`
	Root    digest.Digest `json:"root"`
}

// ReleaseAccepted says that a whole release verified and is the newest. The
// documents are blobs; Envelopes names the signed ones by file name.
type ReleaseAccepted struct {
	Version     uint64                   `json:"version"`
	Epoch       uint64                   `json:"epoch"`
	Ref         string                   `json:"ref"`
	Resolved    digest.Digest            `json:"resolved"` // payload
	Roster      digest.Digest            `json:"roster"`   // payload
	Channels    []ChannelRelease         `json:"channels"` // sorted by name
	ChannelEdge []fleet.Edge             `json:"channelEdges"`
	Envelopes   map[string]digest.Digest `json:"envelopes"`
	Actor       string                   `json:"actor"`
}

// ChannelRelease is one channel of a release.
type ChannelRelease struct {
	Channel           string              `json:"channel"`
	FreshnessWindow   clock.Duration      `json:"freshnessWindow"`
	ReconcileInterval clock.Duration      `json:"reconcileInterval"`
	OnNewRef          fleet.OnNewRef      `json:"onNewRef"`
	Manifests         []fleet.ManifestRef `json:"manifests"`
}

// TimestampAccepted says that a newer freshness statement verified.
type TimestampAccepted struct {
	Version  uint64        `json:"version"`
	IssuedAt clock.Instant `json:"issuedAt"`
	Resolved digest.Digest `json:"resolved"`
	Envelope digest.Digest `json:"envelope"`
}

// VerifyFailed says that something offered to the server was refused; nothing
// else changed.
type VerifyFailed struct {
	What   string `json:"what"`
	Check  string `json:"check"`
	Detail string `json:"detail"`
	Actor  string `json:"actor"`
}

// HostEnrolled says that a host got its identity. A new incarnation starts a new
// event chain and forgets what an earlier one had in flight.
type HostEnrolled struct {
	Incarnation uint64        `json:"incarnation"`
	EventKey    []byte        `json:"eventKey"` // Ed25519 public key
	Token       string        `json:"token"`    // id of the spent token
	TokenDoc    digest.Digest `json:"tokenDoc"` // blob of the token's envelope
	KeyDigest   digest.Digest `json:"keyDigest"`
	Serial      string        `json:"serial"`
	NotAfter    clock.Instant `json:"notAfter"`
	Certificate digest.Digest `json:"certificate"` // blob, for a retried enrolment
}

// EnrolRefused says that an enrolment was refused; a spent token is a reason.
type EnrolRefused struct {
	Token  string `json:"token"`
	Reason string `json:"reason"`
}

// CertificateRenewed says that a host got a new certificate for a new key.
// Presented is the serial that it proved itself with, which stays good: the
// host may never have received the certificates in between. With Issued the host presented
// one that was issued then and that the log lacks, since it was restored from a backup:
// Presented is the newest that the log had.
type CertificateRenewed struct {
	Serial    string        `json:"serial"`
	Presented string        `json:"presented"`
	NotAfter  clock.Instant `json:"notAfter"`
	KeyDigest digest.Digest `json:"keyDigest"`
	Issued    clock.Instant `json:"issued,omitempty"`
}

// HostRevoked ends a host's certificates issued before NotBefore.
type HostRevoked struct {
	NotBefore clock.Instant `json:"notBefore"`
	Reason    string        `json:"reason"`
	Actor     string        `json:"actor"`
}

// HostHead is the head of a host's event chain, signed by the host's key. It
// follows the batch that it covers.
type HostHead struct {
	Incarnation uint64 `json:"incarnation"`
	Seq         uint64 `json:"seq"`
	Hash        []byte `json:"hash"`
	Signature   []byte `json:"signature"`
}

// HostForked says that a host's identity counts for nothing until it enrols again: two
// different events claim the same place in its chain, two processes were proven alive by
// turns, or the host itself says that its state was set back.
type HostForked struct {
	Incarnation uint64 `json:"incarnation"`
	Seq         uint64 `json:"seq"`
	// Record is a blob of the second history's events with their signed head; the
	// first is in the log. Empty when two processes showed without one.
	Record digest.Digest `json:"record,omitempty"`
	// Parked is the code that the host itself gives: it does nothing more.
	Parked string `json:"parked,omitempty"`
}

// HostSilent and HostReturned are presence, so that decisions which read it can
// be replayed.
type HostSilent struct {
	LastSeen clock.Instant `json:"lastSeen"`
}

// HostReturned says that a host that was silent or new made contact.
type HostReturned struct{}

// MirrorDiverged says that a host took another legal transition than the
// server's mirror would have; the mirror followed the host.
type MirrorDiverged struct {
	Rollout  string     `json:"rollout"`
	Expected host.Phase `json:"expected"`
	Reported host.Phase `json:"reported"`
	Input    string     `json:"input"`
}

// RolloutQueued reports that a channel's new ref waits; Dropped and DroppedRollout name one that
// it replaces in the queue, by the digest of its manifest and by its name.
type RolloutQueued struct {
	Channel   string        `json:"channel"`
	TargetRef string        `json:"target_ref"`
	Manifest  digest.Digest `json:"manifest"`
	Dropped   string        `json:"dropped"`
	Reason    string        `json:"reason"`

	DroppedRollout string `json:"droppedRollout,omitempty"`
}

// RolloutDeferred says why a queued ref is not opened yet. It is logged again
// only when its reason changes.
type RolloutDeferred struct {
	Channel   string `json:"channel"`
	TargetRef string `json:"target_ref"`
	BlockedBy string `json:"blocked_by"`
	Reason    string `json:"reason"`
}

// RolloutOpened starts a rollout of a manifest.
type RolloutOpened struct {
	Rollout  string        `json:"rollout"`
	Channel  string        `json:"channel"`
	Ref      string        `json:"ref"`
	Manifest digest.Digest `json:"manifest"`
	Reason   string        `json:"reason"`
}

// RolloutMoved is a transition of the rollout machine.
type RolloutMoved struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	From     string        `json:"from"`
	To       string        `json:"to"`
	Reason   string        `json:"reason"`
	Actor    string        `json:"actor"`
	// Final says that a failed rollout can no longer be resumed.
	Final bool `json:"final,omitempty"`
	// SkippedHosts names those that the end of a rollout did not wait for, at most MaxNamed.
	SkippedHosts []string `json:"skippedHosts,omitempty"`
}

// RolloutReverting says that the failure policy fired, or that an operator signed
// a rollback, and every host that was ever granted goes back.
type RolloutReverting struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	Wave     int           `json:"wave"`
	Reason   string        `json:"reason"`
	// Override names the signed rollback, if it was one, and Actor who brought it.
	Override digest.Digest `json:"override,omitempty"`
	Actor    string        `json:"actor,omitempty"`
}

// WavePromoted opens the next wave on the evidence of this one.
type WavePromoted struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	Wave     int           `json:"wave"`
	WaveName string        `json:"waveName,omitempty"`
	// Evidence counts hosts of the wave that converged from a grant of this
	// rollout; Skipped those that were never granted and are offline; Absent those
	// that never enrolled or are decommissioned, which count for nothing.
	Evidence int    `json:"evidence"`
	AtTarget int    `json:"atTarget"`
	Failed   int    `json:"failed"`
	Skipped  int    `json:"skipped"`
	Absent   int    `json:"absent,omitempty"`
	Reason   string `json:"reason"`
	// SkippedHosts names those that were skipped, at most MaxNamed.
	SkippedHosts []string `json:"skippedHosts,omitempty"`
}

// MaxNamed bounds how many hosts an event names for one reason.
const MaxNamed = 50

// WaveBlocked says why a wave does not promote; logged again only when the reason
// changes, with what its hosts wait for then.
type WaveBlocked struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	Wave     int           `json:"wave"`
	WaveName string        `json:"waveName,omitempty"`
	Code     string        `json:"code"`
	Reason   string        `json:"reason"`
	// Waits are the hosts of the waves that are open which wait for a grant, each under the
	// first gate that keeps it, in the order of gates.
	Waits []HostWait `json:"waits,omitempty"`
}

// HostWait is what hosts wait for. Reason is that of the first of them; Hosts names at most
// MaxNamed of the Total.
type HostWait struct {
	Gate   string   `json:"gate"`
	Reason string   `json:"reason"`
	Hosts  []string `json:"hosts"`
	Total  int      `json:"total"`
}

// Granted offers one host to act now. It is committed before it is offered.
type Granted struct {
	Grant    string        `json:"grant"`
	Rollout  string        `json:"rollout"`
	Wave     int           `json:"wave"`
	Target   digest.Digest `json:"target"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	Purpose  host.Purpose  `json:"purpose"`
	Expires  clock.Instant `json:"expires"`
	Reason   string        `json:"reason"`
	// Budgets says how full each budget of the host was, this grant included.
	Budgets map[string]string `json:"budgets"`
}

// GrantClaimed commits a host's claim; only its acknowledgement lets the host
// act.
type GrantClaimed struct {
	Grant   string `json:"grant"`
	Rollout string `json:"rollout"`
}

// GrantEnded frees an unclaimed grant; NotBefore, if set, is when the host may
// be asked again.
type GrantEnded struct {
	Grant     string        `json:"grant"`
	Rollout   string        `json:"rollout"`
	Reason    string        `json:"reason"`
	NotBefore clock.Instant `json:"notBefore,omitempty"`
}

// HostFailedSilently says that a claimed host did not report by its deadline how
// that went: it made no contact, or it did and its work never ended. It keeps
// its slot until it reports.
type HostFailedSilently struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	Grant    string        `json:"grant"`
	Deadline clock.Instant `json:"deadline"`
	Reason   string        `json:"reason,omitempty"`
	// Overdue says that the host was there: the deadline is that of its work.
	Overdue bool `json:"overdue,omitempty"`
}

// QuarantineAdded refuses a bundle on a channel.
type QuarantineAdded struct {
	Channel string        `json:"channel"`
	Digest  digest.Digest `json:"digest"`
	Reason  string        `json:"reason"`
	Actor   string        `json:"actor"`
	// Rollout is the one that it failed in; empty when an operator added it.
	Rollout string `json:"rollout,omitempty"`
}

// QuarantineCleared allows it again.
type QuarantineCleared struct {
	Channel string        `json:"channel"`
	Digest  digest.Digest `json:"digest"`
	Reason  string        `json:"reason"`
	Actor   string        `json:"actor"`
}

// RolloutPaused and RolloutResumed are an operator's overlay on a rollout.
type RolloutPaused struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	Reason   string        `json:"reason"`
	Actor    string        `json:"actor"`
}

// RolloutResumed ends a pause, or a halt with its failures acknowledged.
type RolloutResumed struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	Reason   string        `json:"reason"`
	Actor    string        `json:"actor"`
}

// RolloutCancelled makes a halt final.
type RolloutCancelled struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest,omitempty"`
	Reason   string        `json:"reason"`
	Actor    string        `json:"actor"`
}

// OperatorTokenAdded lets a bearer of the token whose SHA-256 is Hash act with
// Role. With Parent it is a login of a browser, which was opened with that token and ends with it.
type OperatorTokenAdded struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role"`
	Hash []byte `json:"hash"`
	// Expires is when the token ends; zero is never.
	Expires clock.Instant `json:"expires,omitempty"`
	// Actor is who made it; empty for the first one, which the server makes.
	Actor string `json:"actor,omitempty"`
	// Recovered says that whoever owns the server's data folder made it, past every
	// operator.
	Recovered bool `json:"recovered,omitempty"`
	// Parent is the id of the token that a login was opened with.
	Parent string `json:"parent,omitempty"`
}

// OperatorTokenUsed says that a token was used, at most once in access.UseInterval.
type OperatorTokenUsed struct {
	ID string `json:"id"`
}

// OperatorTokenRevoked withdraws an operator token with its logins, or ends one login. Forced says that no
// admin's token was left.
type OperatorTokenRevoked struct {
	ID     string `json:"id"`
	Actor  string `json:"actor"`
	Forced bool   `json:"forced,omitempty"`
}

// EventType names of the server's events.
func (RootTrusted) EventType() string          { return "trust.root" }
func (ReleaseAccepted) EventType() string      { return "release.accepted" }
func (TimestampAccepted) EventType() string    { return "release.timestamp" }
func (VerifyFailed) EventType() string         { return "release.verify_failed" }
func (HostEnrolled) EventType() string         { return "host.enrolled" }
func (EnrolRefused) EventType() string         { return "host.enrol_refused" }
func (CertificateRenewed) EventType() string   { return "host.certificate_renewed" }
func (HostRevoked) EventType() string          { return "host.revoked" }
func (HostHead) EventType() string             { return "host.head" }
func (HostForked) EventType() string           { return "host.forked" }
func (HostSilent) EventType() string           { return "host.silent" }
func (HostReturned) EventType() string         { return "host.returned" }
func (MirrorDiverged) EventType() string       { return "host.mirror_diverged" }
func (RolloutQueued) EventType() string        { return "rollout.queued" }
func (RolloutDeferred) EventType() string      { return "rollout.deferred" }
func (RolloutOpened) EventType() string        { return "rollout.opened" }
func (RolloutMoved) EventType() string         { return "rollout.moved" }
func (RolloutReverting) EventType() string     { return "rollout.reverting" }
func (WavePromoted) EventType() string         { return "wave.promoted" }
func (WaveBlocked) EventType() string          { return "wave.blocked" }
func (Granted) EventType() string              { return "grant.offered" }
func (GrantClaimed) EventType() string         { return "grant.claimed" }
func (GrantEnded) EventType() string           { return "grant.ended" }
func (HostFailedSilently) EventType() string   { return "host.failed_silently" }
func (QuarantineAdded) EventType() string      { return "quarantine.added" }
func (QuarantineCleared) EventType() string    { return "quarantine.cleared" }
func (RolloutPaused) EventType() string        { return "rollout.paused" }
func (RolloutResumed) EventType() string       { return "rollout.resumed" }
func (RolloutCancelled) EventType() string     { return "rollout.cancelled" }
func (OperatorTokenAdded) EventType() string   { return "operator.token_added" }
func (OperatorTokenUsed) EventType() string    { return "operator.token_used" }
func (OperatorTokenRevoked) EventType() string { return "operator.token_revoked" }

func init() {
	add(RootTrusted{}, mark(2))
	add(ReleaseAccepted{}, about(release), mark(2))
	add(TimestampAccepted{})
	add(VerifyFailed{})
	add(EnrolRefused{})
	add(RolloutQueued{}, about(channel, waiting, manifest, dropped), decision(info, "rollout queued", "channel target_ref reason"), mark(1))
	add(RolloutDeferred{}, about(channel, waiting), decision(info, "rollout deferred", "channel target_ref blocked_by reason"))
	add(RolloutOpened{}, about(rollout, channel, release, manifest), decision(info, "rollout opened", "rollout manifest reason"), mark(2))
	add(RolloutMoved{}, about(rollout, manifest), decision(info, "rollout moved", "rollout from to reason actor"), mark(2))
	add(RolloutReverting{}, about(rollout, manifest, signed), decision(warn, "rollout is being reverted", "rollout wave reason actor"), mark(3))
	add(WavePromoted{}, about(rollout, manifest), decision(info, "wave promoted", "rollout wave evidence failed skipped reason"), mark(1))
	add(WaveBlocked{}, about(rollout, manifest), decision(info, "wave waits", "rollout wave code reason"))
	add(QuarantineAdded{}, about(channel, refused, rollout), decision(warn, "bundle quarantined", "channel digest reason actor"), mark(3))
	add(QuarantineCleared{}, about(channel, refused), mark(1))
	add(RolloutPaused{}, about(rollout, manifest), mark(2))
	add(RolloutResumed{}, about(rollout, manifest), mark(2))
	add(RolloutCancelled{}, about(rollout, manifest), mark(2))
	add(OperatorTokenAdded{})
	add(OperatorTokenUsed{})
	add(OperatorTokenRevoked{})
	add(HostEnrolled{}, ofHost)
	add(CertificateRenewed{}, ofHost)
	add(HostRevoked{}, ofHost, mark(1))
	add(HostHead{}, ofHost)
	add(HostForked{}, ofHost, mark(3))
	add(HostSilent{}, ofHost)
	add(HostReturned{}, ofHost)
	add(HostFailedSilently{}, ofHost, about(rollout, manifest), decision(warn, "host in flight failed silently", "rollout grant reason"), mark(2))
	add(MirrorDiverged{}, ofHost, about(rollout))
	add(Granted{}, ofHost, about(rollout, manifest, target), decision(info, "granted", "grant rollout wave purpose budgets reason"))
	add(GrantClaimed{}, ofHost, about(rollout))
	add(GrantEnded{}, ofHost, about(rollout), decision(info, "grant ended", "grant reason"))
}
