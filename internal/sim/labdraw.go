package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// labHost is what every host is in a schedule with sessions.
var labHost = event.HostFacts{CPUs: 8, Memory: 16 << 30, Arch: "amd64", Kernel: "6.1.0", Engine: "docker", EngineAPI: "1.43", Disk: 100 << 30,
	GPUs: []event.GPU{{Vendor: "nvidia", Model: "t4", Memory: 16 << 30}, {Vendor: "nvidia", Model: "t4", Memory: 16 << 30}}}

// labEvent is the type of the event that ends phases.
const labEvent = "org.example.graded"

func (w *World) labs() bool { return w.cfg.Labs > 0 }

// labs draws sessions and what people and hosts do to them. A unit of time is a minute, and more in
// a schedule of weeks.
func (p *planning) labs() {
	w, q := p.w, &planning{w: p.w, r: rand.New(rand.NewPCG(p.w.cfg.Seed, 0x1ab5))}
	unit := max(clock.Minute, min(clock.Hour/4, w.cfg.Faulty/15))
	for _, a := range w.agents {
		facts := labHost
		a.facts = &facts
	}
	n := 1 + q.r.IntN(w.cfg.Labs)
	if w.cfg.Faulty > clock.Day {
		n = w.cfg.Labs
	}
	for i := range n {
		q.lab(fmt.Sprintf("lab%d", i), unit)
	}
}

func (q *planning) lab(name string, unit clock.Duration) {
	w, r := q.w, q.r
	at, make := q.some(0), q.labSpec(name, unit)
	q.add(at, func() {
		w.lab(func(l *labs, now time.Time) error { return l.Create(context.Background(), name, make(now), nil, "ada") })
	}, "session %s is asked for", name)
	later := func() clock.Instant { return at.Add(q.between(0, 30*unit)) }
	if r.IntN(3) == 0 {
		by := q.between(1, 10*unit)
		q.add(later(), func() {
			w.lab(func(l *labs, _ time.Time) error {
				st, err := l.Show(context.Background(), name)
				if err != nil {
					return err
				}
				return l.Extend(context.Background(), name, st.Timeslot.End.Add(by.Std()).Truncate(time.Millisecond), "ada")
			})
		}, "session %s is extended by %s", name, by)
	}
	if r.IntN(5) == 0 {
		q.add(later(), func() {
			w.lab(func(l *labs, _ time.Time) error { return l.Stop(context.Background(), name, "ada") })
		}, "session %s is stopped", name)
	}
	for range r.IntN(3) {
		stopped := r.IntN(2) == 0
		q.add(later(), func() {
			w.lab(func(l *labs, _ time.Time) error { return l.SetPart(context.Background(), name, "p0", stopped, "ada") })
		}, "part p0 of session %s is to be stopped: %v", name, stopped)
	}
	for range 1 + r.IntN(3) {
		id := fmt.Sprint(r.IntN(3))
		q.add(later(), func() {
			w.lab(func(l *labs, _ time.Time) error {
				return l.Receive(context.Background(), name, "p0/grade", engine.Event{Source: "/lms", ID: id, Type: labEvent, Data: json.RawMessage(`{}`)})
			})
		}, "an event %s comes for session %s", id, name)
	}
	if r.IntN(3) == 0 {
		a, id := w.agents[r.IntN(len(w.agents))], labEntry(name, 0, 0, 0)
		q.add(at, func() { a.breaks(id, true) }, "%s does not run on %s", id, a.name)
		if r.IntN(2) == 0 {
			q.add(later(), func() { a.breaks(id, false) }, "%s would run on %s", id, a.name)
		}
	}
}

// labEntry is what a workload of a pod is called in a managed layer.
func labEntry(name string, part, pod, workload int) string {
	return spec.KindNetwork + "/" + labWorkload(name, part, pod, workload)
}

func labWorkload(name string, part, pod, workload int) string {
	return fmt.Sprintf("%s-p%d-n%d-%d", name, part, pod, workload)
}

// labSpec draws what is asked for, whenever that comes about.
func (q *planning) labSpec(name string, unit clock.Duration) func(now time.Time) session.Spec {
	r := q.r
	action := func() engine.FailureAction {
		return []engine.FailureAction{"", engine.Abort, engine.Continue}[r.IntN(3)]
	}
	s := session.Spec{OnFailure: action()}
	for i := range 1 + r.IntN(2) {
		part := session.Part{Name: fmt.Sprintf("p%d", i), OnFailure: action()}
		if part.Moves = r.IntN(3) == 0; part.Moves && r.IntN(3) == 0 {
			part.Duplicates = session.DuplicatesAllowed
		}
		if i > 0 && r.IntN(2) == 0 {
			part.After = []session.Gate{{Part: "p0"}}
		}
		for k := range 1 + r.IntN(2) {
			pod := session.Pod{Name: fmt.Sprintf("n%d", k), GPU: place.GPURequest{Count: r.IntN(3)},
				Resources: place.Resources{MilliCPU: int64(r.IntN(6000)), Memory: int64(r.IntN(9)) << 30}}
			for n := range 1 + r.IntN(2) {
				pod.Workloads = append(pod.Workloads, session.Workload{Kind: spec.KindNetwork, Name: labWorkload(name, i, k, n), Spec: json.RawMessage(`{}`)})
			}
			part.Pods = append(part.Pods, pod)
		}
		if r.IntN(2) == 0 {
			part.Phases = []session.Phase{{Name: "grade", Await: labEvent, Timeout: q.between(clock.Second, 10*unit), Retries: new(r.IntN(3))}}
		}
		s.Parts = append(s.Parts, part)
	}
	provision, start, length, grace := q.between(0, 5*unit), q.between(0, 10*unit), q.between(unit, 20*unit), q.between(0, 10*unit)
	return func(now time.Time) session.Spec {
		s, at := s, clock.FromTime(now).Add(provision)
		s.Timeslot = session.Timeslot{ProvisionAt: at.Time(), Start: at.Add(start).Time(), End: at.Add(start + length).Time(), CleanupDeadline: at.Add(start + length + grace).Time()}
		return s
	}
}

// lab has somebody ask something of the sessions once the server is there. It may refuse.
func (w *World) lab(ask func(l *labs, now time.Time) error) {
	s := w.server
	if s.away() || s.labs == nil {
		w.after(10*clock.Second, func() { w.lab(ask) })
		return
	}
	if err := ask(s.labs, s.now().Time()); err != nil {
		w.trace("the server answers: %v", err)
		if errors.Is(err, errAway) {
			w.after(10*clock.Second, func() { w.lab(ask) })
		}
	}
}
