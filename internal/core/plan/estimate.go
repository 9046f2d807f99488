package plan

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// CourseOf estimates how a rollout goes on while all goes as planned; nil of one that is over or
// goes back. It looks at every host, for people who ask and not for the planner.
func CourseOf(s *State, r *rollout.Rollout, now clock.Instant) *rollout.Course {
	return Explain(s, now).course(r)
}

// course is CourseOf, worked out once.
func (q *Explainer) course(r *rollout.Rollout) *rollout.Course {
	if r.Phase.Ended() || r.Plan == nil || r.Reverting {
		return nil
	}
	for i := range q.courses {
		if q.courses[i].r == r {
			return q.courses[i].c
		}
	}
	c := q.problem(r).Solve()
	q.courses = append(q.courses, courseOf{r, c})
	return c
}

type courseOf struct {
	r *rollout.Rollout
	c *rollout.Course
}

// problem is what a rollout has still to do.
func (q *Explainer) problem(r *rollout.Rollout) *rollout.Problem {
	s := q.s
	p := rollout.NewProblem(r.Plan.Header, r.Plan.Leaves, q.now)
	p.Cursor, p.Soaked, p.Soaks = r.Cursor, r.SoakedAt, upcoming(s.soakUntil(r), q.now)
	if p.Tried = r.Total().Tried; r.BreakGlass == "" {
		p.Canaries = r.CanaryMax()
	}
	for i := range s.budgets {
		p.Budgets = append(p.Budgets, rollout.Slots{Selector: s.budgets[i].Selector, Max: s.budgets[i].Max})
	}
	s.pace(p, r)
	f := s.rolloutFacts(gate.ToUpdate, r, q.now)
	if p.Hangs = f.held(gate.PerRollout); q.restored != nil && q.restored.Behind != nil {
		p.Hangs = q.restored.Behind.Message
	}
	flies := map[*Host]bool{}
	for i := range p.Tasks {
		q.task(p, f.at(i))
		flies[f.h] = p.Tasks[i].State == rollout.Flies || p.Tasks[i].HasSlot
	}
	for _, name := range s.HostNames() {
		if h := s.Hosts[name]; h.inFlight && len(h.budgets) > 0 && !flies[h] {
			p.Others = append(p.Others, rollout.Other{Budgets: h.budgets, At: q.elsewhere(p, h)})
		}
	}
	s.lacking(p, r, f)
	return p
}

// held is the message of the first gate of a scope that is closed; empty where none is.
func (f *facts) held(scope gate.Scope) string {
	if g := gate.FirstClosed(f, gate.ToUpdate, scope); g != nil {
		return g.Check(f, true).Message
	}
	return ""
}

// task reports what a member has still to do.
func (q *Explainer) task(p *rollout.Problem, f *facts) {
	r, h, m, t := f.r, f.h, &f.r.Members[f.i], &p.Tasks[f.i]
	t.Budgets, t.Fails = h.budgets, true
	silent := "host " + h.Name + " is out of contact while it acts on its grant"
	switch m.Status {
	case rollout.AtTarget, rollout.Converged:
		t.Fails = false
	case rollout.Waiting:
		if !m.Online || m.Unwilling || r.Forced(t.Wave) != nil {
			return // the rollout goes on without it
		}
		t.State, t.Fails, t.HasSlot = rollout.Waits, false, m.HasSlot
		q.own(t, f)
	case rollout.Busy, rollout.Offered, rollout.Claimed:
		if m.Unwilling {
			return
		}
		t.State, t.Fails = rollout.Flies, false
		switch {
		case !h.Reachable():
			t.Fails, t.Hangs, t.At = true, silent, rollout.Never(q.now)
		case m.Status == rollout.Busy:
			t.State, t.HasSlot, t.At = rollout.Waits, h.inFlight, p.Busy(q.s.soakedAt(h, q.now))
		case m.Status == rollout.Offered:
			at := max(h.Grant.At, h.Grant.Expires.Add(-r.Plan.Header.Policy.GrantExpiry))
			if t.At = p.Offered(t.Wave, at); p.Lapses(at, h.Grant.Expires) {
				t.State, t.HasSlot, t.At = rollout.Waits, true, rollout.EndsAt(q.now, q.now, h.Grant.Expires, h.Grant.Expires)
			}
		default:
			t.At = q.claimed(p, h, r, t.Wave)
		}
	case rollout.Broken:
		if m.Final {
			return
		}
		if t.State, t.At = rollout.Flies, p.Back(h.Clock.onServer(h.Machine.FailedAt)); !h.Reachable() {
			t.Hangs, t.At = silent, rollout.Never(q.now)
		}
	}
}

