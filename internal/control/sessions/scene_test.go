package sessions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestChoiceIsThatOfTheState checks in random worlds, at random times, that the host which a pod gets of the scene and of what
// was remembered for its shape is the one that a search of the state itself finds, with the same reasons.
func TestChoiceIsThatOfTheState(t *testing.T) {
	for seed := range uint64(40) {
		w := stepped(t, namesOf(seed)...)
		r, made, refused := rand.New(rand.NewPCG(seed, 3)), 0, 0
		names := namesOf(seed)
		for step := range 60 {
			w.randomStep(r, names, 6, &made)
			w.pass(time.Duration(r.IntN(200)) * time.Second)
			if w.down != nil {
				continue
			}
			for k := range 1 + r.IntN(4) {
				if !w.choosesTheSame(r, fmt.Sprintf("ask%d/p/%d", step%3, k)) {
					refused++
				}
			}
		}
		if refused == 0 && seed == 0 {
			t.Error("every host had room all the time")
		}
	}
}

// choosesTheSame asks both for one pod, and reports whether it has a host.
func (w *world) choosesTheSame(r *rand.Rand, id string) bool {
	w.t.Helper()
	ref, now := engine.Ref{Kind: session.KindPod, ID: id}, w.now()
	at := now.Add(time.Duration(r.IntN(3)-1) * time.Hour)
	spec := session.PodSpec{Pod: pod("x", r.IntN(3)), Timeslot: session.Timeslot{ProvisionAt: at, CleanupDeadline: now.Truncate(time.Hour).Add(3 * time.Hour)}}
	spec.Pod.Resources = place.Resources{MilliCPU: int64(1+r.IntN(4)) * 2000, Memory: 1 << 30}
	if r.IntN(3) == 0 {
		spec.Pod.AntiAffinity = []string{[]string{"s0", "s1/p0", "ask0"}[r.IntN(3)]}
	}
	if r.IntN(3) == 0 {
		spec.Pod.Spread = &place.Spread{}
	}
	request := spec.Request(ref)
	in, err := w.runner.scene(context.Background())
	w.check(err)
	var got session.PodSeen
	w.runner.searches.choose(in, false, ref, request, now, &got)
	w.runner.searches.gone(ref)

	var hosts []place.Host
	for name := range w.Roster() {
		if h := w.runner.host(w.state, name); h != nil {
			hosts = append(hosts, *h)
		}
	}
	var others []place.Reservation
	for _, b := range w.state.Booked.All() {
		others = append(others, b.Reservation)
	}
	request.Slot.From = max(request.Slot.From, clock.FromTime(now))
	want := place.Place(request, hosts, others)
	got.Choice.LeftOut, want.LeftOut = reasons(got.Choice.LeftOut), reasons(want.LeftOut)
	if !reflect.DeepEqual(got.Choice, want) {
		w.t.Fatalf("at %s the pod %+v gets\n%+v\nand by the state\n%+v", now, request, got.Choice, want)
	}
	if !want.Placed() && !got.Unsearched {
		next := place.NextSlot(request, hosts, others, request.Slot.From.Add(clock.FromStd(session.MaxLength)))
		if !reflect.DeepEqual(got.Freed, next.FreedBy) {
			w.t.Fatalf("at %s the pod %+v is freed by %+v, and by the state by %+v", now, request, got.Freed, next.FreedBy)
		}
	}
	return want.Placed()
}

// reasons leaves out words, which name instants.
func reasons(all []place.Reason) []place.Reason {
	all = slices.Clone(all)
	for i := range all {
		all[i].Message = ""
	}
	return all
}

