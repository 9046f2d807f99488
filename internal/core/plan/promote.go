package plan

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Promote lets the held wave of a rollout pass on an operator's word: missing
// evidence, hosts that wait and holds of other gates are accepted, and the event
// names them. Hosts in flight and failures above the policy's limit are not. Wave
// names the wave that is meant, since the one at the cursor may have passed in
// between; the last wave ends the rollout, and its waiting hosts are served
// after it.
func Promote(s *State, id, wave, reason, actor string, now clock.Instant) ([]event.Entry, error) {
	r := s.Find(id)
	if r == nil {
		return nil, verbErrorf("there is no rollout %q; steady rollout list shows them", id)
	}
	if r.Phase.Ended() || r.Reverting || r.Paused || r.Plan == nil {
		return nil, verbErrorf("rollout %s is %s; only one that goes on has a wave to promote", r.Name, standing(r))
	}
	if b := s.overlay(r); b != nil {
		return nil, verbErrorf("%s; %s", b.Words, b.ClearedBy)
	}
	if at := r.Plan.Header.Waves[r.Cursor].Name; at != wave {
		return nil, verbErrorf("rollout %s is at wave %s, not %s", r.Name, at, wave)
	}
	if w := r.Excess(); w >= 0 {
		return nil, verbErrorf("wave %s of %s has more failed hosts than the policy allows (%d)",
			r.Plan.Header.Waves[w].Name, r.Name, r.Plan.Header.Policy.MaxFailures)
	}
	e := s.proof(r)
	if e.InFlight > 0 {
		return nil, verbErrorf("%d hosts of %s are in flight up to wave %s; wait until they converge or fail, steady rollout show lists them", e.InFlight, r.Name, wave)
	}
	b := s.promotion(r)
	if b == nil {
		return nil, verbErrorf("nothing holds wave %s of %s; it is promoted by itself", wave, r.Name)
	}
	n := &r.Waves[r.Cursor]
	d := &decider{s: s, now: now}
	ev := event.WaveForced{Rollout: r.Name, Manifest: r.Manifest, Wave: r.Cursor, Evidence: n.By[rollout.Converged], AtTarget: n.By[rollout.AtTarget],
		Failed: n.Failures, Skipped: n.Offline, Waiting: n.Ready(), Held: []string{b.Words}, Reason: reason, Actor: actor}
	more := gate.CheckPromotions(e)
	if failing := s.outstandingBefore(r, r.Cursor+1); len(failing) > 0 {
		more = append(more, gate.CheckEvidence(r.Name, failing))
		for _, f := range failing {
			ev.Outstanding = append(ev.Outstanding, f.Host)
			ev.Failing = append(ev.Failing, event.FailingEvidence{Host: f.Host, Controls: f.Controls})
		}
	}
	for _, m := range more {
		if m.Words != b.Words {
			ev.Held = append(ev.Held, m.Words)
		}
	}
	last := r.Cursor >= len(r.Waves)-1
	d.add("", ev)
	if last {
		if left := r.LeftBehind(); left != "" {
			reason += "; " + left
		}
		d.add("", event.RolloutMoved{Rollout: r.Name, Manifest: r.Manifest, From: string(r.Phase), To: string(rollout.Terminal),
			Reason: fmt.Sprintf("promoted by hand: %s", reason), Actor: actor})
	}
	return d.entries, d.err
}

// foldForced opens the next wave, if there is one.
func (s *State) foldForced(r *rollout.Rollout, ev event.WaveForced) {
	r.Held = ""
	r.Accepted = append(r.Accepted, rollout.Accepted{Wave: ev.Wave, Failing: ev.Failing, Reason: ev.Reason, Actor: ev.Actor})
	if ev.Wave+1 < len(r.Plan.Header.Waves) {
		r.Cursor = ev.Wave + 1
	}
}
