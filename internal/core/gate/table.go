package gate

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Purpose is what a gate may keep from happening; several make a set.
type Purpose uint8

// The purposes: grants of each kind, a rollout that opens, a wave that is promoted.
const (
	ToUpdate Purpose = 1 << iota
	ToRollback
	ToRepair
	ToReboot
	ToOpen
	ToPromote
	purposes = iota
)

// Moment is when a gate is asked; both make a set.
type Moment uint8

// The moments: before something is decided, and again before a host may act on it.
const (
	AtOffer Moment = 1 << iota
	AtClaim
)

// Scope is what a gate's answer is the same for, so that it is asked once for all of it.
type Scope uint8

// The scopes, from the widest on.
const (
	PerServer  Scope = iota
	PerRollout       // also of a channel: all hosts of a rollout
	PerWave
	PerClass  // hosts of a wave that have the same windows
	PerGrant  // hosts of a class, until one of them is granted something
	PerHost   // asked of each host
	PerMember // as PerHost, but who looks for hosts to grant to leaves out whom it blocks
	scopes    = iota
)

// Gate is a rule that may keep something from happening.
type Gate struct {
	Code Code
	// Rule tells gates of one code apart.
	Rule string
	// When and ClearedBy say for people when it blocks, and what clears it.
	When, ClearedBy string
	For             Purpose
	At              Moment
	Scope           Scope
	// Check returns nil when the gate is open. Who does not show the answer asks it to
	// explain nothing: then a gate that a tick asks of many hosts makes no words.
	Check func(f Facts, explain bool) *Block
}

// Facts is what the gates read of what they are asked about: a host in a rollout, a
// class of hosts, a rollout, or a channel. A fact that does not apply is its zero value,
// which blocks nothing. Instants at which time could clear a block may be left out by who
// does not show them.
type Facts interface {
	Behind() *Block
	Unheard() (host string, until clock.Instant)
	RollCall() (full *Block, until clock.Instant)
	Freshness() (channel string, issuedAt clock.Instant, window clock.Duration, now clock.Instant)
	Override() (rollout, action, message string)
	Status() RolloutStatus
	Superseded() (host, rollout string)
	Freeze() (host string, until clock.Instant, reason string, now clock.Instant)
	// Sessions gives a list that its reader may change.
	Sessions() (host string, has []Occupant, now clock.Instant)
	Quarantine() (channel, bundle, reason, own string)
	Windows() (who string, windows []clock.Window, now clock.Instant)
	Queue() (pending, active, status string, earliest clock.Instant)
	ChannelEdges() (channel string, before []Predecessor)
	Wave() (rollout string, wave int, name string, cursor int, cursorName string, earliest clock.Instant)
	Canary() (rollout string, tried, most int, earliest clock.Instant)
	Identity() (host, status, reason string)
	Presence() (host string, a Absence, now clock.Instant)
	HostEdges() (host string, unmet, absent []string, earliest clock.Instant)
	Budgets() []Use
	Controls() (rollout string, failures []string)
	Evidence() (rollout string, failing []Outstanding)
	Backoff() (until clock.Instant, last Untaken, now clock.Instant)
	Promotion() Evidence
	Soak() (rollout, wave string, until, now clock.Instant)
}

