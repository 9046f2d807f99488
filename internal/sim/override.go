package sim

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/override"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/trust"
)

// Signed overrides: operators keep the files of what they signed, push them to a
// server, and push them again to one whose log is gone. Hosts keep what they took.

// word makes an override as operators sign it, as many as its action takes, and
// keeps its file.
func (w *World) word(o fleet.Override) override.Taken {
	t := w.draft(o)
	if w.notary != nil {
		w.notary.signed(&t, t.Action.Operators(operators))
	}
	w.words = append(w.words, t)
	return t
}

// draft fills in what every override says.
func (w *World) draft(o fleet.Override) override.Taken {
	w.drafts++
	o.Document = head(fleet.TypeOverride, edition{w.epoch, uint64(w.now)}, w.now)
	o.ID, o.Reason = fmt.Sprintf("o-%d", w.drafts), "drill"
	_, most := o.Action.Life()
	o.NotAfter = w.now.Add(most)
	t := override.Taken{Override: o, Digest: digest.Of([]byte(o.ID))}
	t.Envelope = digest.Of([]byte("envelope of " + o.ID))
	return t
}

// about says of what there is what an operator may sign of it.
func about(a fleet.OverrideAction, r *rollout.Manifest, pick int) fleet.Override {
	o := fleet.Override{Action: a, Channel: r.Header.Channel}
	leaf := &r.Leaves[pick%len(r.Leaves)]
	switch a {
	case fleet.OverrideQuarantine, fleet.OverrideUnquarantine:
		o.Bundle = leaf.Target
		if pick%3 == 0 {
			o.Host = leaf.Host
		}
	case fleet.OverrideFreeze, fleet.OverrideUnfreeze:
	default:
		o.Manifest = r.Digest
	}
	if a == fleet.OverridePromote {
		o.Wave = r.Header.Waves[leaf.Wave].Name
	}
	return o
}

// sign has an operator sign something about a rollout that is there and push it.
func (w *World) sign(pick int) {
	s := w.server
	if s.down {
		return
	}
	r, err := s.pickRollout(pick)
	if err != nil || len(r.Plan.Leaves) == 0 {
		return
	}
	s.hear(w.word(about(drawnActions[pick/7%len(drawnActions)], r.Plan, pick)))
}

// drawnActions are what operators sign about what is there. The others open waves,
// for which there is a time: see aim.
var drawnActions = slices.DeleteFunc(slices.Clone(fleet.OverrideActions), func(a fleet.OverrideAction) bool {
	return a == fleet.OverridePromote || a == fleet.OverrideBreakGlass
})

// hear has a server take a signed word that is pushed to it. Where there are
// signatures it verifies them first.
func (s *server) hear(t override.Taken) {
	if n := s.w.notary; n != nil {
		var o trust.Verified[fleet.Override]
		v, err := s.verifier()
		if err == nil {
			o, err = v.Override(n.words[t.Digest].env, s.now())
		}
		if err != nil {
			s.w.trace("the server refuses override %s (%s): %v", t.ID, t.Action, err)
			return
		}
		t.Override = o.Value()
		s.w.truth.sworn("the server", s.w, &t, n.words[t.Digest].signed)
	}
	s.try(plan.Override(s.state, t, "operator", s.now()))
	s.w.truth.stands(s, &t)
}

// stands checks that a word which holds is in force once it was pushed, or a later one
// on the same matter.
func (tr *truth) stands(s *server, t *override.Taken) {
	if s.down || ends[t.Action] == "" || t.Epoch != s.state.Root.Epoch {
		return
	}
	for _, o := range s.state.Overrides.List() {
		same := o.Channel == t.Channel && o.Manifest == t.Manifest && o.Bundle == t.Bundle && o.Host == t.Host
		if same && (o.Action == t.Action || o.Action == ends[t.Action]) && o.Version >= t.Version {
			return
		}
	}
	s.w.violate("S18", "override %s (%s) was pushed, and neither it nor a later one is in force", t.ID, t.Action)
}

// remind pushes every file again, in any order.
func (w *World) remind() {
	for _, i := range w.rand.Perm(len(w.words)) {
		if s := w.server; !s.down {
			s.hear(w.words[i])
		}
	}
}

// ends says what ends the words that hold and can be ended.
var ends = map[fleet.OverrideAction]fleet.OverrideAction{fleet.OverridePause: fleet.OverrideResume,
	fleet.OverrideQuarantine: fleet.OverrideUnquarantine, fleet.OverrideFreeze: fleet.OverrideUnfreeze}

