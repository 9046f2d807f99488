package plan_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// spec describes a manifest in a line: waves are "h0 h1 | h2".
type spec struct {
	channel, ref, waves string
	target              digest.Digest
	policy              fleet.OnHealthFailure
	maxFailures         int
	minSoaked           int
	confirm             clock.Duration
	budget              int // most in flight of all hosts; zero: none
	after               map[string][]string
	targets             map[string]digest.Digest
}

func (w *world) manifest(sp spec) *rollout.Manifest {
	m := &rollout.Manifest{Header: &fleet.Manifest{Channel: firstOf(sp.channel, "c"), Ref: firstOf(sp.ref, "r"),
		Policy: fleet.Policy{OnHealthFailure: fleet.OnHealthFailure(firstOf(string(sp.policy), string(fleet.RollbackAndHalt))), MaxFailures: sp.maxFailures,
			ConfirmWindow: sp.confirm, ActivationDeadline: clock.Minute, GrantExpiry: clock.Minute},
		Probes: []fleet.Probe{{Name: "up", Mode: fleet.Enforce}}}}
	m.Header.Version = uint64(len(w.docs) + 1)
	var all []string
	for i, names := range strings.Split(sp.waves, "|") {
		m.Header.Waves = append(m.Header.Waves, fleet.Wave{Name: "w" + string(rune('0'+i)), MinSoaked: sp.minSoaked})
		for _, name := range strings.Fields(names) {
			leaf := fleet.Leaf{Host: name, Wave: i, Target: sp.target, Probes: []int{0}, After: sp.after[name]}
			if d, ok := sp.targets[name]; ok {
				leaf.Target = d
			}
			m.Leaves, all = append(m.Leaves, leaf), append(all, name)
		}
	}
	if sp.budget > 0 {
		m.Header.Budgets, m.Members = []fleet.Budget{{Selector: "all", Max: sp.budget}}, [][]string{all}
	}
	return w.docs.add(m)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// scene is a world with hosts that are enrolled and there.
func scene(t *testing.T, names string) *world {
	w := newWorld(t)
	for _, n := range strings.Fields(names) {
		w.enrol(n)
		w.presence(n, true)
	}
	return w
}

// live lets the world go on for some rounds of ten seconds.
func (w *world) live(rounds int) {
	w.t.Helper()
	for range rounds {
		w.tick()
		for _, n := range w.names() {
			w.hosts[n].work()
		}
		w.now = w.now.Add(10 * clock.Second)
	}
	w.tick()
}

// expect compares "h0=converged/one …": phase and bundle as the server sees them.
func (w *world) expect(want string) {
	w.t.Helper()
	for _, f := range strings.Fields(want) {
		name, rest, _ := strings.Cut(f, "=")
		phase, bundle, _ := strings.Cut(rest, "/")
		m := w.s.Hosts[name].Machine
		if string(m.Phase) != phase || bundleName(m.Current) != bundle {
			w.t.Fatalf("host %s is %s on %q, expected %s on %q\n%s", name, m.Phase, bundleName(m.Current), phase, bundle, w.tail())
		}
	}
}

func bundleName(d digest.Digest) string {
	for i, n := range []string{"one", "two", "three", "four"} {
		if bundles[i] == d {
			return n
		}
	}
	return string(d)
}

func (w *world) phase(id string, want rollout.Phase) *rollout.Rollout {
	w.t.Helper()
	r := w.s.Find(id)
	if r == nil || r.Phase != want {
		w.t.Fatalf("rollout %s is %+v, expected %s\n%s", id, r, want, w.tail())
	}
	return r
}

func (w *world) operate(verb plan.Verb, id string) {
	w.t.Helper()
	w.commit(plan.Operate(w.s, verb, id, "because", "ada", w.now))
}

// count counts events of a type about a host, or about any.
func (w *world) count(ev event.Event, host string) int {
	n := 0
	for _, e := range w.log {
		if e.Type == ev.EventType() && (host == "" || e.Host == host) {
			n++
		}
	}
	return n
}

func (w *world) breakOn(d digest.Digest, hosts string) {
	for _, n := range strings.Fields(hosts) {
		w.hosts[n].broken[d] = true
	}
}

// onOne is a scene in which every host converged on bundle one.
func onOne(t *testing.T, names string) *world {
	w := scene(t, names)
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: names, target: bundles[0]}))
	w.live(4)
	w.phase("c@r1", rollout.Terminal)
	return w
}

