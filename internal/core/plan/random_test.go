package plan_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Which invariant is checked where:
//
//	S1 S2 S7 S8 S10 S11 S13 S14 S15 S16 S17 S18 S22 S23 S24 S28 S29 S30 S40
//	             audit.Log, over every committed entry
//	S9 S19 S20 S21  audit.Log and machine.agree; package host's own properties
//	S12 L1 L2 L3    TestL1L2L3EverythingSettles
//	S25 S26         checkReplay, before every tick
//	S27             world.tick
//	L5              audit.Check, after every tick
//	S31 S33         the store and the server runtime: terms and durability are not the planner's

var bundles = []digest.Digest{digest.Of([]byte("one")), digest.Of([]byte("two")), digest.Of([]byte("three")), digest.Of([]byte("four"))}

// homes says in which channel each host is; h3 moves now and then.
type homes map[string]string

func drawManifest(t *rapid.T, w *world, channel string, hosts []string, all []string) *rollout.Manifest {
	waves := rapid.IntRange(1, 3).Draw(t, "waves")
	m := &rollout.Manifest{Header: &fleet.Manifest{Channel: channel, Ref: "r" + strconv.FormatUint(w.version+1, 10)}}
	m.Header.Version = w.version + 1
	if rapid.IntRange(0, 9).Draw(t, "sameRef") == 0 {
		m.Header.Ref = "same"
	}
	m.Header.Policy = fleet.Policy{Name: "p", MaxFailures: rapid.IntRange(0, 1).Draw(t, "maxFailures"),
		OnHealthFailure: rapid.SampledFrom([]fleet.OnHealthFailure{fleet.Halt, fleet.RollbackAndHalt}).Draw(t, "policy"),
		ConfirmWindow:   clock.Duration(rapid.SampledFrom([]int{0, 30}).Draw(t, "confirm")) * clock.Second, ActivationDeadline: clock.Minute,
		SustainedFailure: clock.Duration(rapid.SampledFrom([]int{0, 20}).Draw(t, "sustained")) * clock.Second, GrantExpiry: clock.Minute}
	for i := range waves {
		m.Header.Waves = append(m.Header.Waves, fleet.Wave{Name: "w" + strconv.Itoa(i), MinSoaked: rapid.IntRange(0, 2).Draw(t, "minSoaked"),
			Soak: clock.Duration(rapid.SampledFrom([]int{0, 15}).Draw(t, "soak")) * clock.Second})
	}
	for i, mode := range []fleet.ProbeMode{fleet.Enforce, fleet.Observe, fleet.Enforce}[:rapid.IntRange(0, 3).Draw(t, "probes")] {
		m.Header.Probes = append(m.Header.Probes, fleet.Probe{Name: "p" + strconv.Itoa(i), Mode: mode})
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "budgets") {
		members := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, len(all), rapid.ID[string]).Draw(t, "members")
		slices.Sort(members)
		m.Header.Budgets = append(m.Header.Budgets, fleet.Budget{Selector: "b" + strconv.Itoa(i), Max: rapid.IntRange(1, 2).Draw(t, "max")})
		m.Members = append(m.Members, members)
	}
	m.Header.CanaryMax = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "canaryMax") // less than a first wave too: the planner keeps it by itself
	m.Header.Windows = someWindows(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"even", "third"}), 0, 2, rapid.ID[string]).Draw(t, "windows"))
	target := rapid.SampledFrom(bundles).Draw(t, "target")
	for k, name := range hosts {
		leaf := fleet.Leaf{Host: name, Wave: rapid.IntRange(0, waves-1).Draw(t, "wave"), Target: target}
		if rapid.IntRange(0, 4).Draw(t, "other") == 0 {
			leaf.Target = rapid.SampledFrom(bundles).Draw(t, "otherTarget")
		}
		if k > 0 && rapid.IntRange(0, 4).Draw(t, "edge") == 0 {
			leaf.After = []string{hosts[rapid.IntRange(0, k-1).Draw(t, "after")]}
		}
		for i := range m.Header.Probes {
			leaf.Probes = append(leaf.Probes, i)
		}
		for i := range m.Header.Windows {
			if rapid.Bool().Draw(t, "inWindow") {
				leaf.Windows = append(leaf.Windows, i)
			}
		}
		for i, members := range m.Members {
			if slices.Contains(members, name) {
				leaf.Budgets = append(leaf.Budgets, i)
			}
		}
		m.Leaves = append(m.Leaves, leaf)
	}
	return w.docs.add(m)
}

