// Package model is the planner written a second time, in the plainest way: for
// every tick it reads the whole log from its first event, and finds what is due by
// looping over everything. It keeps nothing from one tick to the next, no counts,
// no sets, no timers. The simulator holds the real planner against it, so that
// what the real one leaves out since it believes that nothing changed is found.
//
// It is written from sections 5.3 to 5.5 of the design. Of the core it shares the
// vocabulary (events, manifests, phases) and host.Step, and calls neither plan nor
// gate.
//
// Where budgets leave a choice between hosts it follows the documented order and
// not merely that the choice is allowed: channels by name; in a channel the newest
// rollout before the last converged one; in a rollout first the hosts that hold a
// slot already, by name, then the others by name, those that have wave, budgets
// and windows in common with an earlier one right after it; reboots after
// activations; repairs last, in the order in which hosts asked.
//
// Which hosts are degraded it takes as reported: package health decides that apart
// from the planner, and the simulator draws it.
//
// Of a decision it says what is done to whom and until when; the words of the
// reason, the name of a grant and how full its budgets are it leaves to others.
package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Documents gives manifests by digest.
type Documents interface {
	Manifest(digest.Digest) (*rollout.Manifest, error)
}

// Entry is one event of the log, decoded.
type Entry struct {
	At    clock.Instant
	Host  string
	Event event.Event
	Input host.Input // of a HostStepped
	// Plan is what the manifest that a HostStepped names says for the host; nil if
	// nothing.
	Plan *fleet.HostPlan
}

// Read decodes what an entry says besides its event.
func Read(docs Documents, e event.Entry, ev event.Event) (Entry, error) {
	out := Entry{At: e.At, Host: e.Host, Event: ev}
	if step, ok := ev.(event.HostStepped); ok {
		in, err := step.Taken()
		if err != nil {
			return Entry{}, err
		}
		out.Input = in
		if m, err := docs.Manifest(step.Manifest); err == nil {
			out.Plan = m.HostPlan(e.Host)
		}
	}
	return out, nil
}

// UnmodelledError says what of a log the model knows nothing of.
type UnmodelledError struct{ Type string }

func (e *UnmodelledError) Error() string { return "the model knows nothing of " + e.Type }

// Decisions says what is due now after a log, in words that Words makes of the
// planner's decisions too, sorted.
func Decisions(docs Documents, log []Entry, now clock.Instant) ([]string, error) {
	f, err := read(docs, log)
	if err != nil {
		return nil, err
	}
	d := &decider{facts: f, now: now}
	d.tick()
	slices.Sort(d.words)
	return d.words, d.err
}

// Prunable says which rollouts an operator's request to forget ended ones takes,
// if the last keep of a channel and what ended after an age ago stay.
func Prunable(docs Documents, log []Entry, keep int, age clock.Duration, now clock.Instant) ([]string, error) {
	f, err := read(docs, log)
	if err != nil {
		return nil, err
	}
	words := f.prunable(keep, age, now)
	slices.Sort(words)
	return words, nil
}

// Compare returns what only one of two lists of decisions holds, or nothing.
func Compare(planned, due []string) string {
	slices.Sort(planned)
	if slices.Equal(planned, due) {
		return ""
	}
	return fmt.Sprintf("the planner decides [%s], the model [%s]", strings.Join(without(planned, due), "; "), strings.Join(without(due, planned), "; "))
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

// Words names a decision.
func Words(name string, ev event.Event) string {
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
	case event.GlassBroken:
		return fmt.Sprintf("open the waves of %s up to %d", ev.Manifest, ev.Wave)
	case event.WaveHeld:
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
