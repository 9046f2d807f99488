package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/prose"
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
		return nil, unknownErrorf("there is no rollout %q; steady rollout list shows them", id)
	}
	if err := s.mayPromote(r, wave, now); err != nil {
		return nil, err
	}
	d := &decider{s: s, now: now}
	d.force(r, s.forcing(r, reason, actor, "", now))
	return d.entries, d.err
}

// mayPromote says why an operator's word does not let a wave pass, if it does not.
func (s *State) mayPromote(r *rollout.Rollout, wave string, now clock.Instant) error {
	if r.Phase.Ended() || r.Reverting || r.Paused || r.Plan == nil {
		return verbErrorf("rollout %s is %s; only one that goes on has a wave to promote", r.Name, Status(r))
	}
	if b := s.overlay(r); b != nil {
		return verbErrorf("%s; %s", b.Message, b.ClearedBy)
	}
	if at := r.Plan.Header.Waves[r.Cursor].Name; at != wave {
		return verbErrorf("rollout %s is at wave %s, not %s", r.Name, at, wave)
	}
	if w := r.Excess(); w >= 0 {
		return verbErrorf("wave %s of %s has more failed hosts than the policy allows (%d)",
			r.Plan.Header.Waves[w].Name, r.Name, r.Plan.Header.Policy.MaxFailures)
	}
	e := s.proof(r)
	if n := e.InFlight; n > 0 {
		until := "until they converge or fail"
		s.timeEvidence(&e, r, now)
		if at := e.Finishes; at != 0 {
			until = "until " + prose.Date(at) + " at the most, when those without contact are given up"
		}
		return verbErrorf("%s of %s %s in flight up to wave %s; wait %s, steady rollout show lists them", prose.Count(n, "host"), r.Name, prose.Verb(n, "is", "are"), wave, until)
	}
	if s.promotion(r, now) == nil {
		return verbErrorf("nothing blocks wave %s of %s; it is promoted without help", wave, r.Name)
	}
	return nil
}

// forcing is the event of letting the held wave pass; it names all that held it.
func (s *State) forcing(r *rollout.Rollout, reason, actor string, word digest.Digest, now clock.Instant) event.WaveForced {
	n := &r.Waves[r.Cursor]
	ev := event.WaveForced{Rollout: r.Name, Manifest: r.Manifest, Wave: r.Cursor, WaveName: r.Plan.Header.Waves[r.Cursor].Name, Evidence: n.Evidence(), AtTarget: n.By[rollout.AtTarget],
		Failed: n.Failures, Skipped: n.Skipped(), Waiting: n.Ready(), Reason: reason, Actor: actor, Override: word}
	for _, b := range gate.All(s.rolloutFacts(gate.ToPromote, r, now), gate.ToPromote) {
		ev.Blocks = append(ev.Blocks, b.Message)
	}
	for _, f := range s.outstandingBefore(r, r.Cursor+1) {
		ev.Outstanding = append(ev.Outstanding, f.Host)
		ev.Failing = append(ev.Failing, event.FailingEvidence{Host: f.Host, Controls: f.Controls})
	}
	return ev
}

// force lets the held wave pass; after the last one the rollout ends.
func (d *decider) force(r *rollout.Rollout, ev event.WaveForced) {
	last := r.Cursor >= len(r.Waves)-1
	d.add("", ev)
	if last {
		reason := "promoted by hand: " + ev.Reason
		if left := r.LeftBehind(); left != "" {
			reason += "; " + left
		}
		d.add("", event.RolloutMoved{Rollout: r.Name, Manifest: r.Manifest, From: string(r.Phase), To: string(rollout.Terminal), Reason: reason, Actor: ev.Actor})
	}
}

// forceSigned lets a held wave pass that a signed override promotes,
// of a rollout that opened after it: the log of the server that took it may be
// gone. Hosts that could still be granted go first.
func (p *planner) forceSigned(r *rollout.Rollout) bool {
	wave := r.Plan.Header.Waves[r.Cursor].Name
	t := p.s.Overrides.Promoted(r.Manifest, wave)
	if t == nil || r.Forced(r.Cursor) != nil || p.s.mayPromote(r, wave, p.now) != nil || p.s.proof(r).Ready > 0 {
		return false
	}
	ev := p.s.forcing(r, t.Reason, bySignature("", t), t.Digest, p.now)
	p.force(r, ev)
	return true
}

// foldForced opens the next wave, if there is one.
func (s *State) foldForced(r *rollout.Rollout, ev event.WaveForced) {
	r.SetBlocked("", 0)
	r.Accepted = append(r.Accepted, rollout.Accepted{Wave: ev.Wave, Failing: ev.Failing, Reason: ev.Reason, Actor: ev.Actor})
	if ev.Wave+1 < len(r.Plan.Header.Waves) {
		r.Cursor = ev.Wave + 1
	}
}
