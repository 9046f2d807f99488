package forecast

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

type library map[digest.Digest]*rollout.Manifest

func (l library) Manifest(d digest.Digest) (*rollout.Manifest, error) {
	if m := l[d]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("there is no manifest %s", d.Short())
}

const start clock.Instant = 1_800_000_000_000

// sketch is a fleet of one channel: how many hosts each wave has, and more.
type sketch struct {
	waves   []int
	soak    clock.Duration
	min     int
	budget  int // over all hosts; 0 for none
	chain   bool
	policy  fleet.OnHealthFailure
	allowed int
	probes  []fleet.Probe
}

func (k sketch) fleet() *Fleet {
	h := &fleet.Manifest{Document: fleet.Document{Type: fleet.TypeManifest, Fleet: "f", Epoch: 1, Version: 1}, Channel: "stable", Ref: "v1", Probes: k.probes,
		Policy: fleet.Policy{Name: "p", MaxFailures: k.allowed, OnHealthFailure: k.policy, ConfirmWindow: 2 * clock.Minute,
			ActivationDeadline: 10 * clock.Minute, SustainedFailure: clock.Minute, GrantExpiry: 10 * clock.Minute}}
	m := &rollout.Manifest{Header: h}
	f := &Fleet{Tags: map[string][]string{}, Start: start, Horizon: clock.Day}
	target := digest.Of([]byte("bundle"))
	for w, n := range k.waves {
		h.Waves = append(h.Waves, fleet.Wave{Name: fmt.Sprintf("w%d", w), Soak: k.soak, MinSoaked: k.min, Hosts: n})
		for i := range n {
			leaf := fleet.Leaf{Host: fmt.Sprintf("h%d-%05d", w, i), Wave: w, Target: target}
			for p := range k.probes {
				leaf.Probes = append(leaf.Probes, p)
			}
			if k.budget > 0 {
				leaf.Budgets = []int{0}
			}
			if k.chain && len(f.Hosts) > 0 {
				leaf.After = []string{f.Hosts[len(f.Hosts)-1]}
			}
			f.Hosts = append(f.Hosts, leaf.Host)
			m.Leaves = append(m.Leaves, leaf)
		}
	}
	if k.budget > 0 {
		raw, _ := json.Marshal(f.Hosts)
		h.Budgets = []fleet.Budget{{Selector: "all", Max: k.budget, Members: digest.Of(raw)}}
		m.Members = [][]string{f.Hosts}
	}
	h.LeafCount = len(m.Leaves)
	head, _ := json.Marshal(h)
	m.Digest = digest.Of(head)
	f.Docs = library{m.Digest: m}
	f.Release = event.ReleaseAccepted{Version: 1, Epoch: 1, Ref: "v1", Channels: []event.ChannelRelease{{Channel: "stable", FreshnessWindow: clock.Day,
		ReconcileInterval: 30 * clock.Second, OnNewRef: fleet.Queue, Manifests: []fleet.ManifestRef{{Rollout: "stable@v1", Digest: m.Digest, Version: 1}}}}}
	return f
}

func run(t *testing.T, f *Fleet, a Assumptions, runs int) *Report {
	t.Helper()
	r := testkit.Value(Run(t.Context(), f, a, runs, 7, nil))(t)
	return r
}

// TestFailedHostsCanUseABudgetUp shows what the build warns of: under the policy
// halt a budget that is not above the allowed failures is used up by failed hosts,
// and the rollout neither goes on nor halts; one more and it halts.
func TestFailedHostsCanUseABudgetUp(t *testing.T) {
	for budget, halts := range map[int]int{2: 0, 3: 3} {
		k := sketch{waves: []int{6}, budget: budget, policy: fleet.Halt, allowed: 2}
		r := run(t, k.fleet(), Assumptions{Failure: []Rate{{Part: 1}}, Activation: always(minute)}, 3)
		if o := r.Rollouts[0]; o.Halted != halts || o.Blocked != 3-halts {
			t.Errorf("a budget of %d: %+v", budget, o)
		}
	}
}

