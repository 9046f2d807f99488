package sim

import (
	"fmt"
	"slices"

	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/trust"
)

// Signed overrides: operators keep the files of what they signed, push them to a
// server, and push them again to one whose log is gone. Hosts keep what they took.

// override makes an override as operators sign it, as many as its action takes, and
// keeps its file.
func (w *World) override(o fleet.Override) gate.AcceptedOverride {
	t := w.draft(o)
	if w.publisher != nil {
		w.publisher.signed(&t, t.Operators(operators))
	}
	w.overrides = append(w.overrides, t)
	return t
}

// draft fills in what every override says.
func (w *World) draft(o fleet.Override) gate.AcceptedOverride {
	w.drafts++
	o.Document = head(fleet.TypeOverride, edition{w.epoch, uint64(w.now)}, w.now)
	o.ID, o.Reason = fmt.Sprintf("o-%d", w.drafts), "drill"
	_, most := o.Action.Life()
	o.NotAfter = w.now.Add(most)
	t := gate.AcceptedOverride{Override: o, Digest: digest.Of([]byte(o.ID))}
	t.Envelope = digest.Of([]byte("envelope of " + o.ID))
	return t
}

// about says of what there is what an operator may sign of it.
func (w *World) about(a fleet.OverrideAction, r *rollout.Manifest, pick int) fleet.Override {
	o := fleet.Override{Action: a, Channel: r.Header.Channel}
	leaf := &r.Leaves[pick%len(r.Leaves)]
	switch a {
	case fleet.OverrideQuarantine, fleet.OverrideUnquarantine:
		o.Bundle = leaf.Target
		if pick%3 == 0 {
			o.Host = leaf.Host
		}
	case fleet.OverrideFreeze, fleet.OverrideUnfreeze:
	case fleet.OverrideRemove:
		o.Host, o.Incarnation = leaf.Host, max(1, w.hosts[leaf.Host].inc)
		o.Workloads = []fleet.Workloads{fleet.Keep, fleet.Stop, fleet.Stop, fleet.Wipe}[pick/rareRemoval%4]
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
	if s.away() {
		return
	}
	r, err := s.pickRollout(pick)
	if err != nil || len(r.Plan.Leaves) == 0 {
		return
	}
	if leaf := r.Plan.Leaves[pick%len(r.Plan.Leaves)]; pick%rareRemoval == 0 && w.hosts[leaf.Host].inc != 0 {
		w.ending, w.hosts[leaf.Host].response = true, []response{enrolAgain, retire}[pick/rareRemoval/4%2]
		s.pushOverride(w.override(w.about(fleet.OverrideRemove, r.Plan, pick)))
		return
	}
	s.pushOverride(w.override(w.about(drawnActions[pick/7%len(drawnActions)], r.Plan, pick)))
}

// rareRemoval is how seldom what an operator signs removes a host.
const rareRemoval = 13

// drawnActions are what operators sign about what is there. The others have
// their time: see intent and retries.
var drawnActions = slices.DeleteFunc(slices.Clone(fleet.OverrideActions), func(a fleet.OverrideAction) bool {
	return a == fleet.OverridePromote || a == fleet.OverrideBreakGlass || a == fleet.OverrideRetry || a == fleet.OverrideRemove
})

// pushOverride has a server take a signed override. Where there are
// signatures it verifies them first.
func (s *server) pushOverride(t gate.AcceptedOverride) {
	if n := s.w.publisher; n != nil {
		var o trust.Verified[fleet.Override]
		v, err := s.verifier()
		if err == nil {
			o, err = v.Override(n.overrides[t.Digest].env, s.now())
		}
		if err != nil {
			s.w.trace("the server refuses override %s (%s): %v", t.ID, t.Action, err)
			return
		}
		t.Override = o.Value()
		s.w.checks.checkSigned("the server", s.w, &t, n.overrides[t.Digest].signed)
	}
	s.try(plan.Override(s.state, t, "operator", s.now()))
	s.w.checks.inForce(s, &t)
}

// inForce checks that an override which restricts is in force once it was pushed, or a later one
// on the same matter.
func (tr *checker) inForce(s *server, t *gate.AcceptedOverride) {
	if s.away() || ends[t.Action] == "" || t.Epoch != s.state.Root.Epoch {
		return
	}
	for _, o := range s.state.Overrides.List() {
		same := o.Channel == t.Channel && o.Manifest == t.Manifest && o.Bundle == t.Bundle && o.Host == t.Host
		if same && (o.Action == t.Action || o.Action == ends[t.Action] || retries(&o, t)) && o.Version >= t.Version {
			return
		}
	}
	s.w.violate("S18", "override %s (%s) was pushed, and neither it nor a later one is in force", t.ID, t.Action)
}

// pushOverrides pushes every file again, in any order.
func (w *World) pushOverrides() {
	for _, i := range w.rand.Perm(len(w.overrides)) {
		if s := w.server; !s.away() {
			s.pushOverride(w.overrides[i])
		}
	}
}

// ends says what ends the overrides that restrict and can be ended.
var ends = map[fleet.OverrideAction]fleet.OverrideAction{fleet.OverridePause: fleet.OverrideResume,
	fleet.OverrideQuarantine: fleet.OverrideUnquarantine, fleet.OverrideFreeze: fleet.OverrideUnfreeze}

// retries reports whether one override has a manifest tried again that another one stops.
func retries(again, o *gate.AcceptedOverride) bool {
	stops := o.Action == fleet.OverridePause || o.Action == fleet.OverrideCancel || o.Action == fleet.OverrideRollback
	return stops && again.Action == fleet.OverrideRetry && again.Manifest == o.Manifest
}

// liftOverrides ends by signature what a signature holds and can be ended.
func (s *server) liftOverrides() {
	for _, t := range s.state.Overrides.List() {
		if a := ends[t.Action]; a != "" && !s.away() {
			s.pushOverride(s.w.override(fleet.Override{Action: a, Channel: t.Channel, Manifest: t.Manifest, Bundle: t.Bundle, Host: t.Host}))
		}
	}
}

// overrides lists those in force, for hosts.
func (s *server) overrides() []gate.AcceptedOverride {
	if len(s.state.Overrides.Newest) == 0 {
		return nil
	}
	return s.state.Overrides.List()
}

func nameOf(list []gate.AcceptedOverride) digest.Digest {
	var all []byte
	for i := range list {
		all = append(all, list[i].Digest...)
	}
	return digest.Of(all)
}

// receive has a host take the overrides that a server shows, if they are others than
// it took last. A server that lies leaves some out and makes others up.
func (a *agent) receive(list []gate.AcceptedOverride) {
	epoch := a.keyEpoch()
	news := epoch > 1 && epoch != a.listedIn // the overrides of before have ended
	if !a.up || len(list) == 0 && !news {
		return
	}
	name := nameOf(list)
	if a.listed == name && !news {
		return
	}
	var taken []gate.AcceptedOverride
	for _, t := range list {
		lied := a.w.faulty(Lies, 0.2)
		if a.follower == nil {
			if !lied && t.Epoch == epoch {
				taken = append(taken, t)
			}
			continue
		}
		file := a.w.publisher.overrides[t.Digest]
		if lied {
			file = file.forged(a.w.rand.IntN(2) == 0)
		}
		v, err := a.follower.Override(file.env)
		if err != nil {
			a.refused(err)
			continue
		}
		a.w.checks.checkSigned(a.name, a.w, &t, file.signed)
		taken = append(taken, gate.AcceptedOverride{Override: v.Value(), Digest: v.Digest()})
	}
	if len(taken) == len(list) {
		a.listed, a.listedIn = name, epoch
	}
	a.step(core.OverridesReceived{Host: a.name, Incarnation: a.inc, Epoch: epoch, Overrides: taken})
	if news && a.up {
		a.w.checks.outlives(a, epoch)
	}
}

// received takes down what a host was told, and that it forgets nothing of it.
func (t *checker) received(a *agent, list []gate.AcceptedOverride) {
	a.witnessed.overrides = append(a.witnessed.overrides, list...)
}

// obeys checks that a host goes on with no offer that an override it received forbids.
// Once its claim is out only the server knows which came first.
func (t *checker) obeys(a *agent) {
	o := a.core.Offer
	if o == nil || o.Purpose == host.Rollback {
		return
	}
	heard, target := a.witnessed.overrides, o.Plan.Target
	if o.Purpose == host.Repair {
		target = a.core.Machine.Current
	}
	for i := range heard {
		x := &heard[i]
		on := x.Bundle == target && x.Channel == o.Plan.Channel && (x.Host == "" || x.Host == a.name)
		if o.Purpose != host.Repair && x.Bundle == "" {
			on = x.Manifest == o.Plan.Manifest || x.Manifest == "" && x.Channel == o.Plan.Channel
		}
		if x.Action == fleet.OverrideRemove {
			on = x.Host == a.name && x.Incarnation == a.inc
		}
		if on && x.Action.Restricts() && !loosened(heard, x) {
			a.w.violate("S18", "%s takes grant %s to %s against override %s (%s)", a.name, o.Grant, o.Purpose, x.ID, x.Action)
			return
		}
	}
}

// loosened reports whether a later override ends one.
func loosened(heard []gate.AcceptedOverride, o *gate.AcceptedOverride) bool {
	return slices.ContainsFunc(heard, func(x gate.AcceptedOverride) bool {
		return x.Version > o.Version && (ends[o.Action] == x.Action || retries(&x, o)) && x.Manifest == o.Manifest && x.Bundle == o.Bundle && x.Host == o.Host && x.Channel == o.Channel
	})
}

// leaves checks that a host takes away what it runs only as somebody signed it, of this
// incarnation of it.
func (t *checker) leaves(a *agent, e *core.Leave) {
	t.mayAct(a, "takes away what it runs")
	if !slices.ContainsFunc(a.w.overrides, func(o gate.AcceptedOverride) bool {
		return o.Action == fleet.OverrideRemove && o.Host == a.name && o.Incarnation == a.inc && o.Workloads != fleet.Keep && e.Wipe == (o.Workloads == fleet.Wipe)
	}) {
		a.w.violate("S3", "%s takes away what it runs (wipe: %t), and nobody signed that", a.name, e.Wipe)
	}
	if m := &a.core.Machine; m.Phase == host.Activating || m.Phase == host.Soaking || m.Reverting {
		a.w.violate("S23", "%s takes away what it runs while it is %s", a.name, m.Phase)
	}
}

// sentBack checks that a host goes back since as many of one wave failed, or since
// somebody signed it.
func (t *checker) sentBack(a *agent, manifest digest.Digest) {
	m := a.w.docs[manifest]
	failed := make([]int, len(m.Header.Waves))
	for f := range t.failures { // order-free: it counts
		if i, ok := m.Leaf(f.host); ok && f.what == manifest {
			failed[m.Leaves[i].Wave]++
		}
	}
	for name := range a.w.lied { // order-free: it counts; what they reported is all that anybody has
		if i, ok := m.Leaf(name); ok {
			failed[m.Leaves[i].Wave]++
		}
	}
	signed := slices.ContainsFunc(a.w.overrides, func(o gate.AcceptedOverride) bool {
		return o.Action == fleet.OverrideRollback && o.Manifest == manifest
	})
	if !signed && slices.Max(failed) <= m.Header.Policy.MaxFailures {
		a.w.violate("S21", "%s is sent back from %s, where %v hosts of its waves failed and nobody signed it", a.name, m.Header.Rollout(), failed)
	}
}
