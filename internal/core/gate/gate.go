// Package gate holds the rules that may keep a host or a rollout back. Each is
// a pure function that returns nil or a Block, and a Block always says what it
// waits for, who can clear it and, where time can, when.
package gate

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Code names the gate that blocks; part of the API.
type Code string

// The codes, in the order in which the gates are asked.
const (
	Freshness   Code = "freshness"
	Overlay     Code = "overlay" // paused, halted, reverting or ended
	Quarantine  Code = "quarantine"
	Queue       Code = "queue" // a newer ref waits for the active rollout
	ChannelEdge Code = "channel-edge"
	Wave        Code = "wave"
	Presence    Code = "presence"
	HostEdge    Code = "host-edge"
	Budget      Code = "budget"
	Backoff     Code = "backoff"
	Promotion   Code = "promotion"
)

// Block is one rule's answer why something may not happen yet.
type Block struct {
	Code Code `json:"code"`
	// Words say what the rule found, for people.
	Words string `json:"words"`
	// WaitsFor is the event or state that would clear it.
	WaitsFor string `json:"waitsFor"`
	// ClearedBy is who can bring that about.
	ClearedBy string `json:"clearedBy"`
	// Earliest is the first instant at which it can clear; zero when only an
	// event can tell.
	Earliest clock.Instant `json:"earliest"`
	// Detail refines Code where a reader must tell cases apart.
	Detail string `json:"detail,omitempty"`
}

// CheckFreshness blocks when the newest freshness statement is older than the
// channel allows: the server may be replaying old intent.
func CheckFreshness(channel string, issuedAt clock.Instant, window clock.Duration, now clock.Instant) *Block {
	if issuedAt != 0 && now.Sub(issuedAt) <= window {
		return nil
	}
	words := "no freshness statement was ever accepted"
	if issuedAt != 0 {
		words = fmt.Sprintf("the freshness statement is %s old, channel %s allows %s", now.Sub(issuedAt), channel, window)
	}
	return &Block{Code: Freshness, Words: words, WaitsFor: "a newer signed timestamp",
		ClearedBy: "the holder of the timestamp key: steady release refresh, then steady release push"}
}

// Standing is what the overlay gate reads of a rollout.
type Standing struct {
	Rollout   string
	Phase     string
	Paused    bool
	Reason    string // of the pause or of the halt
	Halted    bool
	Reverting bool
	Ended     bool
}

// CheckOverlay blocks new grants of a rollout that is paused, halted, on its way
// back or over.
func CheckOverlay(s Standing) *Block {
	switch {
	case s.Reverting:
		return &Block{Code: Overlay, Detail: "reverting", Words: "rollout " + s.Rollout + " is being reverted: " + s.Reason,
			WaitsFor: "a release that replaces it", ClearedBy: "a releaser: build, sign and push a fixed release"}
	case s.Halted:
		return &Block{Code: Overlay, Detail: "halted", Words: "rollout " + s.Rollout + " is halted: " + s.Reason,
			WaitsFor: "an operator's decision", ClearedBy: "an operator: steady rollout resume or cancel " + s.Rollout}
	case s.Ended:
		return &Block{Code: Overlay, Detail: "ended", Words: "rollout " + s.Rollout + " is " + s.Phase,
			WaitsFor: "a new release", ClearedBy: "a releaser: steady release push"}
	case s.Paused:
		return &Block{Code: Overlay, Detail: "paused", Words: "rollout " + s.Rollout + " is paused: " + s.Reason,
			WaitsFor: "the pause to end", ClearedBy: "an operator: steady rollout resume " + s.Rollout}
	}
	return nil
}

// CheckQuarantine blocks a bundle that failed on this channel; reason is empty
// when it did not.
func CheckQuarantine(channel, bundle, reason string) *Block {
	if reason == "" {
		return nil
	}
	return &Block{Code: Quarantine, Words: fmt.Sprintf("bundle %s is quarantined on channel %s: %s", bundle, channel, reason),
		WaitsFor: "another bundle, or the quarantine to be cleared", ClearedBy: "a releaser with a changed bundle, or an operator: steady quarantine clear " + channel + " " + bundle}
}

// CheckQueue blocks opening a new ref while its channel's rollout goes on; active
// is empty when none does.
func CheckQueue(pending, active, standing string) *Block {
	if active == "" {
		return nil
	}
	return &Block{Code: Queue, Words: "rollout " + pending + " is queued behind " + active + ", which is " + standing,
		WaitsFor: "rollout " + active + " to end", ClearedBy: "the hosts of " + active + " as they converge, or an operator: steady rollout cancel " + active}
}

// Predecessor is a channel that must be at rest first.
type Predecessor struct {
	Channel string
	// Rollout is its rollout that is not finished; empty when there is none.
	Rollout string
	Phase   string
	Reason  string // declared reason of the edge
	Halted  bool
	// Reverted says that its rollout went back and no fix has converged since.
	Reverted bool
}

