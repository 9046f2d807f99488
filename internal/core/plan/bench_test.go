package plan_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

var sizes = []int{1_000, 10_000, 100_000}

// bigManifest is one wave, or a canary of one in a hundred and the rest, over n
// hosts in ten groups, each capped by a budget when max is not zero. Of every ten
// hosts so many as behind says go after the first host of all.
func bigManifest(docs documents, ref string, n, waves, max, behind int) *rollout.Manifest {
	m := &rollout.Manifest{Header: &fleet.Manifest{Channel: "c", Ref: ref,
		Policy: fleet.Policy{OnHealthFailure: fleet.RollbackAndHalt, ConfirmWindow: clock.Minute, ActivationDeadline: clock.Minute, GrantExpiry: clock.Hour},
		Probes: []fleet.Probe{{Name: "up", Mode: fleet.Enforce}}}}
	for w := range waves {
		m.Header.Waves = append(m.Header.Waves, fleet.Wave{Name: "w" + strconv.Itoa(w)})
	}
	target := digest.Of([]byte(ref))
	for i := range n {
		leaf := fleet.Leaf{Host: fmt.Sprintf("h%06d", i), Target: target, Probes: []int{0}}
		if waves > 1 && i%100 > 0 {
			leaf.Wave = 1
		}
		if i > 0 && i%10 < behind {
			leaf.After = []string{"h000000"}
		}
		m.Leaves = append(m.Leaves, leaf)
	}
	for b := 0; max > 0 && b < 10; b++ {
		var members []string
		for i := b; i < n; i += 10 {
			members = append(members, m.Leaves[i].Host)
			m.Leaves[i].Budgets = []int{b}
		}
		m.Header.Budgets = append(m.Header.Budgets, fleet.Budget{Selector: "group " + strconv.Itoa(b), Max: max})
		m.Members = append(m.Members, members)
	}
	return docs.add(m)
}

// fleetOf is a server that knows n enrolled hosts, all there.
func fleetOf(b *testing.B, docs documents, n int) *plan.State {
	s := plan.New(docs)
	for i := range n {
		name := fmt.Sprintf("h%06d", i)
		testkit.Value(plan.Record(s, name, start, event.HostEnrolled{Incarnation: 1, Token: name}, event.HostReturned{}))(b)
	}
	return s
}

func publish(b *testing.B, s *plan.State, version uint64, m *rollout.Manifest) {
	_, err := plan.Record(s, "", start, event.TimestampAccepted{IssuedAt: start},
		event.ReleaseAccepted{Version: version, Channels: []event.ChannelRelease{{Channel: "c", FreshnessWindow: clock.Day,
			Manifests: []fleet.ManifestRef{{Rollout: m.Header.Rollout(), Digest: m.Digest}}}}})
	testkit.Must(b, err)
}

func next(b *testing.B, s *plan.State, now clock.Instant) *plan.Plan {
	p := testkit.Value(plan.Next(s, now))(b)
	return p
}

var shapes = []struct {
	name               string
	waves, max, behind int
}{{"one wave", 1, 0, 0}, {"one wave under budgets", 1, 1_000_000, 0}, {"waves and budgets", 2, 1_000_000, 0}, {"tight budgets", 2, 5, 0},
	{"half goes after one host", 1, 0, 5}}

// BenchmarkOpenAndPlan opens a rollout and grants all that may be granted at
// once, every host there. The target is 500 ms for 100 000 hosts.
func BenchmarkOpenAndPlan(b *testing.B) {
	for _, shape := range shapes {
		for _, n := range sizes {
			b.Run(shape.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				b.ReportAllocs()
				docs := documents{}
				m := bigManifest(docs, "r1", n, shape.waves, shape.max, shape.behind)
				grants := 0
				for b.Loop() {
					b.StopTimer()
					s := fleetOf(b, docs, n)
					publish(b, s, 1, m)
					b.StartTimer()
					grants = len(next(b, s, start).Events)
				}
				b.ReportMetric(float64(grants), "decisions")
			})
		}
	}
}

// BenchmarkTickNothingChanged plans when nothing happened since the last tick.
// The target is 1 ms for 100 000 hosts, and no allocation for any host.
func BenchmarkTickNothingChanged(b *testing.B) {
	for _, shape := range shapes {
		for _, n := range sizes {
			b.Run(shape.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				docs := documents{}
				s := fleetOf(b, docs, n)
				publish(b, s, 1, bigManifest(docs, "r1", n, shape.waves, shape.max, shape.behind))
				next(b, s, start)
				b.ReportAllocs()
				for b.Loop() {
					next(b, s, start+1)
				}
			})
		}
	}
}