// Table lists every gate in the order in which they are asked.
var Table = [...]Gate{
	{Code: Restore, Rule: "behind", For: ToUpdate | ToRepair | ToReboot | ToOpen, At: AtOffer | AtClaim, Scope: PerServer,
		When:      "the server was restored from a backup, and a host has not sent again what the log lacks",
		ClearedBy: "those hosts, or time", Check: func(f Facts, _ bool) *Block { return f.Behind() }},
	{Code: Restore, Rule: "unheard", For: ToUpdate | ToRepair | ToReboot, At: AtClaim, Scope: PerServer,
		When:      "the server began after it made the offer, and the host has not said yet how far its events go",
		ClearedBy: "the host as it reports, or time", Check: func(f Facts, _ bool) *Block { return CheckUnheard(f.Unheard()) }},
	{Code: Restore, Rule: "roll-call", For: ToUpdate | ToRollback | ToRepair | ToReboot, At: AtClaim, Scope: PerServer,
		When:      "the server began a short time ago, and hosts that have not connected yet could be in flight",
		ClearedBy: "those hosts, or time", Check: func(f Facts, _ bool) *Block { return CheckRollCall(f.RollCall()) }},
	{Code: Freshness, For: ToUpdate | ToReboot, At: AtOffer, Scope: PerRollout,
		When:      "the timestamp is older than the channel allows",
		ClearedBy: "the holder of the timestamp key: refresh and push", Check: func(f Facts, _ bool) *Block { return CheckFreshness(f.Freshness()) }},
	{Code: Overlay, Rule: "override", For: ToUpdate | ToReboot, At: AtOffer | AtClaim, Scope: PerRollout,
		When:      "a signed override stops the rollout",
		ClearedBy: "whoever has the override key", Check: func(f Facts, _ bool) *Block { return CheckOverride(f.Override()) }},
	{Code: Overlay, Rule: "status", For: ToUpdate | ToRepair | ToReboot, At: AtOffer | AtClaim, Scope: PerRollout,
		When:      "the rollout is paused, halted, reverting or over, or was signed in a key epoch that has ended",
		ClearedBy: "an operator: `rollout resume` or `cancel`; or a release that replaces it", Check: func(f Facts, _ bool) *Block { return CheckOverlay(f.Status()) }},
	{Code: Overlay, Rule: "superseded", For: ToRepair | ToReboot, At: AtClaim, Scope: PerHost,
		When:      "the host went on since it was offered a repair or a reboot",
		ClearedBy: "the host itself", Check: func(f Facts, _ bool) *Block { return CheckSuperseded(f.Superseded()) }},
	{Code: Freeze, For: ToUpdate | ToRepair | ToReboot, At: AtOffer | AtClaim, Scope: PerHost,
		When:      "an operator keeps the host from grants until an instant; a frozen host that is there blocks its wave",
		ClearedBy: "time; `host unfreeze`; `rollout promote` lets its wave pass without it", Check: CheckFreeze},
	{Code: Occupied, For: ToUpdate | ToRepair | ToReboot, At: AtOffer | AtClaim, Scope: PerHost,
		When:      "a session has something on the host; such a host that is there blocks its wave",
		ClearedBy: "time, by the end that `steady why` names; whoever runs the session: `session stop`; `rollout promote` lets its wave pass without it", Check: CheckOccupied},
	{Code: Quarantine, For: ToUpdate | ToRepair | ToReboot, At: AtOffer | AtClaim, Scope: PerHost,
		When:      "the bundle failed on this channel, or on this host",
		ClearedBy: "a releaser with a changed bundle; an operator: `quarantine clear`, of what was signed with `--sign`", Check: CheckQuarantine},
	{Code: Queue, For: ToOpen, At: AtOffer, Scope: PerRollout,
		When:      "a newer ref waits for the active rollout of its channel",
		ClearedBy: "its hosts as they converge, or `rollout cancel`", Check: func(f Facts, _ bool) *Block { return CheckQueue(f.Queue()) }},
	{Code: Window, For: ToUpdate | ToRepair | ToReboot, At: AtOffer | AtClaim, Scope: PerClass,
		When:      "a maintenance window of the host is closed",
		ClearedBy: "time: *earliest* says when all of them are open; a release with other windows", Check: func(f Facts, _ bool) *Block { return CheckWindow(f.Windows()) }},
	{Code: ChannelEdge, For: ToOpen, At: AtOffer, Scope: PerRollout,
		When:      "a channel that goes first has an unfinished rollout",
		ClearedBy: "that channel's hosts; its operator or releaser if it halted or reverted", Check: func(f Facts, _ bool) *Block { return CheckChannelEdges(f.ChannelEdges()) }},
	{Code: Wave, For: ToUpdate, At: AtOffer, Scope: PerWave,
		When:      "the host's wave is not open yet",
		ClearedBy: "the hosts of the open wave; `rollout promote`", Check: CheckWave},
	{Code: Canary, For: ToUpdate, At: AtOffer | AtClaim, Scope: PerHost,
		When:      "as many hosts of the rollout were tried as `canaryMax` allows, and none has converged yet",
		ClearedBy: "those hosts as they converge; a fixed release; break-glass", Check: CheckCanary},
	{Code: Identity, For: ToUpdate | ToRollback | ToRepair | ToReboot, At: AtOffer | AtClaim, Scope: PerMember,
		When:      "the host was revoked or decommissioned, or two agents share its identity",
		ClearedBy: "whoever runs the host: enrol it again; or a release without it", Check: func(f Facts, _ bool) *Block { return CheckIdentity(f.Identity()) }},
	{Code: Presence, For: ToUpdate | ToRollback | ToRepair | ToReboot, At: AtOffer, Scope: PerMember,
		When:      "the host is offline, was given up, or never enrolled",
		ClearedBy: "whoever runs the host", Check: func(f Facts, _ bool) *Block { return CheckPresence(f.Presence()) }},
	{Code: HostEdge, For: ToUpdate | ToReboot, At: AtOffer, Scope: PerHost,
		When:      "a host that goes first has not converged",
		ClearedBy: "that host", Check: CheckHostEdges},
	{Code: Budget, For: ToUpdate | ToRollback | ToRepair | ToReboot, At: AtOffer | AtClaim, Scope: PerGrant,
		When:      "a disruption budget of the host is full; failed and silent hosts keep their slots",
		ClearedBy: "the hosts in flight; a release with a larger budget", Check: func(f Facts, explain bool) *Block { return CheckBudgets(f.Budgets(), explain) }},
	{Code: Compliance, Rule: "controls", For: ToUpdate | ToReboot, At: AtOffer, Scope: PerRollout,
		When:      "the plan fails a required control",
		ClearedBy: "a release that passes", Check: func(f Facts, _ bool) *Block { return CheckControls(f.Controls()) }},
	{Code: Compliance, Rule: "evidence", For: ToUpdate, At: AtOffer, Scope: PerWave,
		When:      "a host of an earlier wave has required evidence that does not pass",
		ClearedBy: "whoever mends those hosts", Check: func(f Facts, _ bool) *Block { return CheckEvidence(f.Evidence()) }},
	{Code: Backoff, For: ToUpdate | ToRollback | ToRepair | ToReboot, At: AtOffer, Scope: PerHost,
		When:      "the host declined its last offer (no room, download failed) or let it expire; after five in a row nobody waits for it",
		ClearedBy: "time, once the cause is mended; *earliest* says when", Check: CheckBackoff},
	{Code: Promotion, Rule: "in-flight", For: ToPromote, At: AtOffer, Scope: PerRollout,
		When:      "(in `rollout show`) the wave has hosts on the way",
		ClearedBy: "those hosts, or `rollout cancel`", Check: func(f Facts, _ bool) *Block { return CheckInFlight(f.Promotion()) }},
	{Code: Promotion, Rule: "waiting", For: ToPromote, At: AtOffer, Scope: PerRollout,
		When:      "it has hosts that wait for a grant",
		ClearedBy: "what they wait for", Check: func(f Facts, _ bool) *Block { return CheckReady(f.Promotion()) }},
	{Code: Promotion, Rule: "proof", For: ToPromote, At: AtOffer, Scope: PerRollout,
		When:      "fewer hosts than `minSoaked` converged",
		ClearedBy: "more hosts of the wave", Check: func(f Facts, _ bool) *Block { return CheckProof(f.Promotion()) }},
	{Code: Compliance, Rule: "evidence of the wave", For: ToPromote, At: AtOffer, Scope: PerRollout,
		When:      "a host of the wave has required evidence that does not pass",
		ClearedBy: "whoever mends that host; `rollout promote`", Check: func(f Facts, _ bool) *Block { return CheckEvidence(f.Evidence()) }},
	{Code: Promotion, Rule: "soak", For: ToPromote, At: AtOffer, Scope: PerRollout,
		When:      "the soak of the wave's hosts has not passed on the server's clock",
		ClearedBy: "time, or `rollout promote` unless hosts are in flight", Check: func(f Facts, _ bool) *Block { return CheckSoak(f.Soak()) }},
}