// claimed is when a host is through that acts on its claim.
func (q *Explainer) claimed(p *rollout.Problem, h *Host, r *rollout.Rollout, wave int) rollout.Ends {
	at := q.now
	if h.Work.Manifest == r.Manifest && h.Work.ClaimedAt != 0 {
		at = h.Work.ClaimedAt
	}
	if m := &h.Machine; m.Phase == host.Soaking && m.Manifest == r.Manifest {
		if soaked := h.Clock.onServer(m.SoakFrom.Add(r.Plan.Header.Waves[wave].Soak)); soaked != 0 {
			return p.Soaking(soaked)
		}
	}
	return p.Claimed(wave, at)
}

// own adds what keeps a waiting host by itself: until when, or for a time that is not known.
func (q *Explainer) own(t *rollout.Task, f *facts) {
	for _, g := range gate.Of(gate.ToUpdate, gate.AtOffer) {
		if g.Scope != gate.PerHost || g.Code == gate.HostEdge || g.Code == gate.Canary || g.Check(f, false) == nil {
			continue
		}
		b := g.Check(f, true)
		if b.Earliest == 0 {
			t.Hangs = b.Message
			return
		}
		t.At = rollout.EndsAt(b.Earliest, t.At[0], 0, 0)
	}
}

// elsewhere is when a host gives back the slots that it holds for something else.
func (q *Explainer) elsewhere(p *rollout.Problem, h *Host) rollout.Ends {
	switch {
	case !h.Reachable(), h.Machine.Phase == host.Failed && !h.Machine.Reverting:
		return rollout.Never(q.now)
	case h.offered():
		return rollout.EndsAt(q.now, q.now, h.Grant.Expires, h.Grant.Expires)
	}
	at := p.Busy(q.s.soakedAt(h, q.now))
	if plan := q.s.hostPlan(h, h.actsFor()); plan != nil && h.Machine.Phase == host.Activating {
		at = rollout.EndsAt(q.now, q.now, at[1].Add(plan.Soak), at[2].Add(plan.Soak))
	}
	return at
}

// pace takes how long hosts took to activate, in this rollout if any did, else in what they did last.
func (s *State) pace(p *rollout.Problem, r *rollout.Rollout) {
	var here, before []clock.Duration
	for i := range r.Plan.Leaves {
		h := s.Hosts[r.Plan.Leaves[i].Host]
		if h == nil || h.Machine.ClaimedAt == 0 || h.Machine.SoakFrom <= h.Machine.ClaimedAt {
			continue
		}
		took := h.Machine.SoakFrom.Sub(h.Machine.ClaimedAt)
		if h.Machine.Manifest == r.Manifest && (h.Machine.Phase == host.Soaking || h.Machine.Phase == host.Converged) {
			here = append(here, took)
		} else if h.Machine.Manifest != r.Manifest && h.Machine.Phase == host.Converged {
			before = append(before, took)
		}
	}
	if len(here) == 0 {
		here = before
	}
	if len(here) > 0 {
		slices.Sort(here)
		p.SetPace(here[len(here)/2], here[len(here)-1])
	}
}

// lacking reports what each wave lacks even when all of its hosts that are there have converged.
func (s *State) lacking(p *rollout.Problem, r *rollout.Rollout, f *facts) {
	coming, all := make([]int, len(r.Waves)), 0
	for i := range p.Tasks {
		if t := &p.Tasks[i]; t.State != rollout.Out && !t.Fails {
			coming[t.Wave]++
			all++
		}
	}
	t := r.Total()
	for w := r.Cursor; w < len(r.Waves); w++ {
		e := s.evidence(r, w)
		if last := w == len(r.Waves)-1; last && t.Evidence()+all == 0 {
			e.Hosts, e.AtTarget = t.Present(), t.By[rollout.AtTarget]
		} else if last && e.MinPercent == 0 {
			continue
		}
		if can := e.Converged + coming[w]; e.Nobody || can < e.Needed() {
			p.Unproven[w] = fmt.Sprintf("wave %s needs %d of its hosts to converge, and %d of them are there and can", e.Wave, max(1, e.Needed()), can)
		}
	}
	f.purpose, f.h, f.i = gate.ToPromote, nil, -1
	if b := gate.FirstCode(f, gate.ToPromote, gate.AtOffer, gate.Compliance); b != nil && p.Hangs == "" {
		p.Unproven[r.Cursor] = b.Message
	}
}
