package host_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/testkit"
)

var (
	old    = digest.Of([]byte("old"))
	fresh  = digest.Of([]byte("fresh"))
	newest = digest.Of([]byte("newest"))
)

// drawPlan draws what a manifest says for the host.
func drawPlan(t *rapid.T, name string, target digest.Digest) fleet.HostPlan {
	seconds := func(label string, of ...int) clock.Duration {
		return clock.Duration(rapid.SampledFrom(of).Draw(t, label)) * clock.Second
	}
	p := fleet.HostPlan{Manifest: digest.Of([]byte(name)), Rollout: "c@" + name, Channel: "c", Host: "h", Target: target, Soak: seconds("soak", 0, 10),
		Policy: fleet.Policy{OnHealthFailure: rapid.SampledFrom([]fleet.OnHealthFailure{fleet.Halt, fleet.RollbackAndHalt}).Draw(t, "policy"),
			ConfirmWindow: seconds("confirm", 0, 30), ActivationDeadline: seconds("deadline", 20), SustainedFailure: seconds("sustained", 0, 7)}}
	modes := []fleet.ProbeMode{fleet.Enforce, fleet.Observe, fleet.Disabled, fleet.Enforce}
	for i, mode := range modes[:rapid.IntRange(0, len(modes)).Draw(t, "probes")] {
		p.Probes = append(p.Probes, fleet.Probe{Name: string(rune('d' - i)), Mode: mode})
	}
	return p
}

// drawInput draws any input, legal or not.
func drawInput(t *rapid.T, s *host.State, plan *fleet.HostPlan) host.Input {
	if rapid.IntRange(0, 3).Draw(t, "likely") > 0 {
		if in := likelyInput(t, s); in != nil {
			return in
		}
	}
	anyDigest := rapid.SampledFrom([]digest.Digest{"", old, fresh, newest, s.From, s.Target})
	switch rapid.IntRange(0, 14).Draw(t, "input") {
	case 0:
		return host.Claimed{Grant: "g" + prose.Line(rapid.StringN(1, 3, 3).Draw(t, "grant")), Rollout: plan.Rollout, Manifest: plan.Manifest,
			From: anyDigest.Draw(t, "from"), Target: plan.Target, BootID: "b"}
	case 1:
		return host.Activated{Observed: anyDigest.Draw(t, "observed")}
	case 2:
		return host.ActivationFailed{Code: "exit", Detail: "1"}
	case 3:
		return host.ActivationDeferred{Component: "kernel"}
	case 4, 5, 6:
		return host.ProbeObserved{Name: rapid.SampledFrom([]string{"a", "b", "c", "d", "z"}).Draw(t, "probe"), Pass: rapid.IntRange(0, 2).Draw(t, "pass") > 0, Reason: "exit 1"}
	case 7:
		return host.Contact{}
	case 8:
		return host.RevertClaimed{Grant: "back", Reason: "ordered"}
	case 9:
		return host.RevertCompleted{Observed: anyDigest.Draw(t, "observed")}
	case 10:
		return host.RevertFailed{Code: "exit", Detail: "1"}
	case 11:
		return host.RebootClaimed{Grant: "boot"}
	case 12:
		return host.RebootFailed{Detail: "exit 1"}
	case 13:
		return host.RevertDeferred{Component: "kernel"}
	}
	return host.Booted{BootID: rapid.SampledFrom([]string{"b", "b2"}).Draw(t, "boot"), Current: anyDigest.Draw(t, "current")}
}