// Meanings say of every code when a gate of it blocks, and who clears it, in the order in which they
// are asked.
func Meanings() (words []prose.Meaning) {
	cleared := map[Code][]string{}
	for i := range Table {
		g := &Table[i]
		if g.For == ToPromote && g.Code != Promotion {
			continue // the same rule about another wave
		}
		at := slices.IndexFunc(words, func(w prose.Meaning) bool { return w.Word == string(g.Code) })
		if at < 0 {
			at = len(words)
			words = append(words, prose.Meaning{Word: string(g.Code), Means: g.When})
		} else {
			words[at].Means += "; or " + g.When
		}
		if by := cleared[g.Code]; !slices.Contains(by, g.ClearedBy) {
			cleared[g.Code] = append(by, g.ClearedBy)
			words[at].Next = strings.Join(cleared[g.Code], "; ")
		}
	}
	return words
}

// asked has the gates of each purpose: at each moment, and at offers by scope.
var asked = func() (by [purposes]struct {
	at    [AtClaim + 1][]*Gate
	scope [scopes][]*Gate
}) {
	for i := range Table {
		g := &Table[i]
		for p := range by {
			if g.For&(1<<p) == 0 {
				continue
			}
			for _, m := range [...]Moment{AtOffer, AtClaim} {
				if g.At&m != 0 {
					by[p].at[m] = append(by[p].at[m], g)
				}
			}
			if g.At&AtOffer != 0 {
				by[p].scope[g.Scope] = append(by[p].scope[g.Scope], g)
			}
		}
	}
	return by
}()

// Of lists the gates of one purpose at one moment, in order. The list is shared.
func Of(p Purpose, m Moment) []*Gate { return asked[bits.TrailingZeros8(uint8(p))].at[m] }

// First is the block of the first gate of a purpose that is closed at a moment, or nil.
func First(f Facts, p Purpose, m Moment) *Block {
	for _, g := range Of(p, m) {
		if b := g.Check(f, true); b != nil {
			return b
		}
	}
	return nil
}

// FirstCode is First of the gates of a code alone.
func FirstCode(f Facts, p Purpose, m Moment, code Code) *Block {
	for _, g := range Of(p, m) {
		if g.Code == code {
			if b := g.Check(f, true); b != nil {
				return b
			}
		}
	}
	return nil
}

// FirstClosed is the first gate of a scope that is closed at an offer, or nil.
func FirstClosed(f Facts, p Purpose, s Scope) *Gate {
	for _, g := range asked[bits.TrailingZeros8(uint8(p))].scope[s] {
		if g.Check(f, false) != nil {
			return g
		}
	}
	return nil
}

// All lists the blocks of every gate of a purpose that is closed at an offer.
func All(f Facts, p Purpose) (blocks []*Block) {
	for _, g := range Of(p, AtOffer) {
		if b := g.Check(f, true); b != nil {
			blocks = append(blocks, b)
		}
	}
	return blocks
}