func TestS8WaveWithToleratedFailuresPromotes(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1], maxFailures: 1}))
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=reverted/one h1=converged/two h2=converged/two")
}

func TestS8LastWaveOfToleratedFailuresEnds(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], maxFailures: 1}))
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h1=reverted/one")
}

func TestS8NobodyConvergedNeverPromotes(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], maxFailures: 1}))
	w.live(6)
	if r := w.phase("c@r2", rollout.Active); r.Held != "0/evidence" || r.Cursor != 0 {
		t.Fatalf("rollout is held by %q at wave %d", r.Held, r.Cursor)
	}
	w.expect("h1=converged/one")
}

func TestS8AllOfFirstWaveOfflineHolds(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.presence("h0", false)
	w.presence("h1", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1]}))
	w.live(4)
	if r := w.phase("c@r2", rollout.Active); r.Held != "0/evidence" {
		t.Fatalf("held by %q", r.Held)
	}
	w.expect("h2=converged/one")
	w.presence("h1", true)
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h1=converged/two h2=converged/two")
}

func TestS11S12OfflineHostIsSkippedAndServedWhenItReturns(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.presence("h0", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1]}))
	w.live(5)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/one h1=converged/two h2=converged/two")
	w.presence("h0", true)
	w.live(3)
	w.expect("h0=converged/two")
}

func TestS18ResumeAcknowledgesWhatFailed(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1], policy: fleet.Halt}))
	w.live(4)
	w.phase("c@r2", rollout.Failed)
	w.expect("h0=failed/two h1=converged/two h2=converged/one")
	w.operate(plan.Resume, "c@r2")
	w.commit(plan.ClearQuarantine(w.s, "c", string(bundles[1]), "looked at", "ada", w.now))
	w.live(4)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=failed/two h2=converged/two")
}

func TestS8PauseForgivesNoFailure(t *testing.T) {
	w := onOne(t, "h0 h1 h2 h3")
	w.breakOn(bundles[1], "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 h2 h3", target: bundles[1], maxFailures: 1, budget: 1}))
	for w.count(event.BundleQuarantined{}, "") == 0 {
		w.live(1)
	}
	w.operate(plan.Pause, "c@r2")
	w.operate(plan.Resume, "c@r2")
	w.live(10)
	w.phase("c@r2", rollout.Reverted)
}

func TestS22RollbackBringsEveryGrantedHostBack(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2", target: bundles[1]}))
	w.live(8)
	w.phase("c@r2", rollout.Reverted)
	w.expect("h0=reverted/one h1=reverted/one h2=reverted/one")
}

func TestS16NewReleaseWaitsForTheRevertAndOpensAfter(t *testing.T) {
	for _, mode := range []fleet.OnNewRef{fleet.Queue, fleet.Supersede} {
		w := onOne(t, "h0 h1 h2")
		w.breakOn(bundles[1], "h1")
		w.release(mode, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2", target: bundles[1]}))
		for w.count(event.RolloutReverting{}, "") == 0 {
			w.live(1)
		}
		w.release(mode, w.manifest(spec{ref: "r3", waves: "h0 h1 h2", target: bundles[2]}))
		w.tick()
		if w.s.Find("c@r3") != nil {
			t.Fatalf("%s: r3 opened while r2 reverts", mode)
		}
		w.live(10)
		w.phase("c@r2", rollout.Reverted)
		w.phase("c@r3", rollout.Terminal)
		w.expect("h0=converged/three h1=converged/three h2=converged/three")
	}
}

func TestS1FixReachesFailedHostInTheSlotItHolds(t *testing.T) {
	for failed, other := range map[string]string{"h0": "h1", "h1": "h0"} {
		w := onOne(t, "h0 h1")
		w.breakOn(bundles[1], failed)
		w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: failed + " | " + other, target: bundles[1], policy: fleet.Halt, budget: 1}))
		w.live(4)
		w.phase("c@r2", rollout.Failed)
		w.expect(failed + "=failed/two")
		if b := w.s.Budgets()[0]; b.InFlight != 1 {
			t.Fatalf("the failed host holds %d slots", b.InFlight)
		}
		w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0 h1", target: bundles[2], policy: fleet.Halt, budget: 1}))
		w.live(8)
		w.phase("c@r3", rollout.Terminal)
		w.expect("h0=converged/three h1=converged/three")
		if got := w.hosts[failed].agent.Machine.From; got != bundles[0] {
			t.Fatalf("S21: the fix would go back to %s", bundleName(got))
		}
	}
}