// CheckChannelEdges blocks opening a rollout while a predecessor channel has one
// that is not finished. A channel without history is open.
func CheckChannelEdges(channel string, before []Predecessor) *Block {
	for _, p := range before {
		if p.Rollout == "" {
			continue
		}
		who := "the hosts of channel " + p.Channel + " as they converge"
		if p.Halted {
			who = "an operator: steady rollout resume or cancel " + p.Rollout + ", or a releaser with a fixed release of channel " + p.Channel
		}
		if p.Reverted {
			who = "a releaser with a fixed release of channel " + p.Channel + ", or an operator: steady rollout cancel " + p.Rollout
		}
		return &Block{Code: ChannelEdge, Detail: p.Channel,
			Words:    fmt.Sprintf("channel %s waits for channel %s (%s): rollout %s is %s", channel, p.Channel, p.Reason, p.Rollout, p.Phase),
			WaitsFor: "channel " + p.Channel + " to converge", ClearedBy: who}
	}
	return nil
}

// CheckWave blocks a host whose wave is not open yet.
func CheckWave(rollout string, wave int, waveName string, cursor int, cursorName string) *Block {
	if wave <= cursor {
		return nil
	}
	return &Block{Code: Wave, Words: fmt.Sprintf("the host is in wave %s; rollout %s is at wave %s", waveName, rollout, cursorName),
		WaitsFor: "wave " + cursorName + " to be promoted", ClearedBy: "the hosts of wave " + cursorName + " as they converge"}
}

// CheckPresence blocks a host that the server cannot reach.
func CheckPresence(host string, online bool) *Block {
	if online {
		return nil
	}
	return &Block{Code: Presence, Words: "host " + host + " is offline or not enrolled",
		WaitsFor: "the host to connect", ClearedBy: "whoever runs the host: start its agent, or steady token create " + host}
}

// CheckHostEdges blocks a host while one of its predecessors has not converged.
func CheckHostEdges(host string, unmet []string) *Block {
	if len(unmet) == 0 {
		return nil
	}
	return &Block{Code: HostEdge, Words: fmt.Sprintf("host %s goes after %s", host, strings.Join(unmet, ", ")),
		WaitsFor: strings.Join(unmet, ", ") + " to converge", ClearedBy: "those hosts as they converge"}
}

// Use is how full a budget is.
type Use struct {
	Selector string
	Max      int
	InFlight int
}

// CheckBudgets blocks a host when any budget that it belongs to is full.
func CheckBudgets(uses []Use) *Block {
	for _, u := range uses {
		if u.InFlight >= u.Max {
			return &Block{Code: Budget, Words: fmt.Sprintf("%d of at most %d hosts of budget %s are in flight", u.InFlight, u.Max, u.Selector),
				WaitsFor: "one of them to converge or revert", ClearedBy: "those hosts as they finish, or a release with a larger budget"}
		}
	}
	return nil
}

// CheckBackoff blocks a host that declined a grant until it is asked again.
func CheckBackoff(until clock.Instant, code, detail string, now clock.Instant) *Block {
	if until == 0 || until.Reached(now) {
		return nil
	}
	return &Block{Code: Backoff, Detail: code, Words: "the host declined the last grant: " + code + ": " + detail,
		WaitsFor: "the next attempt", ClearedBy: "time, once the cause is mended on the host", Earliest: until}
}

// Evidence is what a wave has to show for its promotion.
type Evidence struct {
	Wave      string
	Hosts     int // members of the wave
	AtTarget  int // had nothing to change
	Converged int
	InFlight  int // offered, claimed, or failed and still on the way back
	Ready     int // waiting and online
	Offline   int // waiting and never claimed: skipped
	MinSoaked int
}

// Needed is how many converged hosts the wave needs: max(1, MinSoaked), but no
// more than had anything to change. A wave in which nothing changes needs none.
func (e Evidence) Needed() int { return min(max(1, e.MinSoaked), e.Hosts-e.AtTarget) }

// CheckPromotion blocks the next wave until this one is proven: nobody on the
// way, nobody left to start, and enough hosts that really converged. Silence is
// no evidence.
func CheckPromotion(e Evidence) *Block {
	switch {
	case e.InFlight > 0:
		return &Block{Code: Promotion, Detail: "in-flight", Words: fmt.Sprintf("wave %s has %d hosts in flight", e.Wave, e.InFlight),
			WaitsFor: "them to converge, soak included", ClearedBy: "those hosts"}
	case e.Ready > 0:
		return &Block{Code: Promotion, Detail: "waiting", Words: fmt.Sprintf("wave %s has %d hosts waiting for a grant", e.Wave, e.Ready),
			WaitsFor: "their gates to open", ClearedBy: "see steady why for each of them"}
	case e.Converged < e.Needed():
		return &Block{Code: Promotion, Detail: "evidence",
			Words:    fmt.Sprintf("wave %s has %d converged hosts of the %d it needs; %d are offline", e.Wave, e.Converged, e.Needed(), e.Offline),
			WaitsFor: "more hosts of the wave to come online and converge", ClearedBy: "whoever runs those hosts, or an operator: steady rollout cancel"}
	}
	return nil
}