// loosen ends by signature what a signature holds and can be ended.
func (s *server) loosen() {
	for _, t := range s.state.Overrides.List() {
		if a := ends[t.Action]; a != "" && !s.down {
			s.hear(s.w.word(fleet.Override{Action: a, Channel: t.Channel, Manifest: t.Manifest, Bundle: t.Bundle, Host: t.Host}))
		}
	}
}

// words lists the overrides in force, for hosts.
func (s *server) words() []override.Taken {
	if len(s.state.Overrides.Newest) == 0 {
		return nil
	}
	return s.state.Overrides.List()
}

func nameOf(list []override.Taken) digest.Digest {
	var all []byte
	for i := range list {
		all = append(all, list[i].Digest...)
	}
	return digest.Of(all)
}

// learn has a host take the overrides that a server shows, if they are others than
// it took last. A server that lies leaves some out and makes others up.
func (a *agent) learn(list []override.Taken) {
	epoch := a.keyEpoch()
	news := epoch > 1 && epoch != a.heardIn // the words of before have ended
	if !a.up || len(list) == 0 && !news {
		return
	}
	name := nameOf(list)
	if a.heard == name && !news {
		return
	}
	var words []override.Taken
	for _, t := range list {
		lied := a.w.faulty(Lies, 0.2)
		if a.follower == nil {
			if !lied && t.Epoch == epoch {
				words = append(words, t)
			}
			continue
		}
		file := a.w.notary.words[t.Digest]
		if lied {
			file = file.forged(a.w.rand.IntN(2) == 0)
		}
		v, err := a.follower.Override(file.env)
		if err != nil {
			a.refused(err)
			continue
		}
		a.w.truth.sworn(a.name, a.w, &t, file.signed)
		words = append(words, override.Taken{Override: v.Value(), Digest: v.Digest()})
	}
	if len(words) == len(list) {
		a.heard, a.heardIn = name, epoch
	}
	a.turn(func() []host.Effect {
		effects, _ := a.core.Ordered(a.name, epoch, words)
		a.w.truth.hears(a, words)
		return effects
	})
	if news && a.up {
		a.w.truth.outlives(a, epoch)
	}
}

// hears takes down what a host was told, and that it forgets nothing of it.
func (t *truth) hears(a *agent, words []override.Taken) {
	if t.heard == nil {
		t.heard = map[string][]override.Taken{}
	}
	t.heard[a.key] = append(t.heard[a.key], words...)
}

// obeys checks that a host goes on with no offer that a word it was told forbids.
// Once its claim is out only the server knows which came first.
func (t *truth) obeys(a *agent) {
	o := a.core.Offer
	if o == nil || o.Purpose == host.Back {
		return
	}
	heard, target := t.heard[a.key], o.Plan.Target
	if o.Purpose == host.Repair {
		target = a.core.Machine.Current
	}
	for i := range heard {
		x := &heard[i]
		on := x.Bundle == target && x.Channel == o.Plan.Channel && (x.Host == "" || x.Host == a.name)
		if o.Purpose != host.Repair && x.Bundle == "" {
			on = x.Manifest == o.Plan.Manifest || x.Manifest == "" && x.Channel == o.Plan.Channel
		}
		if on && x.Action.Holds() && !loosened(heard, x) {
			a.w.violate("S18", "%s takes grant %s to %s against override %s (%s)", a.name, o.Grant, o.Purpose, x.ID, x.Action)
			return
		}
	}
}

// loosened reports whether a later word ends what one holds.
func loosened(heard []override.Taken, o *override.Taken) bool {
	return slices.ContainsFunc(heard, func(x override.Taken) bool {
		return x.Version > o.Version && ends[o.Action] == x.Action && x.Manifest == o.Manifest && x.Bundle == o.Bundle && x.Host == o.Host && x.Channel == o.Channel
	})
}

// sentBack checks that a host goes back since as many of one wave failed, or since
// somebody signed it.
func (t *truth) sentBack(a *agent, manifest digest.Digest) {
	m := a.w.docs[manifest]
	failed := make([]int, len(m.Header.Waves))
	for name := range t.failures[manifest] { // order-free: it counts
		if i, ok := m.Leaf(name); ok {
			failed[m.Leaves[i].Wave]++
		}
	}
	signed := slices.ContainsFunc(a.w.words, func(o override.Taken) bool {
		return o.Action == fleet.OverrideRollback && o.Manifest == manifest
	})
	if !signed && slices.Max(failed) <= m.Header.Policy.MaxFailures {
		a.w.violate("S21", "%s is sent back from %s, where %v hosts of its waves failed and nobody signed it", a.name, m.Header.Rollout(), failed)
	}
}