func TestS8HostBackInAnEarlierWaveIsWaitedFor(t *testing.T) {
	w := onOne(t, "h0 h1 h2 h3")
	w.presence("h0", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2 | h3", target: bundles[1]}))
	for w.s.Find("c@r2") == nil || w.s.Find("c@r2").Cursor == 0 {
		w.live(1)
	}
	w.presence("h0", true)
	h0 := w.hosts["h0"]
	w.tick()
	h0.poll()
	h0.prepare(true)
	h0.claim(false)
	h0.online = false // it is activating, and says nothing more
	w.live(2)
	if r := w.phase("c@r2", rollout.Active); r.Cursor != 1 {
		t.Fatalf("wave %d is open while a host of the first is activating", r.Cursor)
	}
	h0.online = true
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h3=converged/two")
}

func TestS16QueueKeepsTheLatest(t *testing.T) {
	w := onOne(t, "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
	w.tick()
	for _, r := range []string{"r3", "r4"} {
		w.release(fleet.Queue, w.manifest(spec{ref: r, waves: "h0", target: bundles[2]}))
		w.tick()
	}
	w.live(6)
	w.phase("c@r4", rollout.Terminal)
	if w.s.Find("c@r3") != nil {
		t.Fatal("a ref that was replaced in the queue was opened")
	}
}

func TestS16SupersedeEndsOffersAndRefusesClaims(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Supersede, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1]}))
	w.tick()
	grant := w.s.Hosts["h0"].Grant.ID
	w.hosts["h1"].poll()
	w.hosts["h1"].prepare(true)
	w.hosts["h1"].claim(false)
	w.release(fleet.Supersede, w.manifest(spec{ref: "r3", waves: "h0 h1", target: bundles[2]}))
	w.tick()
	w.phase("c@r2", rollout.Superseded)
	if _, err := plan.Claim(w.s, "h0", grant, w.now); err == nil {
		t.Fatal("a claim of a superseded rollout was accepted")
	}
	w.live(6)
	w.phase("c@r3", rollout.Terminal)
	w.expect("h0=converged/three h1=converged/three")
}

func TestS13ReturningHostGetsLastConvergedUntilItsWaveOpens(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.presence("h1", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]}))
	w.live(4)
	w.phase("c@r2", rollout.Terminal)
	w.hosts["h0"].online = false
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0 | h1", target: bundles[2]}))
	w.tick() // h0 is granted and does nothing
	w.presence("h1", true)
	w.hosts["h0"].online = false
	w.live(2)
	w.expect("h1=converged/two")
	w.presence("h0", true)
	w.live(8)
	w.expect("h0=converged/three h1=converged/three")
}

func TestS13HaltDoesNotTakeHealthyHostsBack(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 | h2", target: bundles[1], policy: fleet.Halt}))
	w.live(8)
	w.phase("c@r2", rollout.Failed)
	w.expect("h0=converged/two h1=failed/two h2=converged/one")
}

