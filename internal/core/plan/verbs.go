package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// The verbs that carry more than a reason: a wave, what is to be mended first, a signature.
const (
	Promoting   Verb = "promote"
	Retrying    Verb = "retry"
	RollingBack Verb = "rollback"
)

// Verbs lists what an operator may do to a rollout.
var Verbs = []Verb{Pause, Resume, Promoting, Retrying, Cancel, RollingBack}

// VerbState reports whether a verb can be carried out on a rollout now.
type VerbState struct {
	Verb     Verb `json:"verb"`
	Possible bool `json:"possible"`
	// Message reports why it is not possible, and what is.
	Message string `json:"message,omitempty"`
}

// VerbsOf reports for every verb whether it can be carried out on a rollout now: what decides on the verb
// asks the same.
func VerbsOf(s *State, r *rollout.Rollout, now clock.Instant) []VerbState {
	out := make([]VerbState, 0, len(Verbs))
	for _, verb := range Verbs {
		v := VerbState{Verb: verb, Possible: true}
		if err := s.may(verb, r, now); err != nil {
			v.Possible, v.Message = false, err.Error()
		}
		out = append(out, v)
	}
	return out
}

// may reports why an operator's verb is not carried out on a rollout, if it is not. Promoting is of the
// open wave.
func (s *State) may(verb Verb, r *rollout.Rollout, now clock.Instant) error {
	switch verb {
	case Pause:
		if r.Phase.Ended() || r.Paused {
			return verbErrorf("rollout %s is %s already", r.Name, Status(r))
		}
	case Resume:
		if t := s.Overrides.Paused(r.Manifest); t != nil {
			return needsSignature("rollout "+r.Name, t, "steady rollout resume "+r.Name+" --sign KEYS")
		}
		return s.mayResume(r)
	case Cancel:
		if r.Final || r.Phase.Ended() && r.Phase != rollout.Failed && r.Phase != rollout.Reverted {
			return verbErrorf("rollout %s is %s; there is nothing to cancel", r.Name, Status(r))
		}
	case Promoting:
		return s.mayPromote(r, openWave(r), now)
	case Retrying:
		if t := s.Overrides.Restrictions("", r.Manifest); t != nil {
			return needsSignature("rollout "+r.Name, t, "steady rollout retry "+r.Name+" --sign KEYS")
		}
		return s.mayRetryUnsigned(r)
	case RollingBack:
		return s.mayRollBack(r)
	default:
		return verbErrorf("unknown verb %q", verb)
	}
	return nil
}

// openWave names the wave at the cursor; empty where the waves are not kept any more.
func openWave(r *rollout.Rollout) string {
	if r.Plan == nil {
		return ""
	}
	return r.Plan.Header.Waves[r.Cursor].Name
}

// mayRollBack reports why a rollout is not sent back on a signed word, if it is not.
func (s *State) mayRollBack(r *rollout.Rollout) error {
	switch {
	case r.Phase == rollout.Terminal:
		return verbErrorf("rollout %s has ended; its hosts go back by a release that names the old bundles: steady release rollback", r.Name)
	case s.Channels[r.Channel].Latest != r.Manifest || r.Phase == rollout.Superseded || r.Phase == rollout.Pruned:
		return verbErrorf("rollout %s was followed by another; roll that one back, or release the old bundles: steady release rollback", r.Name)
	}
	return nil
}
