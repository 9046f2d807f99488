// Package oracle is the executable specification of rollouts: which facts a log
// states, and what may and must be decided on them, written from docs/rollouts.md and
// docs/invariants.md in the plainest way. It loops over everything and keeps no counts,
// sets or timers that could be wrong.
//
// Two judges read it. Package audit holds every event of a log against the rules that
// the event has to keep; the simulator holds the decisions of each tick against
// Decisions, so that what the planner leaves undone is found as well. Judge and judged
// share no decision: of the core the package uses the vocabulary (events, manifests,
// phases, windows of time) and neither plan nor gate, and it follows a host by its
// reports alone, without host.Step. internal/lint holds it to that.
//
// Where budgets leave a choice between hosts Decisions follows the documented order:
// channels by name; in a channel the newest rollout before the last converged one; in a
// rollout first the hosts that have a slot already, by name, then the others by name,
// those that have wave, budgets and windows in common with an earlier one right after
// it; reboots after activations; repairs last, in the order in which hosts asked.
//
// Which hosts are degraded it takes as reported: package health decides that.
package oracle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Documents gives manifests by digest.
type Documents interface {
	Manifest(digest.Digest) (*rollout.Manifest, error)
}

// Decisions lists what is due after the facts at an instant, as Describe puts the
// planner's decisions too, sorted. The facts are used up by it.
func Decisions(f *Facts, now clock.Instant) ([]string, error) {
	d := &decider{Facts: f, now: now}
	d.tick()
	slices.Sort(d.made)
	return d.made, d.err
}

// Prunable lists which rollouts go when an operator asks to forget ended ones, if the
// last keep of a channel stay, and of the last most what ended less than age ago; a most
// of zero is all of them.
func Prunable(f *Facts, keep, most int, age clock.Duration, now clock.Instant) []string {
	var out []string
	for i, r := range f.Rollouts {
		c, newer := f.Channel(r.Channel), 0
		for _, other := range f.Rollouts[i+1:] {
			if other.Channel == r.Channel {
				newer++
			}
		}
		if newer < keep || r == c.Active || r == c.Latest || r == c.Converged || !rollout.Legal(r.Phase, rollout.Pruned) || f.Used(r.Manifest.Digest) != nil {
			continue
		}
		if r.EndedAt.Add(age) <= now || most != 0 && newer >= most {
			out = append(out, Describe("", event.RolloutPruned{Manifest: r.Manifest.Digest, Phase: string(r.Phase)}))
		}
	}
	slices.Sort(out)
	return out
}

// Compare returns what only one of two lists of decisions holds, or nothing.
func Compare(planned, due []string) string {
	slices.Sort(planned)
	if slices.Equal(planned, due) {
		return ""
	}
	return fmt.Sprintf("the planner decides [%s], the specification [%s]", strings.Join(without(planned, due), "; "), strings.Join(without(due, planned), "; "))
}

func without(list, other []string) []string {
	var out []string
	left := slices.Clone(other)
	for _, w := range list {
		if i := slices.Index(left, w); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		out = append(out, w)
	}
	return out
}

// Describe puts a decision as a line: what is done, to whom and until when. The reason,
// the name of a grant and how full its budgets are do not count.
func Describe(name string, ev event.Event) string {
	switch ev := ev.(type) {
	case event.RolloutOpened:
		return fmt.Sprintf("open %s of %s", ev.Manifest, ev.Channel)
	case event.RolloutQueued:
		return fmt.Sprintf("queue %s of %s, dropping %q", ev.Manifest, ev.Channel, ev.Dropped)
	case event.RolloutDeferred:
		return fmt.Sprintf("defer %s of %s for %s: %s", ev.TargetRef, ev.Channel, ev.BlockedBy, ev.Reason)
	case event.RolloutMoved:
		return fmt.Sprintf("move %s from %s to %s, final %v", ev.Manifest, ev.From, ev.To, ev.Final)
	case event.RolloutReverting:
		return fmt.Sprintf("revert %s for wave %d", ev.Manifest, ev.Wave)
	case event.WavePromoted:
		return fmt.Sprintf("promote wave %d of %s: %d converged, %d at target, %d failed, %d skipped, %d absent",
			ev.Wave, ev.Manifest, ev.Evidence, ev.AtTarget, ev.Failed, ev.Skipped, ev.Absent)
	case event.WaveForced:
		return fmt.Sprintf("force wave %d of %s: %d converged, %d at target, %d failed, %d skipped, %d waiting, past %v",
			ev.Wave, ev.Manifest, ev.Evidence, ev.AtTarget, ev.Failed, ev.Skipped, ev.Waiting, ev.Failing)
	case event.BreakGlassUsed:
		return fmt.Sprintf("open the waves of %s up to %d", ev.Manifest, ev.Wave)
	case event.WaveBlocked:
		return fmt.Sprintf("hold wave %d of %s: %s", ev.Wave, ev.Manifest, ev.Code)
	case event.Granted:
		return fmt.Sprintf("grant %s %s %s of %s in wave %d until %d", name, ev.Purpose, ev.Target, ev.Manifest, ev.Wave, ev.Expires)
	case event.GrantEnded:
		return fmt.Sprintf("end the grant of %s, not before %d", name, ev.NotBefore)
	case event.HostFailedSilently:
		return fmt.Sprintf("fail %s in %s under %q by %d, there %v", name, ev.Manifest, ev.Grant, ev.Deadline, ev.Overdue)
	case event.HostSlotFreed:
		return "free the slot of " + name
	case event.QuarantineAdded:
		return fmt.Sprintf("quarantine %s on %s after %s", ev.Digest, ev.Channel, ev.Rollout)
	case event.HostUnfrozen:
		return "unfreeze " + name
	case event.RolloutPruned:
		return fmt.Sprintf("prune %s, which is %s", ev.Manifest, ev.Phase)
	}
	return fmt.Sprintf("%s of %s: %+v", ev.EventType(), name, ev)
}