// drawRelease changes one or both channels.
func drawRelease(t *rapid.T, w *world, home homes) {
	all := w.names()
	changed := map[string]bool{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "channel"): true}
	if rapid.IntRange(0, 2).Draw(t, "both") == 0 {
		changed["a"], changed["b"] = true, true
	}
	if rapid.IntRange(0, 5).Draw(t, "move") == 0 {
		home["h3"] = map[string]string{"a": "b", "b": "a"}[home["h3"]]
		changed["a"], changed["b"] = true, true
	}
	w.edges = nil
	if rapid.IntRange(0, 3).Draw(t, "channelEdge") == 0 {
		w.edges = []fleet.Edge{{Gates: "a", Gated: "b", Reason: "a first"}}
	}
	var ms []*rollout.Manifest
	for _, c := range []string{"a", "b"} {
		var hosts []string
		for _, n := range all {
			if home[n] == c {
				hosts = append(hosts, n)
			}
		}
		if changed[c] && len(hosts) > 0 {
			ms = append(ms, drawManifest(t, w, c, hosts, all))
		}
	}
	w.release(rapid.SampledFrom([]fleet.OnNewRef{fleet.Queue, fleet.Queue, fleet.Supersede}).Draw(t, "onNewRef"), ms...)
}

// checkReplay checks S25 and S26: the log folds to the live state, and a state
// from the log or from a snapshot plans the same. Then it plans, which is all that a
// world has of it whose test is about something else.
func checkReplay(t *rapid.T, w *world) {
	if w.other {
		w.tick()
		return
	}
	cold, snap, live := w.fold(len(w.log)), w.restored(), w.json(w.s)
	for what, s := range map[string]*plan.State{"the log": cold, "a snapshot": snap} {
		if got := w.json(s); !bytes.Equal(got, live) {
			t.Fatalf("S25: %s gives another state\n%s\nlive\n%s\n%s", what, got, live, w.tail())
		}
	}
	a, errA := plan.Next(cold, w.now)
	b, errB := plan.Next(snap, w.now)
	p, err := plan.Next(w.s, w.now)
	for what, q := range map[string]*plan.Plan{"the log": a, "a snapshot": b} {
		if x, y := decisions(q), decisions(p); x != y || errA != nil || errB != nil {
			t.Fatalf("S26: a state from %s plans\n%s%v %v\nlive\n%s\n%s", what, x, errA, errB, y, w.tail())
		}
	}
	w.commit(p.Events, err)
}

func decisions(p *plan.Plan) string {
	out := ""
	for _, d := range p.Events {
		out += d.Type + " " + d.Host() + " " + string(d.Body) + "\n"
	}
	return out
}

// someHost draws a host.
func someHost(t *rapid.T, w *world) *machine {
	return w.hosts[rapid.SampledFrom(w.names()).Draw(t, "host")]
}

// someRollout draws one that is not pruned.
func someRollout(t *rapid.T, w *world) *rollout.Rollout {
	if len(w.s.Order) == 0 {
		t.Skip("no rollout")
	}
	return w.s.Rollouts[rapid.SampledFrom(w.s.Order).Draw(t, "rollout")]
}

// press tries an operator's verb; one that does not apply decides nothing.
func (w *world) press(t *rapid.T, verb func() ([]event.Entry, error)) {
	entries, err := verb()
	if _, refused := err.(*plan.VerbError); refused {
		t.Skip("refused")
	}
	w.commit(entries, err)
}

