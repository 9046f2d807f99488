package forecast

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/testkit"
)

// fleets are drawn by each test of estimates.
const fleets = 200

// anyFleet draws a fleet of one channel: waves, soaks, budgets that overlap, host edges, windows and canaries.
func anyFleet(t *testing.T, seed uint64) *Fleet {
	d := rand.New(rand.NewPCG(seed, 1))
	h := &fleet.Manifest{Document: fleet.Document{Type: fleet.TypeManifest, Fleet: "f", Epoch: 1, Version: 1}, Channel: "stable", Ref: "v1",
		Policy: fleet.Policy{Name: "p", OnHealthFailure: fleet.RollbackAndHalt, ConfirmWindow: 2 * minute,
			ActivationDeadline: 10 * minute, SustainedFailure: minute, GrantExpiry: 10 * minute}}
	m := &rollout.Manifest{Header: h}
	if d.IntN(4) == 0 {
		h.CanaryMax = 1 + d.IntN(2)
	}
	if d.IntN(3) == 0 {
		cron, zone := testkit.Value(clock.ParseCron("10,40 * * * *"))(t), clock.Zone{Name: "UTC", From: start.Add(-clock.Day), Until: start.Add(900 * clock.Day)}
		h.Windows = []clock.Window{{Name: "half", Cron: cron, Duration: 15 * minute, Zone: zone}}
	}
	f := &Fleet{Tags: map[string][]string{}, Start: start, Horizon: 4 * clock.Day}
	target := digest.Of([]byte("bundle"))
	members := make([][]string, d.IntN(3))
	for w := range 1 + d.IntN(4) {
		n := d.IntN(9)
		h.Waves = append(h.Waves, fleet.Wave{Name: fmt.Sprintf("w%d", w), Soak: []clock.Duration{0, 30 * clock.Second, 5 * minute, 12 * minute}[d.IntN(4)], MinSoaked: d.IntN(3), Hosts: n})
		for i := range n {
			leaf := fleet.Leaf{Host: fmt.Sprintf("h%d-%02d", w, i), Wave: w, Target: target}
			for b := range members {
				if d.IntN(2) == 0 {
					leaf.Budgets, members[b] = append(leaf.Budgets, b), append(members[b], leaf.Host)
				}
			}
			if len(f.Hosts) > 0 && d.IntN(4) == 0 {
				leaf.After = []string{f.Hosts[d.IntN(len(f.Hosts))]}
			}
			if len(h.Windows) > 0 && d.IntN(2) == 0 {
				leaf.Windows = []int{0}
			}
			f.Hosts, m.Leaves = append(f.Hosts, leaf.Host), append(m.Leaves, leaf)
		}
	}
	for b, names := range members {
		raw, _ := json.Marshal(names)
		h.Budgets = append(h.Budgets, fleet.Budget{Selector: fmt.Sprintf("b%d", b), Max: 1 + d.IntN(3), Members: digest.Of(raw)})
	}
	m.Members, h.LeafCount = members, len(m.Leaves)
	head, _ := json.Marshal(h)
	m.Digest = digest.Of(head)
	f.Docs = library{m.Digest: m}
	f.Release = event.ReleaseAccepted{Version: 1, Epoch: 1, Ref: "v1", Channels: []event.ChannelRelease{{Channel: "stable", FreshnessWindow: clock.Day,
		ReconcileInterval: 30 * clock.Second, OnNewRef: fleet.Queue, Manifests: []fleet.ManifestRef{{Rollout: "stable@v1", Digest: m.Digest, Version: 1}}}}}
	return f
}

// told is what was estimated at an instant.
type told struct {
	at     clock.Instant
	end    rollout.Estimate
	cursor int
	wave   rollout.Estimate
	turns  map[string]rollout.Estimate
}