func always(d clock.Duration) Range { return Range{Min: d, Max: d} }

const minute = clock.Minute

// TestNoFailureConvergesInTheLeastTime compares with times worked out by hand: a
// wave takes an activation and its soak for as many turns as its budget asks for.
func TestNoFailureConvergesInTheLeastTime(t *testing.T) {
	for _, c := range []struct {
		name     string
		sketch   sketch
		prepare  clock.Duration
		promoted []clock.Duration
	}{
		{"one wave", sketch{waves: []int{3}}, 0, []clock.Duration{minute}},
		{"one wave that soaks", sketch{waves: []int{3}, soak: 5 * minute}, 0, []clock.Duration{6 * minute}},
		{"preparing counts", sketch{waves: []int{3}}, 10 * clock.Second, []clock.Duration{70 * clock.Second}},
		{"two waves", sketch{waves: []int{1, 4}, soak: 5 * minute, min: 1}, 0, []clock.Duration{6 * minute, 12 * minute}},
		// four hosts, two at a time, each for an activation and a soak
		{"a budget of two", sketch{waves: []int{4}, soak: 2 * minute, budget: 2}, 0, []clock.Duration{6 * minute}},
		// one; then five hosts, two at a time: three turns
		{"a budget in the second wave", sketch{waves: []int{1, 5}, soak: 2 * minute, budget: 2}, 0, []clock.Duration{3 * minute, 12 * minute}},
		// each host after the one before it
		{"a chain", sketch{waves: []int{3}, soak: minute, chain: true}, 0, []clock.Duration{6 * minute}},
		{"a wave without hosts", sketch{waves: []int{1, 0, 1}}, 0, []clock.Duration{minute, minute, 2 * minute}},
		// a probe is looked at as soon as the activation is complete
		{"a probe", sketch{waves: []int{2}, soak: minute, probes: []fleet.Probe{{Name: "p", Mode: fleet.Enforce, Interval: minute}}}, 0, []clock.Duration{2 * minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := run(t, c.sketch.fleet(), Assumptions{Activation: always(minute), Prepare: always(c.prepare)}, 3)
			if r.Finished != 3 || r.Rollouts[0].Converged != 3 {
				t.Fatalf("%d of 3 runs converged: %+v", r.Finished, r.Rollouts[0])
			}
			for i, want := range c.promoted {
				if got := r.Rollouts[0].Waves[i].Promoted; got.Best != want || got.Worst != want {
					t.Errorf("wave %d is promoted after %s to %s, by hand %s", i, got.Best, got.Worst, want)
				}
			}
			if want := c.promoted[len(c.promoted)-1]; r.Finish.Best != want || r.Finish.Worst != want {
				t.Errorf("finished after %s to %s, by hand %s", r.Finish.Best, r.Finish.Worst, want)
			}
			if c.sketch.budget > 0 && (r.Budgets[0].Peak != c.sketch.budget || r.PeakInFlight != c.sketch.budget) {
				t.Errorf("the budget of %d was used up to %d", c.sketch.budget, r.Budgets[0].Peak)
			}
		})
	}
}

