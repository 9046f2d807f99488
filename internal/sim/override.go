package sim

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/override"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/trust"
)

// Signed overrides: operators keep the files of what they signed, push them to a
// server, and push them again to one whose log is gone. Hosts keep what they took.

// word makes an override as an operator signs it, and keeps its file.
func (w *World) word(action fleet.OverrideAction, channel string, manifest, bundle digest.Digest, host string) override.Taken {
	o := fleet.Override{Document: fleet.Document{Type: fleet.TypeOverride, Fleet: "sim", Epoch: 1, Version: uint64(w.now), IssuedAt: w.now},
		ID: fmt.Sprintf("o-%d", len(w.words)+1), Action: action, Channel: channel, Manifest: manifest, Bundle: bundle, Host: host, Reason: "drill"}
	_, most := action.Life()
	o.NotAfter = w.now.Add(most)
	t := override.Taken{Override: o, Digest: digest.Of([]byte(o.ID))}
	if w.notary != nil {
		env, err := trust.SignOverride(o, keyring().roles[trust.RoleOverride])
		if err != nil {
			w.violate("core", "%v", err)
		}
		t.Digest = digest.Of(mustPayload(env))
		w.notary.words[t.Digest] = env
	}
	t.Envelope = digest.Of([]byte("envelope of " + string(t.Digest)))
	w.words = append(w.words, t)
	return t
}

// drawnActions are what operators sign here: all but promote and break-glass, which
// the model does not decide a second time.
var drawnActions = slices.DeleteFunc(slices.Clone(fleet.OverrideActions), func(a fleet.OverrideAction) bool {
	return a == fleet.OverridePromote || a == fleet.OverrideBreakGlass
})

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
	a := drawnActions[pick/7%len(drawnActions)]
	leaf := &r.Plan.Leaves[pick%len(r.Plan.Leaves)]
	var t override.Taken
	switch a {
	case fleet.OverrideQuarantine, fleet.OverrideUnquarantine:
		to := ""
		if pick%3 == 0 {
			to = leaf.Host
		}
		t = w.word(a, r.Channel, "", leaf.Target, to)
	case fleet.OverrideFreeze, fleet.OverrideUnfreeze:
		t = w.word(a, r.Channel, "", "", "")
	default:
		t = w.word(a, r.Channel, r.Manifest, "", "")
	}
	s.try(plan.Override(s.state, t, "operator", s.now()))
}

// remind pushes every file again, in any order.
func (w *World) remind() {
	for _, i := range w.rand.Perm(len(w.words)) {
		if s := w.server; !s.down {
			s.try(plan.Override(s.state, w.words[i], "operator", s.now()))
		}
	}
}

// loosen ends by signature what a signature holds and can be ended.
func (s *server) loosen() {
	ends := map[fleet.OverrideAction]fleet.OverrideAction{fleet.OverridePause: fleet.OverrideResume,
		fleet.OverrideQuarantine: fleet.OverrideUnquarantine, fleet.OverrideFreeze: fleet.OverrideUnfreeze}
	for _, t := range s.state.Overrides.List() {
		if a := ends[t.Action]; a != "" {
			s.try(plan.Override(s.state, s.w.word(a, t.Channel, t.Manifest, t.Bundle, t.Host), "operator", s.now()))
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
	if len(list) == 0 || !a.up {
		return
	}
	name := nameOf(list)
	if a.heard == name {
		return
	}
	var words []override.Taken
	for _, t := range list {
		lied := a.w.faulty(Lies, 0.2)
		if a.follower == nil {
			if !lied {
				words = append(words, t)
			}
			continue
		}
		env := a.w.notary.words[t.Digest]
		if lied {
			env, _ = trust.Sign(fleet.TypeOverride, mustPayload(env), keyring().thief)
		}
		v, err := a.follower.Override(env)
		if err != nil {
			a.refused(err)
			continue
		}
		words = append(words, override.Taken{Override: v.Value(), Digest: v.Digest()})
	}
	if len(words) == len(list) {
		a.heard = name
	}
	a.turn(func() []host.Effect {
		effects, _ := a.core.Ordered(a.name, 1, words)
		return effects
	})
	a.w.truth.hears(a, words)
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
	if o.Action == fleet.OverrideCancel || o.Action == fleet.OverrideRollback {
		return false
	}
	return slices.ContainsFunc(heard, func(x override.Taken) bool {
		return x.Version > o.Version && !x.Action.Holds() && x.Manifest == o.Manifest && x.Bundle == o.Bundle && x.Host == o.Host && x.Channel == o.Channel
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