// BenchmarkIngest folds one report of one host, taken through claim, activation
// and convergence, and the tick that follows: three host events a report.
func BenchmarkIngest(b *testing.B) {
	for _, shape := range shapes {
		for _, n := range sizes {
			b.Run(shape.name+"/"+strconv.Itoa(n), func(b *testing.B) {
				b.ReportAllocs()
				docs := documents{}
				m := bigManifest(docs, "r1", n, shape.waves, shape.max, shape.behind)
				var s *plan.State
				var waiting []string
				for b.Loop() {
					if len(waiting) == 0 {
						b.StopTimer()
						if s != nil {
							waiting = offered(s)
						}
						if len(waiting) == 0 {
							s = fleetOf(b, docs, n)
							publish(b, s, 1, m)
							next(b, s, start)
							waiting = offered(s)
						}
						b.StartTimer()
					}
					last := len(waiting) - 1 // the host that others go after comes last
					converge(b, s, waiting[last])
					waiting = waiting[:last]
				}
			})
		}
	}
}

func offered(s *plan.State) []string {
	var names []string
	for _, name := range s.HostNames() {
		if s.Hosts[name].Grant != nil {
			names = append(names, name)
		}
	}
	return names
}

// converge takes one host through its grant and plans.
func converge(b *testing.B, s *plan.State, name string) {
	h := s.Hosts[name]
	g := h.Grant
	testkit.Value(plan.Claim(s, name, g.ID, start))(b)
	ms := h.Machine
	var events []event.Entry
	hp := s.Rollouts[g.Manifest].Plan.HostPlan(name)
	for i, in := range []host.Input{
		host.Claimed{Grant: g.ID, Rollout: g.Rollout, Manifest: g.Manifest, Wave: hp.Wave, Target: g.Target, BootID: "b"},
		host.Activated{Observed: g.Target}, host.Contact{}, host.ProbeObserved{Name: "up", Pass: true},
	} {
		after, _, err := host.Step(ms, in, 1, hp)
		testkit.Must(b, err)
		ev, err := event.NewHostStepped(&ms, &after, in)
		testkit.Must(b, err)
		en, err := event.NewEntry(1, event.HostSubject(name), ev)
		testkit.Must(b, err)
		en.Incarnation, en.HostSeq = 1, h.Seq+uint64(i)+1
		events = append(events, en)
		ms = after
	}
	testkit.Value(plan.Ingest(s, name, events, nil, event.HostHead{Incarnation: 1, Seq: h.Seq + 4}, 0, start))(b)
	next(b, s, start)
}

// BenchmarkRepairs plans after one repair is over while every host waits for one
// under tight budgets.
func BenchmarkRepairs(b *testing.B) {
	for _, n := range sizes {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			docs := documents{}
			s := fleetOf(b, docs, n)
			m := bigManifest(docs, "r1", n, 1, n, 0)
			publish(b, s, 1, m)
			next(b, s, start)
			for _, name := range offered(s) {
				converge(b, s, name)
			}
			publish(b, s, 2, bigManifest(docs, "r1", n, 1, 5, 0))
			next(b, s, start)
			report := func(name string, ev event.Event) {
				h := s.Hosts[name]
				e := testkit.Value(event.NewEntry(1, event.HostSubject(name), ev))(b)
				e.Incarnation, e.HostSeq = 1, h.Seq+1
				testkit.Value(plan.Ingest(s, name, []event.Entry{e}, nil, event.HostHead{Incarnation: 1, Seq: e.HostSeq}, 0, start))(b)
			}
			need := func(name string) event.RepairNeeded {
				mc := &s.Hosts[name].Machine
				return event.RepairNeeded{RepairNeed: host.RepairNeed{Manifest: mc.Manifest, Bundle: mc.Current, Resources: []string{"exec/app"}, Reason: "x"}}
			}
			for _, name := range s.HostNames() {
				report(name, need(name))
			}
			next(b, s, start)
			decided := 0
			for b.Loop() {
				b.StopTimer()
				name := offered(s)[0]
				testkit.Value(plan.Claim(s, name, s.Hosts[name].Grant.ID, start))(b)
				next(b, s, start)
				report(name, event.RepairOver{Grant: s.Hosts[name].Grant.ID, OK: true, Detail: "repaired"})
				report(name, need(name))
				b.StartTimer()
				decided = len(next(b, s, start).Events)
			}
			b.ReportMetric(float64(decided), "decisions")
		})
	}
}

// BenchmarkWhy answers for one host.
func BenchmarkWhy(b *testing.B) {
	docs := documents{}
	s := fleetOf(b, docs, 10_000)
	publish(b, s, 1, bigManifest(docs, "r1", 10_000, 2, 5, 0))
	next(b, s, start)
	b.ReportAllocs()
	for b.Loop() {
		testkit.Value(plan.Why(s, "h005555", start))(b)
	}
}