// actions is what may happen to a world.
func actions(w *world, home homes) map[string]func(*rapid.T) {
	on := func(do func(*rapid.T, *machine)) func(*rapid.T) {
		return func(t *rapid.T) { do(t, someHost(t, w)) }
	}
	verb := func(v plan.Verb) func(*rapid.T) {
		return func(t *rapid.T) {
			id := string(someRollout(t, w).Manifest)
			w.press(t, func() ([]event.Entry, error) { return plan.Operate(w.s, v, id, "because", "ada", w.now) })
		}
	}
	return map[string]func(*rapid.T){
		"release": func(t *rapid.T) { drawRelease(t, w, home) },
		"advance": func(t *rapid.T) {
			w.now = w.now.Add(clock.Duration(rapid.SampledFrom([]int{1, 5, 20, 61, 700}).Draw(t, "seconds")) * clock.Second)
		},
		"stale":   func(t *rapid.T) { w.now = w.now.Add(25 * clock.Hour) },
		"refresh": func(t *rapid.T) { w.refresh() },
		"online":  on(func(t *rapid.T, m *machine) { w.presence(m.name, true) }),
		"offline": on(func(t *rapid.T, m *machine) { w.presence(m.name, false) }),
		"work":    on(func(t *rapid.T, m *machine) { m.work() }),
		"all work": func(t *rapid.T) {
			for _, name := range w.names() {
				w.hosts[name].work()
			}
		},
		"poll":     on(func(t *rapid.T, m *machine) { m.poll(); m.prepare(true) }),
		"no room":  on(func(t *rapid.T, m *machine) { m.poll(); m.prepare(false) }),
		"claim":    on(func(t *rapid.T, m *machine) { m.claim(rapid.Bool().Draw(t, "lost")) }),
		"activate": on(func(t *rapid.T, m *machine) { m.activated(rapid.IntRange(0, 4).Draw(t, "fails") > 0) }),
		"revert":   on(func(t *rapid.T, m *machine) { m.reverted(rapid.IntRange(0, 3).Draw(t, "fails") > 0) }),
		"probe":    on(func(t *rapid.T, m *machine) { m.probe() }),
		"fail":     on(func(t *rapid.T, m *machine) { m.probed("p0", false) }),
		"break":    on(func(t *rapid.T, m *machine) { m.broken[rapid.SampledFrom(bundles).Draw(t, "bundle")] = true }),
		"mend":     on(func(t *rapid.T, m *machine) { clear(m.broken) }),
		"elapse":   on(func(t *rapid.T, m *machine) { m.elapse() }),
		"restart":  on(func(t *rapid.T, m *machine) { m.restart(rapid.Bool().Draw(t, "reboot")) }),
		"drift": on(func(t *rapid.T, m *machine) {
			m.drifts(true, rapid.SampledFrom([]string{"exec/app", "exec/proxy"}).Draw(t, "resource"))
		}),
		"common cause": func(*rapid.T) {
			for _, name := range w.names() {
				w.hosts[name].drifts(true, "exec/app")
			}
		},
		"heal":    on(func(t *rapid.T, m *machine) { m.drifts(false, "exec/app", "exec/proxy") }),
		"repair":  on(func(t *rapid.T, m *machine) { m.repair() }),
		"stage":   on(func(t *rapid.T, m *machine) { m.stages = !m.stages }),
		"reboot":  on(func(t *rapid.T, m *machine) { m.reboot(rapid.IntRange(0, 5).Draw(t, "fails") > 0) }),
		"stuck":   on(func(t *rapid.T, m *machine) { m.stuck = !m.stuck; m.look() }),
		"deliver": on(func(t *rapid.T, m *machine) { m.deliver() }),
		"enrol": on(func(t *rapid.T, m *machine) {
			if rapid.IntRange(0, 3).Draw(t, "rarely") == 0 {
				w.enrol(m.name)
			}
		}),
		"pause": verb(plan.Pause), "resume": verb(plan.Resume), "cancel": verb(plan.Cancel),
		"signed word": func(t *rapid.T) {
			entries, err := plan.Override(w.s, drawWord(t, w), "ada", w.now)
			if _, refused := err.(*plan.VerbError); refused {
				t.Skip("refused")
			}
			w.commit(entries, err)
		},
		"promote": func(t *rapid.T) {
			r := someRollout(t, w)
			if r.Plan == nil {
				t.Skip("over")
			}
			w.press(t, func() ([]event.Entry, error) {
				return plan.Promote(w.s, string(r.Manifest), r.Plan.Header.Waves[r.Cursor].Name, "because", "ada", w.now)
			})
		},
		"freeze": on(func(t *rapid.T, m *machine) {
			until := w.now.Add(clock.Duration(rapid.SampledFrom([]int{5, 60, 3600}).Draw(t, "seconds")) * clock.Second)
			w.press(t, func() ([]event.Entry, error) { return plan.Freeze(w.s, m.name, until, "because", "ada", w.now) })
		}),
		"sit": on(func(t *rapid.T, m *machine) {
			var until clock.Instant
			if d := rapid.SampledFrom([]int{0, 5, 60, 700}).Draw(t, "seconds"); d > 0 {
				until = w.now.Add(clock.Duration(d) * clock.Second)
			}
			w.sit(m.name, rapid.SampledFrom([]string{"lab", "class"}).Draw(t, "session"), rapid.SampledFrom([]string{"desk", "bench"}).Draw(t, "entry"), until)
		}),
		"leave": on(func(t *rapid.T, m *machine) {
			w.leave(m.name, rapid.SampledFrom([]string{"desk", "bench"}).Draw(t, "entry"))
		}),
		"unfreeze": on(func(t *rapid.T, m *machine) {
			w.press(t, func() ([]event.Entry, error) { return plan.Unfreeze(w.s, m.name, "because", "ada", w.now) })
		}),
		"quarantine": func(t *rapid.T) {
			channel, bundle := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "channel"), rapid.SampledFrom(bundles).Draw(t, "bundle")
			w.press(t, func() ([]event.Entry, error) {
				return plan.AddQuarantine(w.s, channel, string(bundle), "because", "ada", w.now)
			})
		},
		"prune": func(t *rapid.T) {
			keep := plan.Retention{Age: clock.Duration(rapid.SampledFrom([]int{1, 60, 3600}).Draw(t, "age")) * clock.Second, Keep: rapid.IntRange(0, 2).Draw(t, "keep"), Most: rapid.IntRange(0, 3).Draw(t, "most")}
			w.commit(plan.Prune(w.s, keep, w.now))
		},
		"clear quarantine": func(t *rapid.T) {
			entries, err := plan.ClearQuarantine(w.s, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "channel"),
				string(rapid.SampledFrom(bundles).Draw(t, "bundle")), "mended", "ada", w.now)
			if err != nil {
				t.Skip("refused")
			}
			w.commit(entries, nil)
		},
		"": func(t *rapid.T) {
			if rapid.IntRange(0, 2).Draw(t, "tick") > 0 {
				checkReplay(t, w)
				w.tick()
			}
			for range max(0, rapid.IntRange(-6, 3).Draw(t, "life")) { // the rest of the world lives on
				for _, name := range w.names() {
					w.hosts[name].work()
				}
				w.now = w.now.Add(11 * clock.Second)
				checkReplay(t, w)
			}
		},
	}
}