// likelyInput draws what a host in this phase mostly meets, so that histories go
// deep; nil where anything goes.
func likelyInput(t *rapid.T, s *host.State) host.Input {
	switch {
	case s.Phase == host.Activating:
		if rapid.IntRange(0, 3).Draw(t, "staged") == 0 {
			return host.ActivationDeferred{Component: "kernel"}
		}
		return host.Activated{Observed: s.Target}
	case s.Staged():
		return host.RebootClaimed{Grant: "boot"}
	case s.Rebooting():
		return host.Booted{BootID: s.BootID + "'", Current: s.Current}
	case s.Phase == host.Soaking:
		switch rapid.IntRange(0, 9).Draw(t, "soaking") {
		case 0:
			return host.Booted{BootID: "b", Current: s.Current}
		case 1:
			return host.Contact{}
		}
		if len(s.Probes) > 0 {
			return host.ProbeObserved{Name: rapid.SampledFrom(s.Probes).Draw(t, "known").Name, Pass: rapid.IntRange(0, 3).Draw(t, "passes") > 0, Reason: "exit 1"}
		}
	case s.Phase == host.Failed && s.Reverting:
		return host.RevertCompleted{Observed: s.From}
	}
	return nil
}

// history is what an observer who keeps everything knows.
type history struct {
	healthySince clock.Instant // of the soak: since activation, a failed probe or a restart
	probes       map[string]bool
	seenSince    map[string]bool // since the last start of the agent
	claimed      bool            // a claim is not answered by converged or reverted yet
	converged    bool
}

// TestStepKeepsItsPromises drives one machine with any inputs and checks after
// each: S9 soak and probes, S19 legal edges, S20 converged means equal, S21
// reverts go to From only, S24 one outcome per claim, and that Due is the exact
// instant at which Elapsed changes something.
func TestStepKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plans := []fleet.HostPlan{drawPlan(t, "1", fresh), drawPlan(t, "2", newest)}
		plan, now := &plans[0], clock.Instant(1000)
		s := host.State{Current: old}
		hist := history{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			in, use := host.Input(host.Elapsed{}), plan
			due := host.Due(&s, plan)
			switch wake := rapid.IntRange(0, 3).Draw(t, "wake"); {
			case wake == 0 && due != 0:
				now = max(now, due)
			default:
				now = now.Add(clock.Duration(rapid.SampledFrom([]int{0, 1, 1000, 8000, 40000}).Draw(t, "pass")))
				if wake > 1 && rapid.Bool().Draw(t, "claims next") {
					use = &plans[1]
				}
				in = drawInput(t, &s, use)
				if _, ok := in.(host.Claimed); !ok {
					use = plan
				}
			}
			before, copied := s, clone(t, s)
			next, effects, err := host.Step(s, in, now, use)
			again, effects2, err2 := host.Step(s, in, now, use)
			if !reflect.DeepEqual(next, again) || !reflect.DeepEqual(effects, effects2) || (err == nil) != (err2 == nil) {
				t.Fatalf("S25: two steps with the same arguments differ")
			}
			if diff := cmp.Diff(copied, clone(t, s)); diff != "" {
				t.Fatalf("step changed its argument: %s", diff)
			}
			if err != nil {
				var illegal *host.IllegalError
				if !errors.As(err, &illegal) || !reflect.DeepEqual(next, before) || len(effects) > 0 {
					t.Fatalf("a refused input changed something: %v %+v", err, next)
				}
				continue
			}
			if _, ok := in.(host.Claimed); ok {
				plan = use
			}
			s = next
			hist.check(t, &before, &s, in, now, plan, effects)
			checkDue(t, s, plan, now)
		}
	})
}

func clone(t *rapid.T, s host.State) host.State {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	var back host.State
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatalf("decode: %v", err)
	}
	if diff := cmp.Diff(s, back, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the state reads back otherwise: %s", diff)
	}
	return back
}