// TestChoiceThatWasOvertakenIsDropped: between the choice of a host and its booking the host goes away, is taken by
// another pod, or by one that shares no host with it. The pod gets the other host.
func TestChoiceThatWasOvertakenIsDropped(t *testing.T) {
	for what, overtake := range map[string]func(w *world){
		"the host is cut off": func(w *world) {
			w.state.Plan.Hosts["a"].Online = false
			w.agents["a"].online = false
			w.runner.Committed(w.state, []event.Entry{{Type: "host.silent", Subject: event.HostSubject("a")}})
		},
		"the host is frozen": func(w *world) {
			w.state.Plan.Hosts["a"].Freeze = &event.HostFrozen{}
			w.runner.Committed(w.state, []event.Entry{{Type: "host.frozen", Subject: event.HostSubject("a")}})
		},
		"the host is no longer declared": func(w *world) {
			w.rosterMu.Lock()
			defer w.rosterMu.Unlock()
			b := w.roster["b"]
			w.roster = map[string]fleet.RosterHost{"b": b}
		},
		"another pod has its room":           func(w *world) { w.takes("x/p/p", 8000, nil) },
		"another pod shares no host with it": func(w *world) { w.takes("x/p/p", 10, []string{"lab"}) },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, "a", "b")
				defer w.close()
				w.mu.Lock()
				w.overtake = overtake
				w.mu.Unlock()
				create(w, "lab", session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("n", 0)}}}})
				pass(10 * time.Second)
				w.mu.Lock()
				waits := w.overtake != nil
				w.mu.Unlock()
				if waits {
					t.Fatal("nothing was booked")
				}
				if got := w.status("lab").Parts[0].Pods[0].Host; got != "b" {
					t.Fatalf("the pod is on %q\n%s", got, w.story("lab"))
				}
			})
		})
	}
}

// takes books host a for another pod.
func (w *world) takes(owner string, milliCPU int64, apart []string) {
	var row engine.Row
	row.Ref, row.Phase = engine.Ref{Kind: session.KindPod, ID: owner}, engine.Orphaned
	b := session.PodReport{Reservation: place.Reservation{Pod: place.Pod{Owner: owner, Group: "x", AntiAffinity: apart}, Host: "a",
		Slot: place.Slot{From: w.clock(), To: w.clock().Add(clock.Day)}, Resources: place.Resources{MilliCPU: milliCPU}}}
	w.check(row.SetState(stateOf(w.t, b)))
	w.state.Booked.Note(&row)
}

// TestSearchIsBounded counts what many pods without room cost: each shape is searched once, however many pods have it and
// however often they look, and what would free a host so often a period at most.
func TestSearchIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		parts, pods int
		differ      int64
		searched    int // scenes times shapes
	}{
		"alike":  {1, 64, 0, 1},
		"differ": {1, 64, 1, 64},
	} {
		w := newCrowd(t, 20)
		w.ask("lab", c.parts, c.pods, c.differ)
		w.pass(5 * time.Minute)
		s := &w.runner.searches
		if len(s.refused) != c.searched || len(s.waiting) != c.parts*c.pods {
			t.Errorf("%s: %d shapes are remembered, %d pods wait", name, len(s.refused), len(s.waiting))
		}
		explained := 0
		for _, why := range s.refused {
			if !why.explained.IsZero() {
				explained++
			}
		}
		if most := maxExplained * 11; explained > most || explained == 0 {
			t.Errorf("%s: %d of %d were explained in five minutes, at most %d may be", name, explained, len(s.refused), most)
		}
	}
}

// TestScenesFollowHosts: a scene is the same one until something of it changes, and what an event does not change of a host
// does not make another one.
func TestScenesFollowHosts(t *testing.T) {
	w := stepped(t, "a", "b")
	scene := func() *scene {
		in, err := w.runner.scene(context.Background())
		w.check(err)
		return in
	}
	first := scene()
	for _, e := range []event.Entry{{Type: "resource.reported", Subject: event.HostSubject("a")}, {Type: "host.facts", Subject: event.HostSubject("none")},
		{Type: (event.ResourceRecorded{}).EventType(), Subject: event.Subject{Kind: event.KindSession, Name: "lab"}}} {
		if w.runner.Committed(w.state, []event.Entry{e}); scene() != first {
			t.Errorf("%s makes another scene", e.Type)
		}
	}
	w.state.Plan.Hosts["a"].Facts = &event.HostFacts{CPUs: 64, Memory: 1 << 40, Engine: "docker"}
	w.runner.Committed(w.state, []event.Entry{{Type: "host.facts", Subject: event.HostSubject("a")}})
	second := scene()
	if second == first || second.hosts[0].Facts.CPUs != 64 || first.hosts[0].Facts.CPUs != 8 {
		t.Errorf("the scene has %+v, and the one before %+v", second.hosts[0].Facts, first.hosts[0].Facts)
	}
	if w.takes("x/p/p", 10, nil); scene() == second || len(second.booked) != 0 {
		t.Error("a booking makes no other scene")
	}
	w.state = server.NewState(nil)
	w.state.Plan.Hosts["b"] = &plan.Host{Name: "b", Incarnation: 1}
	if in := scene(); in.hosts[0] != nil || in.hosts[1] == nil || len(in.booked) != 0 {
		t.Errorf("another state has %+v", in)
	}
}