func newRandomWorld(t *rapid.T) (*world, homes) {
	w, home := newWorld(t), homes{}
	for i := range 6 {
		name := "h" + strconv.Itoa(i)
		home[name] = map[bool]string{true: "a", false: "b"}[i < 4]
		w.enrol(name)
		if rapid.IntRange(0, 5).Draw(t, "away") > 0 {
			w.presence(name, true)
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "bad") == 0 { // a bundle that fails on some hosts
		bad := rapid.SampledFrom(bundles).Draw(t, "badBundle")
		for _, name := range w.names() {
			w.hosts[name].broken[bad] = rapid.Bool().Draw(t, "fails here")
		}
	}
	drawRelease(t, w, home)
	return w, home
}

// TestEveryInvariantOverRandomWorlds drives a world at random; see the table
// above for what is checked where.
func TestEveryInvariantOverRandomWorlds(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		w, home := newRandomWorld(t)
		t.Repeat(actions(w, home))
		for _, e := range w.log {
			seen[e.Type]++
		}
	})
	t.Logf("events: %v", seen)
}

// TestL1L2L3EverythingSettles checks that after any past, once every fault is
// gone, the world comes to rest: every host that is there is decided, nothing
// is on its way, and what is held says why.
func TestL1L2L3EverythingSettles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, home := newRandomWorld(t)
		act := actions(w, home)
		names := make([]string, 0, len(act))
		for name := range act {
			names = append(names, name)
		}
		slices.Sort(names)
		for range rapid.IntRange(0, 60).Draw(t, "past") {
			name := rapid.SampledFrom(names).Draw(t, "act")
			if name == "pause" || name == "stale" {
				continue
			}
			func() {
				defer func() {
					if r := recover(); r != nil && fmt.Sprintf("%T", r) != "rapid.invalidData" {
						panic(r)
					}
				}()
				act[name](t)
			}()
		}
		settle(t, w)
	})
}