func TestS10SilentHostFailsAndKeepsItsSlotUntilItReports(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], budget: 1, confirm: 30 * clock.Second}))
	w.tick()
	h0 := w.hosts["h0"]
	h0.poll()
	h0.prepare(true)
	h0.claim(false)
	w.presence("h0", false)
	w.now = w.now.Add(29 * clock.Second)
	w.tick()
	if w.s.Hosts["h0"].SilentFailure {
		t.Fatal("failed before its deadline")
	}
	w.now = w.now.Add(clock.Second)
	w.tick()
	if !w.s.Hosts["h0"].SilentFailure || w.s.Budgets()[0].InFlight != 1 {
		t.Fatal("the silent host is not failed, or its slot is free")
	}
	w.phase("c@r2", rollout.Failed) // nobody is sent back on the word of silence
	if n := w.count(event.Granted{}, "h1"); n != 1 {
		t.Fatalf("h1 was granted %d times", n)
	}
	h0.activated(true)
	w.presence("h0", true)
	w.live(2)
	if w.s.Hosts["h0"].SilentFailure || w.s.Budgets()[0].InFlight != 0 {
		t.Fatalf("the host reported and still counts as silent\n%s", w.tail())
	}
}

func TestS22FailureProvenLateStillSendsTheOthersBack(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], confirm: 30 * clock.Second}))
	w.tick()
	for _, n := range []string{"h0", "h1"} {
		w.hosts[n].poll()
		w.hosts[n].prepare(true)
		w.hosts[n].claim(false)
	}
	w.presence("h0", false)
	w.now = w.now.Add(31 * clock.Second)
	w.tick()
	w.phase("c@r2", rollout.Failed)
	w.live(2)
	w.expect("h1=converged/two")
	w.presence("h0", true)
	w.live(6)
	w.phase("c@r2", rollout.Reverted)
	w.expect("h0=reverted/one h1=reverted/one")
}

func TestS8AllAtTargetEndsWithoutAGrant(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[0]}))
	w.live(2)
	w.phase("c@r2", rollout.Terminal)
	if n := w.count(event.Granted{}, ""); n != 2 {
		t.Fatalf("%d grants, of which two were for the first release", n)
	}
}

func TestS1NewIncarnationFreesTheSlot(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], budget: 1}))
	w.tick()
	w.hosts["h0"].poll()
	w.hosts["h0"].prepare(true)
	w.hosts["h0"].claim(false)
	w.enrol("h0")
	if w.s.Budgets()[0].InFlight != 0 {
		t.Fatal("the slot is still held")
	}
	w.live(3)
	w.expect("h1=converged/two")
	w.presence("h0", true)
	w.live(4)
	w.expect("h0=converged/two")
}

