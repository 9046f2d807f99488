package plan_test

import (
	"cmp"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
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
	confirm, soak       clock.Duration
	budget              int // most in flight of all hosts; zero: none
	after               map[string][]string
	targets             map[string]digest.Digest
	canaryMax           int
	windows             []string // of someWindows, for every host
	wiped               string   // the host that is
}

func (w *world) manifest(sp spec) *rollout.Manifest {
	m := &rollout.Manifest{Header: &fleet.Manifest{Channel: cmp.Or(sp.channel, "c"), Ref: cmp.Or(sp.ref, "r"),
		Policy: fleet.Policy{OnHealthFailure: fleet.OnHealthFailure(cmp.Or(string(sp.policy), string(fleet.RollbackAndHalt))), MaxFailures: sp.maxFailures,
			ConfirmWindow: sp.confirm, ActivationDeadline: clock.Minute, GrantExpiry: clock.Minute},
		Probes: []fleet.Probe{{Name: "up", Mode: fleet.Enforce}}}}
	m.Header.Version, m.Header.Epoch = uint64(len(w.docs)+1), w.s.Root.Epoch
	m.Header.Windows, m.Header.CanaryMax = someWindows(sp.windows), sp.canaryMax
	var all []string
	for i, names := range strings.Split(sp.waves, "|") {
		m.Header.Waves = append(m.Header.Waves, fleet.Wave{Name: "w" + string(rune('0'+i)), MinSoaked: sp.minSoaked, Soak: sp.soak})
		for _, name := range strings.Fields(names) {
			leaf := fleet.Leaf{Host: name, Wave: i, Target: sp.target, Probes: []int{0}, After: sp.after[name]}
			for k := range sp.windows {
				leaf.Windows = append(leaf.Windows, k)
			}
			if name == sp.wiped {
				leaf.Removed = fleet.Wipe
			}
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
		if e.Type == ev.EventType() && (host == "" || e.Host() == host) {
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