// TestL1HealthyFleetConverges checks that with every host there and healthy, any
// plan that can end does: all that it names run their target.
func TestL1HealthyFleetConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, home := newRandomWorld(t)
		for range rapid.IntRange(0, 2).Draw(t, "more releases") {
			drawRelease(t, w, home)
		}
		for _, c := range w.s.ChannelNames() {
			if m := w.docs[w.s.Channels[c].Manifests[0].Digest]; deadlocked(m) {
				t.Skip("a host waits for one of a later wave")
			}
		}
		settle(t, w)
		for _, c := range w.s.ChannelNames() {
			d := w.s.Channels[c].Manifests[0].Digest
			if r := w.s.Rollouts[d]; r == nil || r.Phase != rollout.Terminal {
				t.Fatalf("L1: the newest rollout of channel %s is %+v\n%s", c, r, w.tail())
			}
			for _, leaf := range w.docs[d].Leaves {
				if got := w.s.Hosts[leaf.Host].Machine.Current; got != leaf.Target {
					t.Fatalf("L1: host %s runs %s, its target is %s\n%s", leaf.Host, got.Short(), leaf.Target.Short(), w.tail())
				}
			}
		}
	})
}

func deadlocked(m *rollout.Manifest) bool {
	for _, leaf := range m.Leaves {
		for _, name := range leaf.After {
			if i, ok := m.Leaf(name); ok && m.Leaves[i].Wave > leaf.Wave {
				return true
			}
		}
	}
	return false
}

// settle mends every host, brings all back and lets time run.
func settle(t *rapid.T, w *world) {
	w.refresh()
	for _, name := range w.names() {
		clear(w.hosts[name].broken)
		w.hosts[name].stuck, w.hosts[name].stages, w.hosts[name].stagedIn = false, false, ""
		w.presence(name, true)
		w.hosts[name].restart(false)
		if w.s.Hosts[name].Freeze != nil {
			w.commit(plan.Unfreeze(w.s, name, "go on", "ada", w.now))
		}
	}
	for _, name := range w.names() {
		w.leave(name, "desk")
		w.leave(name, "bench")
	}
	w.loosen()
	for _, d := range w.s.Order {
		if r := w.s.Rollouts[d]; r.Paused && !r.Phase.Ended() && !r.Reverting {
			entries, err := plan.Operate(w.s, plan.Resume, string(d), "go on", "ada", w.now)
			w.commit(entries, err)
		}
	}
	// A host in both drawn windows waits three of every six minutes and says so once.
	const round, longest = 20 * clock.Second, 6 * clock.Minute
	quiet := clock.Duration(0)
	for rounds := 0; quiet <= longest; rounds++ {
		n := len(w.log)
		w.tick()
		for _, name := range w.names() {
			w.hosts[name].work()
		}
		w.tick()
		w.now = w.now.Add(round)
		if quiet += round; len(w.log) > n {
			quiet = 0
		}
		if rounds > 800 {
			t.Fatalf("L3: the world does not come to rest\n%s", w.tail())
		}
	}
	atRest(t, w)
}
