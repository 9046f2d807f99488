// Package gate holds the rules that may keep a host or a rollout back. Each is
// a pure function that returns nil or a Block, and a Block always says what it
// waits for, who can clear it and, where time can, when.
package gate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Code names the gate that blocks; part of the API.
type Code string

// The codes, in the order in which the gates are asked.
const (
	Freshness   Code = "freshness"
	Overlay     Code = "overlay" // paused, halted, reverting or ended
	Freeze      Code = "freeze"
	Occupied    Code = "occupied" // a session has the host
	Quarantine  Code = "quarantine"
	Window      Code = "window" // a maintenance window is closed
	Queue       Code = "queue"  // a newer ref waits for the active rollout
	ChannelEdge Code = "channel-edge"
	Wave        Code = "wave"
	Canary      Code = "canary" // nobody of the rollout has converged yet
	Presence    Code = "presence"
	HostEdge    Code = "host-edge"
	Budget      Code = "budget"
	Compliance  Code = "compliance" // required controls or evidence fail
	Backoff     Code = "backoff"
	Promotion   Code = "promotion"
	Forecast    Code = "forecast" // a forecast ends here; nothing holds
)

// CheckFreshness blocks when the newest freshness statement is older than the
// channel allows: the server may be replaying old intent.
func CheckFreshness(channel string, issuedAt clock.Instant, window clock.Duration, now clock.Instant) *Block {
	if issuedAt != 0 && now.Sub(issuedAt) <= window {
		return nil
	}
	h := block(Freshness, "").because("no signed timestamp was ever accepted")
	if issuedAt != 0 {
		h = block(Freshness, "").because("the signed timestamp is %s old, and channel %s accepts none older than %s", prose.Span(now.Sub(issuedAt)), channel, window)
	}
	return h.until("a newer signed timestamp", never).by("the holder of the timestamp key: steady release refresh, then steady release push", command("release refresh"), release())
}

// RolloutStatus is what the overlay gate reads of a rollout.
type RolloutStatus struct {
	Rollout   string
	Phase     string
	Paused    bool
	Reason    string // of the pause or of the halt
	Halted    bool
	Blocked   bool // by required static controls: nobody can resume it
	Reverting bool
	Ended     bool
	Outdated  bool // signed in a key epoch that has ended: hosts refuse it
}

// CheckOverlay blocks new grants of a rollout that is paused, halted, on its way
// back or over.
func CheckOverlay(s RolloutStatus) *Block {
	switch {
	case s.Reverting && s.Ended:
		return block(Overlay, "reverting").says("rollout "+s.Rollout+" was reverted: "+s.Reason).
			until("a release that replaces it, or a retry", never).
			by("a releaser: build, sign and push a fixed release; or an operator, if the cause was outside of it: steady rollout retry "+s.Rollout, release(), retry(s.Rollout))
	case s.Reverting:
		return block(Overlay, "reverting").says("rollout "+s.Rollout+" is being reverted: "+s.Reason).
			until("a release that replaces it", never).by("a releaser: build, sign and push a fixed release", release())
	case s.Outdated:
		return block(Overlay, "outdated").says("rollout "+s.Rollout+" was signed in a key epoch that has ended, and no host accepts it").
			until("a release of the new key epoch", never).by("a releaser: build, sign and push a release", release())
	case s.Halted && s.Blocked:
		return block(Overlay, "blocked").says("rollout "+s.Rollout+" is halted: "+s.Reason).
			until("a release that passes its controls", never).by("a releaser: build, sign and push a release that passes", release())
	case s.Halted:
		return block(Overlay, "halted").says("rollout "+s.Rollout+" is halted: "+s.Reason).
			until("an operator's decision", never).by("an operator: steady rollout resume or cancel "+s.Rollout, steer("resume", s.Rollout), steer("cancel", s.Rollout))
	case s.Ended:
		return block(Overlay, "ended").says("rollout "+s.Rollout+" has ended: it is "+s.Phase).
			until("a new release", never).by("a releaser: steady release push", release())
	case s.Paused:
		return block(Overlay, "paused").says("rollout "+s.Rollout+" is paused: "+s.Reason).
			until("the pause to end", never).by("an operator: steady rollout resume "+s.Rollout, steer("resume", s.Rollout))
	}
	return nil
}