// TestP2EveryHostFailingStaysInTheFirstWave has every activation fail, in every
// way that there is: the rollout always stops in its first wave and no host of
// another is ever touched.
func TestP2EveryHostFailingStaysInTheFirstWave(t *testing.T) {
	probe := []fleet.Probe{{Name: "p", Mode: fleet.Enforce, Interval: minute}}
	for _, policy := range []fleet.OnHealthFailure{fleet.RollbackAndHalt, fleet.Halt} {
		for _, k := range []sketch{
			{waves: []int{2, 20}, soak: minute},
			{waves: []int{3, 20}, soak: minute, probes: probe},
			{waves: []int{4, 4, 20}, allowed: 2, probes: probe, budget: 3},
			{waves: []int{1, 20}, min: 1, budget: 1},
		} {
			k.policy = policy
			const runs = 30
			r := run(t, k.fleet(), Assumptions{Failure: []Rate{{Part: 1}}, Activation: Range{30 * clock.Second, 5 * minute}}, runs)
			got := r.Rollouts[0]
			if got.Waves[0].Stopped != runs || got.Converged != 0 || r.Finished != 0 {
				t.Errorf("%s %+v: stopped in the first wave in %d of %d runs, converged in %d", policy, k, got.Waves[0].Stopped, runs, got.Converged)
			}
			if policy == fleet.Halt && got.Halted != runs || policy == fleet.RollbackAndHalt && got.Reverted != runs {
				t.Errorf("%s %+v: %d halted, %d reverted", policy, k, got.Halted, got.Reverted)
			}
			if got.Affected.Worst > k.waves[0] || got.Waves[1].Reached != 0 {
				t.Errorf("%s %+v: P2: %d hosts touched, the first wave has %d", policy, k, got.Affected.Worst, k.waves[0])
			}
			if got.Affected.Worst <= k.allowed {
				t.Errorf("%s %+v: it stopped although only %d hosts were touched and %d may fail", policy, k, got.Affected.Worst, k.allowed)
			}
		}
	}
}

// TestOfflineFirstWaveHolds names what holds a rollout that never finishes.
func TestOfflineFirstWaveHolds(t *testing.T) {
	f := sketch{waves: []int{2, 5}, min: 1}.fleet()
	r := run(t, f, Assumptions{Offline: []Rate{{Host: "h0-00000", Part: 1}, {Host: "h0-00001", Part: 1}}, Activation: always(minute)}, 4)
	got := r.Rollouts[0]
	if got.Blocked != 4 || r.Finished != 0 || len(got.Obstacles) != 1 || got.Obstacles[0].Runs != 4 {
		t.Fatalf("%+v", got)
	}
	if h := got.Obstacles[0]; h.Message != "wave w0 needs 1 of 2 hosts to converge (minSoaked), 0 have; 2 are offline" || h.Host != "h0-00000" || h.HostBlock.Code != "presence" {
		t.Errorf("held by %+v, %+v", h.Block, h.HostBlock)
	}
}

// TestRates draws as often as asked for, and gives hosts and tags their own.
func TestRates(t *testing.T) {
	f := sketch{waves: []int{400}, allowed: 400}.fleet()
	f.Tags["h0-00007"], f.Tags["h0-00008"] = []string{"gpu"}, []string{"gpu"}
	a := Assumptions{Failure: []Rate{{Part: 0.2}, {Tag: "gpu", Part: 1}, {Host: "h0-00008"}}}
	failed, gpu := 0, 0
	for seed := range uint64(20) {
		d := &Drawn{Assumptions: a, Seed: seed, Tags: f.Tags}
		for _, h := range f.Hosts {
			b := d.Behave(h, &fleet.HostPlan{Target: "t"})
			if again := d.Behave(h, &fleet.HostPlan{Target: "t"}); again.Fails != b.Fails {
				t.Fatalf("host %s is drawn anew", h)
			}
			switch {
			case h == "h0-00007" && b.Fails != "":
				gpu++
			case h == "h0-00008" && b.Fails != "":
				t.Errorf("host %s has a rate of 0 of its own and fails", h)
			case b.Fails != "":
				failed++
			}
		}
	}
	if gpu != 20 || failed < 1400 || failed > 1800 { // 8 000 draws at 0.2
		t.Errorf("%d of 20 with the tag's rate, %d of 8000 at 0.2", gpu, failed)
	}
}

// TestSameSeedSameForecast is one seed, one report.
func TestSameSeedSameForecast(t *testing.T) {
	f := sketch{waves: []int{2, 10, 30}, soak: minute, min: 1, budget: 5, allowed: 1}.fleet()
	a := Assumptions{Failure: []Rate{{Part: 0.1}}, Offline: []Rate{{Part: 0.1}}, Activation: Range{30 * clock.Second, 5 * minute}, Latency: 50}
	x, _ := json.Marshal(run(t, f, a, 20))
	y, _ := json.Marshal(run(t, f, a, 20))
	if string(x) != string(y) {
		t.Errorf("one seed gave two reports:\n%s\n%s", x, y)
	}
}