// followed plays one course and has it estimated now and then, until it ends or rests.
func followed(t *testing.T, f *Fleet, m *Drawn) (w *World, list []told, promoted map[int]clock.Instant, granted map[string]clock.Instant) {
	w = NewWorld(plan.New(f.Docs), f.Docs, f.Start, m)
	w.Refreshed = true
	testkit.Must(t, populate(w, f, m))
	for _, name := range w.State.HostNames() {
		w.Drive(name, 0)
	}
	promoted, granted = map[int]clock.Instant{}, map[string]clock.Instant{}
	w.State.Watch(func(e event.Entry, ev event.Event) {
		switch ev := ev.(type) {
		case event.WavePromoted:
			promoted[ev.Wave] = e.At
		case event.Granted:
			granted[e.Host()] = e.At
		}
	})
	testkit.Must(t, w.Step(server.Release{Events: []event.Event{f.Release,
		event.TimestampAccepted{Version: 1, IssuedAt: f.Start, Resolved: f.Release.Resolved}}}))
	d := rand.New(rand.NewPCG(m.Seed, 2))
	for at := f.Start; at < f.Start.Add(f.Horizon); at = at.Add(clock.Second + clock.Duration(d.IntN(int(4*minute)))) {
		rest := testkit.Value(w.Run(at))(t)
		w.Now = at
		r := w.State.Find("stable@v1")
		c := plan.CourseOf(w.State, r, at)
		if c == nil || rest {
			break
		}
		s := told{at: at, end: c.End, cursor: r.Cursor, wave: c.Waves[r.Cursor].Done, turns: map[string]rollout.Estimate{}}
		for i := range r.Plan.Leaves {
			if turn := c.Turn(i); turn != nil {
				s.turns[r.Plan.Leaves[i].Host] = *turn
			}
		}
		list = append(list, s)
	}
	return w, list, promoted, granted
}

// TestEstimatesHold draws 200 fleets and plays a course of each: what was estimated on the way of
// the end, of the open wave's promotion and of each host's turn is held against what came. No bound
// is ever too late, the band holds the truth in 95 of 100, and what hangs does not end.
func TestEstimatesHold(t *testing.T) {
	const least, slack = 0.95, clock.Second
	ended, asked, within := 0, 0, 0
	for seed := range uint64(fleets) {
		f, a := anyFleet(t, seed), Default(1)
		if seed%4 == 0 {
			a.Offline = []Rate{{Part: 0.3}}
		}
		w, list, promoted, granted := followed(t, f, &Drawn{Assumptions: a, Seed: seed, Tags: f.Tags})
		r := w.State.Find("stable@v1")
		if r.Phase == rollout.Terminal {
			promoted[len(r.Waves)-1] = r.EndedAt
			ended++
		}
		check := func(at clock.Instant, what string, e rollout.Estimate, came clock.Instant) {
			switch {
			case e.Hangs == "" && (e.Earliest < at || e.Likely < e.Earliest || e.Latest < e.Likely):
				t.Errorf("seed %d at %s: the estimate of %s is out of order: %+v", seed, at.Sub(start), what, e)
			case e.Hangs != "" && came != 0:
				t.Errorf("seed %d at %s: %s hangs on %q, and came after %s", seed, at.Sub(start), what, e.Hangs, came.Sub(start))
			case came == 0 && e.Hangs == "":
				t.Errorf("seed %d at %s: %s was to come %+v, and did not come", seed, at.Sub(start), what, e)
			case came != 0 && e.Earliest > came:
				t.Errorf("seed %d at %s: %s came after %s, %s before its bound %s", seed, at.Sub(start), what, came.Sub(start), e.Earliest.Sub(came), e.Earliest.Sub(start))
			}
			if came != 0 {
				if asked++; came <= e.Latest.Add(slack) {
					within++
				}
			}
		}
		for _, s := range list {
			check(s.at, "the end", s.end, r.EndedAt)
			check(s.at, "the wave", s.wave, promoted[s.cursor])
			for name, turn := range s.turns { // order-free: each is checked by itself
				check(s.at, "the turn of "+name, turn, granted[name])
			}
		}
	}
	if part := float64(within) / float64(asked); part < least {
		t.Errorf("%d of %d estimates (%.3f) held", within, asked, part)
	}
	if ended < fleets/2 {
		t.Errorf("only %d of %d rollouts ended", ended, fleets)
	}
	t.Logf("%d rollouts ended, %d of %d estimates held", ended, within, asked)
}