func TestS18PauseRefusesClaimsAndResumeGoesOn(t *testing.T) {
	w := onOne(t, "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
	w.tick()
	w.operate(plan.Pause, "c@r2")
	w.hosts["h0"].poll()
	w.hosts["h0"].prepare(true)
	w.hosts["h0"].claim(false)
	w.expect("h0=converged/one")
	w.live(8)
	w.expect("h0=converged/one")
	w.operate(plan.Resume, "c@r2")
	w.live(4)
	w.expect("h0=converged/two")
}

func TestS13HostThatMovedIsNotPassedToAndFro(t *testing.T) {
	w := scene(t, "h0 h1 h2")
	w.release(fleet.Queue, w.manifest(spec{channel: "a", ref: "r1", waves: "h0 h1", target: bundles[0]}),
		w.manifest(spec{channel: "b", ref: "r1", waves: "h2", target: bundles[1]}))
	w.live(4)
	w.hosts["h0"].online = false // keeps channel a's next rollout from ending
	w.presence("h0", false)
	w.release(fleet.Queue, w.manifest(spec{channel: "a", ref: "r2", waves: "h0", target: bundles[2]}),
		w.manifest(spec{channel: "b", ref: "r2", waves: "h1 h2", target: bundles[3]}))
	w.live(12)
	w.expect("h1=converged/four h2=converged/four")
	if n := w.count(event.Granted{}, "h1"); n != 2 {
		t.Fatalf("S13: h1 was granted %d times\n%s", n, w.tail())
	}
}

func TestS22HostThatReturnsAfterTheRevertGoesBackToo(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2", target: bundles[1]}))
	for w.s.Hosts["h0"].Machine.Phase != host.Converged || w.s.Hosts["h0"].Machine.Current != bundles[1] {
		w.live(1)
	}
	w.presence("h0", false)
	w.live(8)
	w.phase("c@r2", rollout.Reverted)
	w.expect("h0=converged/two h1=reverted/one")
	w.presence("h0", true)
	w.live(4)
	w.expect("h0=reverted/one")
}

func TestS13HostLeftOnARevertedReleaseGetsTheLastConverged(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2", target: bundles[1]}))
	for w.s.Hosts["h0"].Machine.Current != bundles[1] || w.s.Hosts["h0"].Machine.Phase != host.Converged {
		w.live(1)
	}
	w.presence("h0", false)
	w.live(8)
	w.phase("c@r2", rollout.Reverted)
	w.presence("h1", false) // so that the first wave of the fix cannot be proven
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h1 | h0 h2", target: bundles[2]}))
	w.live(2)
	w.presence("h0", true)
	w.live(4)
	w.expect("h0=converged/one h2=reverted/one")
	w.presence("h1", true)
	w.live(6)
	w.expect("h0=converged/three h1=converged/three h2=converged/three")
}

func TestS15RevertedPredecessorKeepsItsChannelShut(t *testing.T) {
	w := scene(t, "h0 h1")
	w.edges = []fleet.ChannelEdge{{Gates: "a", Gated: "b", Reason: "a first"}}
	w.breakOn(bundles[1], "h0")
	both := func(ref string, d digest.Digest) {
		w.release(fleet.Queue, w.manifest(spec{channel: "a", ref: ref, waves: "h0", target: d}),
			w.manifest(spec{channel: "b", ref: ref, waves: "h1", target: d}))
	}
	both("r1", bundles[0])
	w.live(6)
	both("r2", bundles[1])
	w.live(8)
	w.phase("a@r2", rollout.Reverted)
	w.expect("h0=reverted/one h1=converged/one")
	both("r3", bundles[2])
	w.live(8)
	w.expect("h0=converged/three h1=converged/three")
}

func TestS15CancelOpensTheWayPastARevertedPredecessor(t *testing.T) {
	w := scene(t, "h0 h1")
	w.edges = []fleet.ChannelEdge{{Gates: "a", Gated: "b", Reason: "a first"}}
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{channel: "a", ref: "r2", waves: "h0", target: bundles[1]}),
		w.manifest(spec{channel: "b", ref: "r2", waves: "h1", target: bundles[1]}))
	w.live(6)
	w.phase("a@r2", rollout.Reverted)
	if w.s.Find("b@r2") != nil {
		t.Fatal("the gated channel opened")
	}
	w.operate(plan.Cancel, "a@r2")
	w.live(4)
	w.phase("b@r2", rollout.Terminal)
}

func TestS14EdgeWaitsForItsPredecessor(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], after: map[string][]string{"h0": {"h1"}}}))
	w.tick()
	if w.s.Hosts["h0"].Grant != nil || w.s.Hosts["h1"].Grant == nil {
		t.Fatal("the gated host went first")
	}
	a, err := plan.Why(w.s, "h0", w.now)
	if err != nil || a.Block == nil || a.Block.Code != "host-edge" || !strings.Contains(a.Block.WaitsFor, "h1") {
		t.Fatalf("L5: why says %+v, %v", a, err)
	}
	w.live(4)
	w.expect("h0=converged/two h1=converged/two")
}