// CheckFreeze blocks a host that an operator froze until an instant; zero is not
// frozen.
func CheckFreeze(f Facts, explain bool) *Block {
	host, until, reason, now := f.Freeze()
	if closed := until > now; !closed || !explain {
		return unexplained(closed)
	}
	return block(Freeze, "").because("host %s is frozen until %s: %s", host, prose.Date(until), reason).
		until("the freeze to end", until).by("time, or an operator: steady host unfreeze "+host, onHost("unfreeze", host))
}

// CheckQuarantine blocks a bundle that failed on this channel; reason is empty
// when it did not.
func CheckQuarantine(f Facts, explain bool) *Block {
	channel, bundle, reason, own := f.Quarantine()
	if closed := reason != ""; !closed || !explain {
		return unexplained(closed)
	}
	b := block(Quarantine, "").says("bundle "+bundle+" is quarantined on channel "+channel+": "+reason).
		until("another bundle, or the quarantine to be cleared", never)
	if own != "" {
		return b.by("a releaser with a changed bundle, or whoever has the override key: steady rollout retry "+own+" --sign KEYS", release(), command("rollout retry "+own+" --sign KEYS"))
	}
	return b.by("a releaser with a changed bundle, or an operator: steady quarantine clear "+channel+" "+bundle, release(),
		Remedy{Operation: "clear-quarantine", Args: []string{channel, bundle}, Command: "steady quarantine clear " + channel + " " + bundle})
}

// CheckQueue blocks opening a new ref while its channel's rollout goes on; active
// is empty when none does. Earliest is when time can bring that one on.
func CheckQueue(pending, active, standing string, earliest clock.Instant) *Block {
	if active == "" {
		return nil
	}
	return block(Queue, "").says("rollout "+pending+" is queued behind "+active+", which is "+standing).
		until("rollout "+active+" to end", earliest).
		by("the hosts of "+active+" as they converge, or an operator: steady rollout cancel "+active, steer("cancel", active))
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
	// Earliest is when time can bring its rollout on; zero when it cannot.
	Earliest clock.Instant
}

// CheckChannelEdges blocks opening a rollout while a predecessor channel has one
// that is not finished. A channel without history is open.
func CheckChannelEdges(channel string, before []Predecessor) *Block {
	for _, p := range before {
		if p.Rollout == "" {
			continue
		}
		who, remedies := "the hosts of channel "+p.Channel+" as they converge", []Remedy(nil)
		if p.Halted {
			who = "an operator: steady rollout resume or cancel " + p.Rollout + ", or a releaser with a fixed release of channel " + p.Channel
			remedies = []Remedy{steer("resume", p.Rollout), steer("cancel", p.Rollout), release()}
		}
		if p.Reverted {
			who = "a releaser with a fixed release of channel " + p.Channel + ", or an operator: steady rollout cancel " + p.Rollout
			remedies = []Remedy{release(), steer("cancel", p.Rollout)}
		}
		return block(ChannelEdge, p.Channel).
			says("channel "+channel+" waits for channel "+p.Channel+" ("+p.Reason+"): rollout "+p.Rollout+" is "+p.Phase).
			until("channel "+p.Channel+" to converge", p.Earliest).by(who, remedies...)
	}
	return nil
}

// CheckWave blocks a host whose wave is not open yet. Earliest is when time can
// promote the wave at the cursor.
func CheckWave(f Facts, explain bool) *Block {
	rollout, wave, waveName, cursor, cursorName, earliest := f.Wave()
	if closed := wave > cursor; !closed || !explain {
		return unexplained(closed)
	}
	return block(Wave, "").says("the host is in wave "+waveName+"; rollout "+rollout+" is at wave "+cursorName).
		until("wave "+cursorName+" to be promoted", earliest).
		by("the hosts of wave "+cursorName+" as they converge, or an operator: steady rollout promote "+rollout, promote(rollout, cursorName))
}