func (h *history) check(t *rapid.T, before, s *host.State, in host.Input, now clock.Instant, plan *fleet.HostPlan, effects []host.Effect) {
	if !host.Legal(before.Phase, s.Phase) {
		t.Fatalf("S19: %s went from %q to %q", in.Kind(), before.Phase, s.Phase)
	}
	switch in := in.(type) {
	case host.Claimed:
		*h = history{claimed: true}
	case host.Activated:
		h.healthySince, h.probes, h.seenSince = now, map[string]bool{}, map[string]bool{}
	case host.ProbeObserved:
		if was, seen := h.probes[in.Name]; enforced(plan, in.Name) && (seen && was != in.Pass) {
			h.healthySince = now
		}
		h.probes[in.Name], h.seenSince[in.Name] = in.Pass, true
	case host.Booted:
		h.healthySince, h.seenSince = now, map[string]bool{}
	}
	for _, e := range effects {
		if r, ok := e.(host.Revert); ok && r.To != s.From {
			t.Fatalf("S21: reverts to %s, came from %s", r.To, s.From)
		}
	}
	h.reboots(t, before, s, in, effects)
	if s.Phase == before.Phase {
		return
	}
	switch s.Phase {
	case host.Converged:
		h.converged = true
		if s.Current != s.Target {
			t.Fatalf("S20: converged on %s with target %s", s.Current, s.Target)
		}
		if now.Sub(h.healthySince) < plan.Soak {
			t.Fatalf("S9: converged %s after the last trouble, the soak is %s", now.Sub(h.healthySince), plan.Soak)
		}
		for i := range plan.Probes {
			if name := plan.Probes[i].Name; plan.Probes[i].Mode == fleet.Enforce && (!h.probes[name] || !h.seenSince[name]) {
				t.Fatalf("S9: converged and probe %s is passing %t, seen %t", name, h.probes[name], h.seenSince[name])
			}
		}
		h.answer(t)
	case host.Reverted:
		if s.Current != s.From {
			t.Fatalf("S21: reverted to %s, came from %s", s.Current, s.From)
		}
		if h.converged { // the order back was a claim of its own
			return
		}
		h.answer(t)
	}
}

func (h *history) answer(t *rapid.T) {
	if !h.claimed {
		t.Fatalf("S24: a second outcome of one claim")
	}
	h.claimed = false
}

func enforced(plan *fleet.HostPlan, name string) bool {
	for i := range plan.Probes {
		if plan.Probes[i].Name == name {
			return plan.Probes[i].Mode == fleet.Enforce
		}
	}
	return false
}

// checkDue checks that Elapsed does nothing before Due, something at Due, and
// comes to an end.
func checkDue(t *rapid.T, s host.State, plan *fleet.HostPlan, now clock.Instant) {
	for range 10 {
		due := host.Due(&s, plan)
		if due == 0 || due > now {
			at := now
			if due > now+1 {
				at = due - 1
			}
			if next, _, err := host.Step(s, host.Elapsed{}, at, plan); err != nil || !reflect.DeepEqual(next, s) {
				t.Fatalf("due at %d, and at %d elapsing changes %s", due, at, cmp.Diff(s, next))
			}
		}
		if due == 0 {
			return
		}
		next, _, err := host.Step(s, host.Elapsed{}, max(due, now), plan)
		if err != nil || reflect.DeepEqual(next, s) {
			t.Fatalf("due at %d and nothing happens: %+v, %v", due, s, err)
		}
		s, now = next, max(due, now)
	}
	t.Fatalf("due again and again: %+v", s)
}

// TestS24MirrorAgrees runs an agent with every input and a mirror with only
// what the agent reports, taken through the JSON of its events.
func TestS24MirrorAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plans := []fleet.HostPlan{drawPlan(t, "1", fresh), drawPlan(t, "2", newest)}
		m, plan := host.State{Current: old}, plans[0]
		mirror, mirrorPlan, now := host.State{Current: old}, plans[0], clock.Instant(1000)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(clock.Duration(rapid.SampledFrom([]int{0, 1, 1000, 8000, 40000}).Draw(t, "pass")))
			use := plan
			if rapid.IntRange(0, 5).Draw(t, "next") == 0 {
				use = plans[1]
			}
			in := drawInput(t, &m, &use)
			if rapid.IntRange(0, 3).Draw(t, "elapse") == 0 {
				in = host.Elapsed{}
			}
			if c, ok := in.(host.Claimed); ok {
				if _, _, err := host.Step(m, c, now, &use); err != nil {
					continue
				}
				plan = use
			}
			before := m
			next, _, err := host.Step(m, in, now, &plan)
			if err != nil {
				continue
			}
			if m = next; !host.Notable(&before, &m, in) {
				continue
			}
			kept := through(t, &before, &m, in)
			if _, ok := kept.(host.Claimed); ok {
				mirrorPlan = use
			}
			after, _, err := host.Step(mirror, kept, now, &mirrorPlan)
			if err != nil {
				t.Fatalf("S24: the mirror refuses what the agent reports: %v", err)
			}
			mirror = after
			same(t, m, mirror)
		}
	})
}