func TestL5WhyNamesTheRolloutThatIsNotOpenYet(t *testing.T) {
	w := scene(t, "h0 h1")
	w.edges = []fleet.ChannelEdge{{Gates: "a", Gated: "b", Reason: "a first"}}
	w.release(fleet.Queue, w.manifest(spec{channel: "a", ref: "r1", waves: "h0", target: bundles[0]}),
		w.manifest(spec{channel: "b", ref: "r1", waves: "h1", target: bundles[0]}))
	w.tick()
	a, err := plan.Why(w.s, "h1", w.now)
	if err != nil || a.Pending != "b@r1" || a.PendingBlock == nil || a.PendingBlock.Code != "channel-edge" || !strings.Contains(a.Words, "a@r1") {
		t.Fatalf("why says %+v, %v", a, err)
	}
	w.live(6)
	w.release(fleet.Queue, w.manifest(spec{channel: "b", ref: "r2", waves: "h1", target: bundles[1]}))
	w.tick()
	w.release(fleet.Queue, w.manifest(spec{channel: "b", ref: "r3", waves: "h1", target: bundles[2]}))
	w.tick()
	a, err = plan.Why(w.s, "h1", w.now)
	if err != nil || a.Rollout != "b@r2" || a.Pending != "b@r3" || a.PendingBlock == nil || a.PendingBlock.Code != "queue" {
		t.Fatalf("why says %+v, %v", a, err)
	}
}

func TestReportOfAHostIsCheckedWhole(t *testing.T) {
	w := onOne(t, "h0 h1")
	h := w.s.Hosts["h0"]
	entry := func(name string, seq uint64, ev event.Event) event.Entry {
		e, err := event.NewEntry(1, name, ev)
		if err != nil {
			t.Fatal(err)
		}
		e.Incarnation, e.HostSeq = h.Incarnation, seq
		return e
	}
	good := entry("h0", h.Seq+1, event.FileKept{Path: "/etc/x"})
	for what, second := range map[string]event.Entry{
		"a server's event":  entry("h0", h.Seq+2, event.QuarantineCleared{Channel: "c", Digest: bundles[0]}),
		"another host's":    entry("h1", h.Seq+2, event.FileKept{}),
		"a gap":             entry("h0", h.Seq+3, event.FileKept{}),
		"an unknown input":  entry("h0", h.Seq+2, event.HostStepped{Input: "dance", Data: []byte("{}")}),
		"a malformed input": entry("h0", h.Seq+2, event.HostStepped{Input: "claimed", Data: []byte("[]")}),
	} {
		before := string(w.json(w.s))
		_, err := plan.Ingest(w.s, "h0", []event.Entry{good, second}, event.HostHead{}, w.now)
		if _, ok := err.(*plan.ReportError); !ok || string(w.json(w.s)) != before {
			t.Errorf("%s: %v, state changed: %t", what, err, string(w.json(w.s)) != before)
		}
	}
	if _, err := plan.Ingest(w.s, "nobody", nil, event.HostHead{}, w.now); err == nil || w.s.Hosts["nobody"] != nil {
		t.Error("an unknown host was made by its report")
	}
}

func TestS19IllegalStepIsRecordedAndNotFollowed(t *testing.T) {
	w := onOne(t, "h0")
	h := w.s.Hosts["h0"]
	e, err := event.NewEntry(1, "h0", event.HostStepped{Rollout: "c@r1", Manifest: h.Machine.Manifest, Input: "elapsed",
		Data: []byte("{}"), From: host.Converged, To: host.Reverted})
	if err != nil {
		t.Fatal(err)
	}
	e.Incarnation, e.HostSeq = 1, h.Seq+1
	entries, err := plan.Ingest(w.s, "h0", []event.Entry{e}, event.HostHead{}, w.now)
	if err != nil || h.Machine.Phase != host.Converged || len(entries) != 3 || entries[1].Type != (event.MirrorDiverged{}).EventType() {
		t.Fatalf("phase %s, entries %+v, %v", h.Machine.Phase, entries, err)
	}
}

// TestEveryEventTypeIsFolded offers every type with an empty body: it is folded
// or refused for what it says, never unknown and never a panic.
func TestEveryEventTypeIsFolded(t *testing.T) {
	for _, name := range event.Types() {
		err := plan.New(documents{}).Apply(event.Entry{Type: name, Host: "h", Body: []byte("{}")})
		if _, unknown := err.(*event.UnknownTypeError); unknown {
			t.Errorf("event %s is not folded", name)
		}
	}
	if err := plan.New(documents{}).Apply(event.Entry{Type: "host.danced", Body: []byte("{}")}); err == nil {
		t.Error("an unknown type was folded")
	}
}
