package plan_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// decide carries a verb out on a copy of the state.
func (w *world) decide(verb plan.Verb, r *rollout.Rollout) error {
	s, id := w.restored(), string(r.Manifest)
	var err error
	switch verb {
	case plan.Promoting:
		wave := "w0"
		if r.Plan != nil {
			wave = r.Plan.Header.Waves[r.Cursor].Name
		}
		_, err = plan.Promote(s, id, wave, "because", "ada", w.now)
	case plan.Retrying:
		_, err = plan.Retry(s, id, "because", "ada", w.now)
	case plan.RollingBack:
		word := w.word(fleet.OverrideRollback, r.Manifest)
		word.Version++ // after any other that was signed at this instant
		_, err = plan.Override(s, word, "ada", w.now)
	default:
		_, err = plan.Operate(s, verb, id, "because", "ada", w.now)
	}
	return err
}

// TestS18VerbsThatAreOfferedAreAccepted: what is said to be possible of a rollout in any state is decided,
// and what is not is refused in the same words.
func TestS18VerbsThatAreOfferedAreAccepted(t *testing.T) {
	seen := map[plan.VerbState]int{}
	rapid.Check(t, func(t *rapid.T) {
		w, home := newRandomWorld(t)
		w.other = true
		acts := actions(w, home)
		live := acts[""]
		acts[""] = func(t *rapid.T) {
			if live(t); len(w.s.Order) == 0 || rapid.IntRange(0, 3).Draw(t, "look") > 0 {
				return
			}
			r := someRollout(t, w)
			for _, v := range plan.VerbsOf(w.s, r, w.now) {
				err := w.decide(v.Verb, r)
				if v.Possible != (err == nil) || err != nil && err.Error() != v.Message {
					t.Fatalf("%s of %s, which is %s: possible %t (%s), and deciding on it comes to %v\n%s", v.Verb, r.Name, plan.Status(r), v.Possible, v.Message, err, w.tail())
				}
				seen[plan.VerbState{Verb: v.Verb, Possible: v.Possible}]++
			}
		}
		t.Repeat(acts)
	})
	for _, verb := range plan.Verbs {
		for _, possible := range []bool{true, false} {
			if seen[plan.VerbState{Verb: verb, Possible: possible}] == 0 {
				t.Errorf("no world in which %s is possible: %t", verb, possible)
			}
		}
	}
	t.Log(seen)
}
