package rollout

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// The three plays of a problem: hosts that take no time, their usual time, and the most.
const (
	least = iota
	usual
	slow
	passes
)

// Ends are the instants at which something comes about in each play; a zero likely or latest is never.
type Ends [passes]clock.Instant

// EndsAt are such instants, none of them in the past.
func EndsAt(now, earliest, likely, latest clock.Instant) Ends {
	return Ends{max(now, earliest), max(now, earliest, likely), max(now, earliest, likely, latest)}
}

// Never is an end that the plan does not tell; it could come at once.
func Never(now clock.Instant) Ends { return Ends{least: now} }

// Pace is how long a host takes besides its soak: from a grant to its claim, and to activate.
type Pace struct{ Prepare, Activate clock.Duration }

// What is assumed of hosts whose pace is not known.
const (
	LeastPrepare  = clock.Second
	MostPrepare   = 20 * clock.Second
	LeastActivate = 30 * clock.Second
	MostActivate  = 2 * clock.Minute
)

// TypicalPace and SlowPace are that pace in the middle and at its worst.
var (
	TypicalPace = Pace{(LeastPrepare + MostPrepare) / 2, (LeastActivate + MostActivate) / 2}
	SlowPace    = Pace{MostPrepare, MostActivate}
)

// reports is what messages and the planner's gaps add to each host.
var reports = [passes]clock.Duration{usual: 250 * clock.Millisecond, slow: 3 * clock.Second}

// TaskState is what a host has still to do in a rollout.
type TaskState uint8

// The states of a task.
const (
	Out   TaskState = iota // nothing: it is through, or the rollout goes on without it
	Waits                  // it needs a grant
	Flies                  // it is on its way
)

// Task is one host's part in a rollout.
type Task struct {
	State   TaskState
	Wave    int
	Budgets []int
	// At is when a host that flies is through, and when one that waits may begin at the soonest.
	At Ends
	// HasSlot reports that the host that waits has slots of its budgets already.
	HasSlot bool
	// Fails reports that it does not converge: hosts that go after it never begin.
	Fails bool
	// Hangs is what keeps it for a time that the plan does not tell.
	Hangs string
}

// Slots is a budget.
type Slots struct {
	Selector string
	Max      int
}

// Other is a host of another rollout that holds slots of budgets until an instant.
type Other struct {
	Budgets []int
	At      Ends
}

// Problem is what a rollout has still to do. Tasks are parallel to the leaves of its plan.
type Problem struct {
	Now     clock.Instant
	Plan    *fleet.Manifest
	Leaves  []fleet.Leaf
	Cursor  int
	Tasks   []Task
	Budgets []Slots
	Others  []Other
	// Canaries is how many hosts may be tried until one has converged, zero for no bound;
	// Tried were, and one has its soak behind it from Soaked on.
	Canaries, Tried int
	Soaked          clock.Instant
	// Soaks is when those that converged in the open waves have soaked on the server's clock.
	Soaks clock.Instant
	// Hangs is what keeps the whole rollout, and Unproven what each wave lacks even when all of its
	// hosts that are there have converged.
	Hangs    string
	Unproven []string
	Pace     [passes]Pace
}

// NewProblem is that of a plan, with nothing to do yet.
func NewProblem(m *fleet.Manifest, leaves []fleet.Leaf, now clock.Instant) *Problem {
	p := &Problem{Now: now, Plan: m, Leaves: leaves, Tasks: make([]Task, len(leaves)), Unproven: make([]string, len(m.Waves))}
	p.Pace = [passes]Pace{usual: TypicalPace, slow: SlowPace}
	for i := range leaves {
		p.Tasks[i].Wave = leaves[i].Wave
	}
	return p
}

// SetPace has the problem played at a pace that was measured.
func (p *Problem) SetPace(middle, most clock.Duration) {
	p.Pace[usual].Activate = middle
	p.Pace[slow].Activate = max(p.Pace[slow].Activate, most)
}

// takes is how long a host of a wave takes from its grant on.
func (p *Problem) takes(pass, wave int) clock.Duration {
	return p.Plan.Waves[wave].Soak + p.Pace[pass].Prepare + p.Pace[pass].Activate + reports[pass]
}

// Offered are the ends of a host that was offered its grant at an instant.
func (p *Problem) Offered(wave int, at clock.Instant) Ends {
	soak := p.Plan.Waves[wave].Soak
	end := func(pass int) clock.Instant { return max(p.Now, at.Add(p.takes(pass, wave)-soak)).Add(soak) }
	return EndsAt(p.Now, p.Now.Add(soak), end(usual), end(slow))
}

// Lapses reports whether an offer ends before a host of the usual pace claims it, as one does that was
// made shortly before a window closed.
func (p *Problem) Lapses(at, expires clock.Instant) bool {
	return max(p.Now, at.Add(p.Pace[usual].Prepare)) > expires
}

// Claimed are the ends of a host that activates since an instant, on the server's clock.
func (p *Problem) Claimed(wave int, at clock.Instant) Ends {
	soak := p.Plan.Waves[wave].Soak
	end := func(pass int) clock.Instant { return max(p.Now, at.Add(p.Pace[pass].Activate)).Add(soak) }
	return EndsAt(p.Now, at.Add(soak), end(usual), end(slow).Add(reports[slow]))
}

// Soaking are the ends of a host whose soak ends at an instant.
func (p *Problem) Soaking(at clock.Instant) Ends {
	return EndsAt(p.Now, at, at, at.Add(reports[slow]))
}

// Busy are the instants at which a host has ended something else that it began; zero where that is not known.
func (p *Problem) Busy(soaked clock.Instant) Ends {
	return EndsAt(p.Now, p.Now, max(soaked, p.Now.Add(p.Pace[usual].Activate)), max(soaked, p.Now.Add(p.Pace[slow].Activate)))
}

// Back are the ends of a host that goes back since it failed at an instant; zero where that is not known.
func (p *Problem) Back(failed clock.Instant) Ends {
	if failed == 0 {
		failed = p.Now
	}
	return EndsAt(p.Now, p.Now, failed.Add(p.Pace[usual].Activate), failed.Add(p.Pace[slow].Activate+reports[slow]))
}

// Solve estimates the course.
func (p *Problem) Solve() *Course {
	c := &Course{Channel: p.Plan.Channel, Start: p.Now, Waves: make([]CourseOfWave, len(p.Plan.Waves)), p: p}
	bound, plays := p.bound(), [passes]*play{usual: p.play(usual), slow: p.play(slow)}
	c.begins = [passes][]clock.Instant{bound.begins, plays[usual].begins, plays[slow].begins}
	for pass := usual; pass < passes && c.hangs == ""; pass++ {
		c.hangs = plays[pass].hangs
	}
	opens := Estimate{Earliest: p.Now, Likely: p.Now, Latest: p.Now}
	for i := range c.Waves {
		w := &c.Waves[i]
		if w.Name = p.Plan.Waves[i].Name; i < p.Cursor {
			continue
		}
		w.Opens = opens
		w.Done = Estimate{Earliest: bound.promoted[i], Likely: plays[usual].promoted[i], Latest: plays[slow].promoted[i]}
		if w.Done.Likely == 0 || w.Done.Latest == 0 {
			w.Done = Estimate{Earliest: w.Done.Earliest, Hangs: c.hangs}
		} else {
			w.Done.order()
		}
		opens = w.Done
	}
	c.End = opens
	return c
}
