package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestS26ReplayDecidesWhatWasDecided runs the planner, the verbs and the hosts'
// machines over the outside events of recorded logs, crashes, lost messages,
// repairs, restored backups and clocks that jump included: with nothing changed
// every decision is the recorded one, byte for byte. Every verb is among them.
func TestS26ReplayDecidesWhatWasDecided(t *testing.T) {
	schedules, events, seen := uint64(100), 0, map[string]int{}
	for seed := uint64(1); seed <= schedules; seed++ {
		w := build(Config{Seed: seed, Trust: Never, Model: Never})
		if seed%2 == 0 {
			w.pressMore(rand.New(rand.NewPCG(seed, 1)))
		}
		w.play()
		w.sound(t)
		events += w.sameAgain(t)
		for _, e := range w.log.entries {
			seen[verbOf(t, e)]++
		}
	}
	for _, verb := range []string{"rollout.paused", "rollout.resumed", "rollout.cancelled", "cancel", "wave.forced", "quarantine.added", "quarantine.cleared",
		"host.frozen", "host.unfrozen", "host.revoked", "host.decommissioned", "superseded", "carried out", "rollout.reverting", "break_glass.used"} {
		if seen[verb] == 0 {
			t.Errorf("no log has %s", verb)
		}
	}
	for _, action := range fleet.OverrideActions {
		if seen["override "+string(action)] == 0 {
			t.Errorf("no log has a signed %s", action)
		}
	}
	t.Logf("%d schedules, %d events, %v", schedules, events, seen)
}

// sound says what the world violated, but that it does not settle: what is retired
// never does.
func (w *World) sound(t *testing.T) {
	t.Helper()
	for _, v := range w.found {
		if v.Invariant != "L3" {
			t.Errorf("seed %d: %s: %s", w.cfg.Seed, v.Invariant, v.Message)
		}
	}
}

// sameAgain replays the world's log and returns how many events it has.
func (w *World) sameAgain(t *testing.T) int {
	t.Helper()
	seed := w.cfg.Seed
	h := &replay.History{Manifests: w.docs}
	for i, e := range w.log.entries {
		h.Records = append(h.Records, event.Record{Entry: e, Seq: uint64(i) + 1, Term: w.log.terms[i]})
	}
	out, err := replay.Rerun(h, &replay.Change{}, replay.Options{})
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if out.Divergence != nil || len(out.Modelled) > 0 || out.Unfit > 0 {
		t.Fatalf("seed %d: divergence %+v, modelled %+v, unfit %d (%s)", seed, out.Divergence, out.Modelled, out.Unfit, out.UnfitExample)
	}
	if len(out.Entries) != len(h.Records) {
		t.Fatalf("seed %d: %d entries, recorded were %d", seed, len(out.Entries), len(h.Records))
	}
	for i, e := range out.Entries {
		if r := &h.Records[i].Entry; e.Type != r.Type || e.Host() != r.Host() || e.At != r.At || e.HostSeq != r.HostSeq || !bytes.Equal(e.Body, r.Body) {
			t.Fatalf("seed %d: event %d is\n%d %s %s %s\nrecorded was\n%d %s %s %s", seed, i+1, e.At, e.Type, e.Host(), e.Body, r.At, r.Type, r.Host(), r.Body)
		}
	}
	return len(out.Entries)
}

// verbOf names the verb that an event says was used, or is empty.
func verbOf(t *testing.T, e event.Entry) string {
	t.Helper()
	ev := testkit.Value(event.Decode(e))(t)
	switch ev := ev.(type) {
	case event.OverrideAccepted:
		return "override " + string(ev.Action)
	case event.RolloutMoved:
		switch {
		case plan.CarriesOut(ev.Actor):
			return "carried out"
		case ev.Actor != "" && ev.Final:
			return "cancel"
		case ev.To == string(rollout.Superseded):
			return "superseded"
		}
		return ""
	case event.QuarantineAdded:
		if ev.Actor == "" {
			return ""
		}
	case event.HostUnfrozen:
		if ev.Actor == "" {
			return ""
		}
	case event.RolloutReverting:
		if ev.Override == "" {
			return ""
		}
	}
	return e.Type
}

// pressMore has operators press more often, and what a schedule does not: signed
// overrides, also of rollouts that have not opened, and the end of hosts' identities.
func (w *World) pressMore(r *rand.Rand) {
	w.end = w.faultsEnd.Add(10 * clock.Minute) // what is retired or frozen never settles
	for n := range 24 {
		pick, action := r.IntN(1<<20), fleet.OverrideActions[r.IntN(len(fleet.OverrideActions))]
		kind, verb := r.IntN(8), r.IntN(len(verbs))
		w.after(clock.Duration(1+r.IntN(int(w.faultsEnd.Sub(w.now)/clock.Second)))*clock.Second, func() {
			s := w.server
			switch {
			case s.down:
			case kind < 4:
				s.try(verbs[verb].press(s, pick))
			case kind == 4:
				s.retire(s.pickHost(pick), pick%2 == 0)
			default:
				s.sign(uint64(n+1), action, pick)
			}
		})
	}
}

// retire ends a host's identity, and with it all that it says.
func (s *server) retire(name string, decommission bool) {
	a, end := s.w.hosts[name], plan.Revoke
	if decommission {
		end = plan.Decommission
	}
	entries, err := end(s.state, name, "drill", "operator", s.now())
	if err == nil {
		a.partitioned++
		delete(s.parked, a)
	}
	s.try(entries, err)
	if budgets := s.w.fleet.budgets; err == nil && decommission { // it counts no more, whatever it still does
		for i := range budgets {
			budgets[i].members = slices.DeleteFunc(slices.Clone(budgets[i].members), func(m string) bool { return m == name })
		}
	}
}

// sign takes a signed override about the newest manifest of a channel.
func (s *server) sign(version uint64, action fleet.OverrideAction, pick int) {
	names := s.state.ChannelNames()
	if len(names) == 0 {
		return
	}
	c := s.state.Channels[names[pick%len(names)]]
	if len(c.Manifests) == 0 {
		return
	}
	m, err := s.w.docs.Manifest(c.Manifests[0].Digest)
	if err != nil || len(m.Leaves) == 0 {
		return
	}
	o := s.w.about(action, m, pick)
	o.Document = fleet.Document{Epoch: s.state.Root.Epoch, Version: version, IssuedAt: s.now()}
	o.ID, o.Reason = fmt.Sprint("o", version), "drill"
	signed := gate.AcceptedOverride{Override: o, Digest: digest.Of([]byte(o.ID)), Envelope: digest.Of([]byte("signed " + o.ID))}
	s.w.overrides = append(s.w.overrides, signed)
	s.try(plan.Override(s.state, signed, "operator", s.now()))
}