// TestEstimatesDoNotSlip has hosts take as long as they please up to what is assumed: the latest end
// never moves. Where each takes its usual time the likely one does not either.
func TestEstimatesDoNotSlip(t *testing.T) {
	const tolerance = 2 * clock.Second // a tick and its messages
	worst := clock.Duration(0)
	for seed := range uint64(fleets) {
		f, a := anyFleet(t, seed), Default(1)
		steady := seed%2 == 0
		if steady {
			a.Prepare, a.Activation = always(rollout.TypicalPace.Prepare), always(rollout.TypicalPace.Activate)
		}
		_, list, _, _ := followed(t, f, &Drawn{Assumptions: a, Seed: seed, Tags: f.Tags})
		for i := 1; i < len(list); i++ {
			was, is := list[i-1].end, list[i].end
			late := is.Latest.Sub(was.Latest)
			if steady {
				late = max(late, is.Likely.Sub(was.Likely))
			}
			if worst = max(worst, late); late > tolerance {
				t.Errorf("seed %d: steady %t at %s the end was %s, at %s it is %s", seed, steady, list[i-1].at.Sub(start), show(was), list[i].at.Sub(start), show(is))
			}
		}
	}
	t.Logf("an end moved by %s at the most", worst)
}

// TestEstimatesAgreeWithForecasts: every course of a forecast ends within the band of the estimate.
func TestEstimatesAgreeWithForecasts(t *testing.T) {
	for seed := range uint64(20) {
		f := anyFleet(t, seed)
		_, list, _, _ := followed(t, f, &Drawn{Assumptions: Default(1), Seed: seed, Tags: f.Tags})
		r := run(t, f, Default(1), 20)
		if len(list) == 0 || list[0].end.Hangs != "" {
			if r.Finished > 0 && r.Finish.Worst > clock.Second {
				t.Errorf("seed %d: %d of 20 courses ended, and the estimate is %+v", seed, r.Finished, list)
			}
			continue
		}
		if e := list[0].end; r.Finished != 20 || r.Finish.Best < e.Earliest.Sub(start) || r.Finish.P95 > e.Latest.Sub(start)+clock.Second {
			t.Errorf("seed %d: the estimate is %s, and courses end between %s and %s", seed, show(e), r.Finish.Best, r.Finish.Worst)
		}
	}
}

// BenchmarkEstimate is one estimate of a fleet, as a page asks for it.
func BenchmarkEstimate(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := large(3 * n)
			w := NewWorld(plan.New(f.Docs), f.Docs, f.Start, &Drawn{Assumptions: Default(1), Tags: f.Tags})
			testkit.Must(b, populate(w, f, w.Model.(*Drawn)))
			testkit.Must(b, w.Step(server.Release{Events: []event.Event{f.Release, event.TimestampAccepted{Version: 1, IssuedAt: f.Start, Resolved: f.Release.Resolved}}}))
			testkit.Value(w.Run(f.Start.Add(clock.Minute)))(b)
			r := w.State.Find("stable@v1")
			for b.Loop() {
				if c := plan.CourseOf(w.State, r, w.Now); c == nil || c.End.Hangs != "" {
					b.Fatal("there is no estimate", c)
				}
			}
		})
	}
}

func show(e rollout.Estimate) string {
	return fmt.Sprint(e.Earliest.Sub(start), "/", e.Likely.Sub(start), "/", e.Latest.Sub(start), " ", e.Hangs)
}