// through takes an input through the event that reports it.
func through(t *rapid.T, before, after *host.State, in host.Input) host.Input {
	ev, err := event.NewHostStepped(before, after, in)
	if err != nil {
		t.Fatalf("report: %v", err)
	}
	en, err := event.NewEntry(1, event.HostSubject("h"), ev)
	if err != nil {
		t.Fatalf("report: %v", err)
	}
	back, err := event.Decode(en)
	if err != nil || !reflect.DeepEqual(back, event.Event(ev)) {
		t.Fatalf("the report reads back as %+v, %v", back, err)
	}
	kept, err := host.DecodeInput(ev.Input, back.(event.HostStepped).Data)
	if err != nil || !reflect.DeepEqual(kept, in) {
		t.Fatalf("input %+v reads back as %+v, %v", in, kept, err)
	}
	return kept
}

// same compares all but what the agent does not report: the words of a probe,
// which a failure repeats.
func same(t *rapid.T, a, m host.State) {
	for _, s := range []*host.State{&a, &m} {
		probes := s.Probes
		s.Probes = nil
		for _, p := range probes {
			p.Reason = ""
			s.Probes = append(s.Probes, p)
		}
	}
	m.Detail = a.Detail
	if diff := cmp.Diff(a, m); diff != "" {
		t.Fatalf("S24: the mirror differs (-agent +mirror)\n%s", diff)
	}
}

// TestContactAfterTheRevert: contact that comes back after a dead-man revert blames the bundle, unless the server
// itself was away for a part of the time since the activation. A server that does not tell is taken to have been there.
func TestContactAfterTheRevert(t *testing.T) {
	plan := fleet.HostPlan{Manifest: fresh, Rollout: "c@1", Target: fresh, Policy: fleet.Policy{ActivationDeadline: clock.Minute, ConfirmWindow: 10 * clock.Second}}
	for served, blames := range map[clock.Duration]bool{0: true, clock.Second: false, 11 * clock.Second: false, 12 * clock.Second: true, clock.Hour: true} {
		s := host.State{}
		for _, in := range []struct {
			at clock.Instant
			host.Input
		}{{1000, host.Claimed{Grant: "g", Manifest: fresh, Target: fresh}}, {2000, host.Activated{Observed: fresh}}, {12_000, host.Elapsed{}}, {13_000, host.RevertCompleted{}}, {14_000, host.Contact{Served: served}}} {
			next, effects, err := host.Step(s, in.Input, in.at, &plan)
			testkit.Must(t, err)
			s = next
			quarantined := slices.ContainsFunc(effects, func(e host.Effect) bool { _, is := e.(host.Quarantine); return is })
			if _, contact := in.Input.(host.Contact); quarantined != (contact && blames) {
				t.Errorf("served %s: %T at %d quarantines: %v", served, in.Input, in.at, quarantined)
			}
		}
	}
}

// BenchmarkStep takes a host from its claim to convergence: four inputs.
func BenchmarkStep(b *testing.B) {
	plan := fleet.HostPlan{Manifest: fresh, Rollout: "c@1", Target: fresh, Probes: []fleet.Probe{{Name: "up", Mode: fleet.Enforce}},
		Policy: fleet.Policy{ActivationDeadline: clock.Minute, ConfirmWindow: clock.Minute}}
	inputs := []host.Input{host.Claimed{Grant: "g", Manifest: fresh, Target: fresh}, host.Activated{Observed: fresh}, host.Contact{}, host.ProbeObserved{Name: "up", Pass: true}}
	b.ReportAllocs()
	for b.Loop() {
		s := host.State{}
		for i, in := range inputs {
			next, _, err := host.Step(s, in, clock.Instant(1000+i), &plan)
			testkit.Must(b, err)
			s = next
		}
		if s.Phase != host.Converged {
			b.Fatal("not converged")
		}
	}
}