// CheckCanary blocks another host of a rollout while as many were tried as its
// signed policy allows and none has converged; most is zero for no bound. Earliest
// is when time can bring one of them there.
func CheckCanary(f Facts, explain bool) *Block {
	rollout, tried, most, earliest := f.Canary()
	if closed := most != 0 && tried >= most; !closed || !explain {
		return unexplained(closed)
	}
	return block(Canary, "").says(strconv.Itoa(tried)+" of at most "+strconv.Itoa(most)+" canaries of rollout "+rollout+" were tried and none has converged yet").
		until("one of them to converge", earliest).
		by("those hosts as they converge, a releaser with a fixed release, or two operators: steady override sign --action break-glass",
			release(), command("override sign --action break-glass"))
}

// CheckHostEdges blocks a host while one of its predecessors has not converged.
// Earliest is when time can bring the last of them there.
func CheckHostEdges(f Facts, explain bool) *Block {
	host, unmet, absent, earliest := f.HostEdges()
	if closed := len(unmet) > 0; !closed || !explain {
		return unexplained(closed)
	}
	before := strings.Join(unmet, ", ")
	says, by, remedies := "host "+host+" goes after "+before, "those hosts as they converge", []Remedy(nil)
	if len(absent) > 0 {
		who := strings.Join(absent, ", ")
		says, by = says+", and no agent is enrolled as "+who, "whoever runs "+who+": enrol it; or a release in which "+host+" does not go after it"
		for _, name := range absent {
			remedies = append(remedies, enrol(name))
		}
		remedies = append(remedies, release())
	}
	return block(HostEdge, "").says(says).until(before+" to converge", earliest).by(by, remedies...)
}

// Use is how full a budget is.
type Use struct {
	Selector string
	Max      int
	InFlight int
	// Earliest is when time can free a slot of it; zero when it cannot.
	Earliest clock.Instant
}

// Full reports whether no slot is left.
func (u Use) Full() bool { return u.InFlight >= u.Max }

// CheckBudgets blocks a host when any budget that it belongs to is full.
func CheckBudgets(uses []Use, explain bool) *Block {
	i := slices.IndexFunc(uses, Use.Full)
	if closed := i >= 0; !closed || !explain {
		return unexplained(closed)
	}
	u := &uses[i]
	return block(Budget, u.Selector).says(strconv.Itoa(u.InFlight)+" of at most "+strconv.Itoa(u.Max)+" hosts of budget "+u.Selector+" are in flight").
		until("one of them to converge or revert", u.Earliest).by("those hosts as they finish, or a release with a larger budget", release())
}

// CheckBackoff blocks a host that declined a grant until it is asked again.
func CheckBackoff(f Facts, explain bool) *Block {
	until, last, now := f.Backoff()
	if closed := until > now; !closed || !explain {
		return unexplained(closed)
	}
	return block(Backoff, last.Code).says("the host "+last.Message()).
		until("the next attempt", until).by("time, once the cause is mended on the host")
}

// Untaken is the last of the offers that a host did not take: why it declined that, or let it
// expire. Given says how many those were in a row if nobody waits for the host any more.
type Untaken struct {
	Code, Detail string
	Given        int
}

// Message tells it as a predicate of the host.
func (u Untaken) Message() string {
	words := "let its last offer expire"
	switch u.Code {
	case "":
	case host.DeclinePrepare:
		words = "could not prepare: " + prose.Reason(u.Detail)
	default:
		words = "declined its last offer: " + prose.Reason(u.Code+": "+u.Detail)
	}
	if u.Given > 0 {
		words = Unwilling(u.Given) + ", and " + words
	}
	return words
}

// Unwilling says of a host that nobody waits for it.
func Unwilling(offers int) string {
	return fmt.Sprintf("did not take %d offers in a row, so that nobody waits for it", offers)
}

// CheckSuperseded blocks a claim of a repair or a reboot on a host that went on in a
// rollout since, which is empty when it did not.
func CheckSuperseded(host, rollout string) *Block {
	if rollout == "" {
		return nil
	}
	return block(Overlay, "superseded").because("host %s went on in %s", host, rollout).
		until("the host to report what is left to do there", never).by("the host itself")
}

// BeyondForecast is what a forecast says of a rollout that goes on after its end.
func BeyondForecast() *Block {
	return block(Forecast, "").because("it goes on: the forecast ends here").
		until("a later --until", never).by("whoever asks for a longer forecast")
}
