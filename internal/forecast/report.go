package forecast

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"

	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Report is what many courses have in common and how far they differ. All times
// count from the start of the forecast.
type Report struct {
	Hosts       int            `json:"hosts"`
	Runs        int            `json:"runs"`
	Seed        uint64         `json:"seed"`
	Horizon     clock.Duration `json:"horizon"`
	Assumptions Assumptions    `json:"assumptions"`
	// Finished counts the runs in which every rollout converged, Finish is when.
	Finished int       `json:"finished"`
	Finish   Spread    `json:"finish"`
	Rollouts []Rollout `json:"rollouts"`
	Budgets  []Budget  `json:"budgets"`
	InFlight Curve     `json:"inFlight"`
	// PeakInFlight is the most hosts that were in flight at a time, in any run.
	PeakInFlight int `json:"peakInFlight"`
}

// Rollout sums up what became of one rollout.
type Rollout struct {
	Name     string        `json:"name"`
	Channel  string        `json:"channel"`
	Manifest digest.Digest `json:"manifest"`
	Hosts    int           `json:"hosts"`
	Waves    []Wave        `json:"waves"`
	// In how many runs it converged, was reverted, was halted, did not end, or did
	// not even open.
	Converged int    `json:"converged"`
	Reverted  int    `json:"reverted"`
	Halted    int    `json:"halted"`
	Blocked   int    `json:"blocked"`
	Unopened  int    `json:"unopened"`
	Finish    Spread `json:"finish"` // where it converged
	// Affected is how many hosts had claimed a grant of it in the runs in which it
	// was reverted or halted.
	Affected Count `json:"affected"`
	// Reason is an example of why it was stopped.
	Reason string `json:"reason,omitempty"`
	// Obstacles say what kept it where it did not end, the most frequent first.
	Obstacles []ObstacleCount `json:"obstacles,omitempty"`
}

// Wave sums up one wave.
type Wave struct {
	Name  string `json:"name"`
	Hosts int    `json:"hosts"`
	// Reached and Passed count the runs in which it opened and was promoted; Opens
	// and Promoted are when. Stopped counts those in which the failure policy fired
	// in it.
	Reached  int    `json:"reached"`
	Opens    Spread `json:"opens"`
	Passed   int    `json:"passed"`
	Promoted Spread `json:"promoted"`
	Stopped  int    `json:"stopped"`
}

// Budget sums up the use of one disruption budget.
type Budget struct {
	Selector string `json:"selector"`
	Max      int    `json:"max"`
	Peak     int    `json:"peak"` // of any run
	Usage    Curve  `json:"usage"`
}

// ObstacleCount is one way in which a rollout did not end.
type ObstacleCount struct {
	Runs int `json:"runs"`
	Obstacle
}

// Spread is where the values of many runs lie. It is zero where Runs is.
type Spread struct {
	Runs   int            `json:"runs"`
	Mean   clock.Duration `json:"mean"`
	Best   clock.Duration `json:"best"`
	Median clock.Duration `json:"median"`
	P95    clock.Duration `json:"p95"`
	Worst  clock.Duration `json:"worst"`
}

// Count is the same of a number.
type Count struct {
	Runs   int `json:"runs"`
	Median int `json:"median"`
	Worst  int `json:"worst"`
}

func spread(values []clock.Duration) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	slices.Sort(values)
	s := Spread{Runs: len(values), Best: values[0], Median: rank(values, 50), P95: rank(values, 95), Worst: values[len(values)-1]}
	for _, v := range values {
		s.Mean += v
	}
	s.Mean /= clock.Duration(len(values))
	return s
}

// rank is the nearest-rank percentile of sorted values.
func rank[T any](sorted []T, percent int) T {
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

func count(values []int) Count {
	if len(values) == 0 {
		return Count{}
	}
	slices.Sort(values)
	return Count{Runs: len(values), Median: rank(values, 50), Worst: values[len(values)-1]}
}

// MaxRuns bounds the courses of one forecast.
const MaxRuns = 10_000

// DefaultRuns are enough for a fleet, and not too long a wait for a large one.
func DefaultRuns(hosts int) int {
	const most, least, together = 200, 20, 200_000
	return max(least, min(most, together/max(1, hosts)))
}

// Run plays many courses, each with a seed of its own that follows from the first,
// on all processors, and sums them up. Progress, if set, is told how many are
// done, from one goroutine at a time. Runs must be at least 1.
func Run(ctx context.Context, f *Fleet, a Assumptions, runs int, seed uint64, progress func(done int)) (*Report, error) {
	courses, errs := make([]*course, runs), make([]error, runs)
	var next, done atomic.Int64
	var failed atomic.Bool
	var telling sync.Mutex
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), runs) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(runs) && !failed.Load() && ctx.Err() == nil; i = next.Add(1) - 1 {
				courses[i], errs[i] = play(f, &Drawn{Assumptions: a, Seed: seed + uint64(i), Tags: f.Tags})
				if errs[i] != nil {
					failed.Store(true)
				}
				if n := done.Add(1); progress != nil {
					telling.Lock()
					progress(int(n))
					telling.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &Report{Hosts: len(f.Hosts), Runs: runs, Seed: seed, Horizon: f.Horizon, Assumptions: a}
	r.sum(courses)
	if f.Only != "" && len(r.Rollouts) == 0 {
		return nil, &NameError{fmt.Sprintf("no rollout %q is open, or waits to be", f.Only)}
	}
	return r, nil
}

func (r *Report) sum(courses []*course) {
	var finish []clock.Duration
	usage := map[budgetKey][]*Series{}
	var flight []*Series
	var order []digest.Digest
	passages := map[digest.Digest][]*passage{}
	for _, c := range courses {
		if end, ok := c.finished(); ok {
			finish = append(finish, end)
		}
		for k, s := range c.usage { // order-free: each list is of one budget
			s.reach(c.end)
			usage[k] = append(usage[k], s)
		}
		flight = append(flight, &c.flight)
		for _, d := range c.order {
			if passages[d] == nil {
				order = append(order, d)
			}
			passages[d] = append(passages[d], c.rollouts[d])
		}
	}
	r.Finished, r.Finish = len(finish), spread(finish)
	r.Rollouts, r.Budgets = []Rollout{}, []Budget{}
	for _, d := range order {
		r.Rollouts = append(r.Rollouts, summed(passages[d]))
	}
	keys := slices.SortedFunc(maps.Keys(usage), func(a, b budgetKey) int {
		return cmp.Or(cmp.Compare(a.selector, b.selector), cmp.Compare(a.max, b.max))
	})
	for _, k := range keys {
		b := Budget{Selector: k.selector, Max: k.max}
		for _, s := range usage[k] {
			b.Peak = max(b.Peak, s.Peak())
		}
		b.Usage = curveOf(usage[k])
		r.Budgets = append(r.Budgets, b)
	}
	for _, s := range flight {
		r.PeakInFlight = max(r.PeakInFlight, s.Peak())
	}
	r.InFlight = curveOf(flight)
}

// finished reports when every rollout had converged.
func (c *course) finished() (clock.Duration, bool) {
	end := clock.Duration(0)
	for _, p := range c.rollouts { // order-free: the latest one counts
		if p.phase != rollout.StatusDone {
			return 0, false
		}
		end = max(end, p.ended)
	}
	return end, true
}

func summed(ps []*passage) Rollout {
	out := Rollout{Name: ps[0].name, Channel: ps[0].channel, Manifest: ps[0].manifest, Hosts: ps[0].hosts, Waves: []Wave{}}
	var finish []clock.Duration
	var affected []int
	holds := map[string]*ObstacleCount{}
	for _, p := range ps {
		switch {
		case p.opened == never:
			out.Unopened++
		case p.phase == rollout.StatusDone:
			out.Converged++
			finish = append(finish, p.ended)
		case p.phase == string(rollout.Reverted) || p.phase == rollout.StatusReverting || p.phase == rollout.StatusRevertFailed:
			out.Reverted++
		case p.phase == rollout.StatusHalted || p.phase == rollout.StatusCancelled:
			out.Halted++
		default:
			out.Blocked++
		}
		if p.stopped >= 0 && p.phase != rollout.StatusDone {
			affected = append(affected, p.claimed)
			out.Reason = cmp.Or(out.Reason, p.reason)
		}
		if p.hold != nil {
			k := string(p.hold.Code) + "/" + p.hold.Detail
			if p.hold.HostBlock != nil {
				k += "/" + string(p.hold.HostBlock.Code)
			}
			if holds[k] == nil {
				holds[k] = &ObstacleCount{Obstacle: *p.hold}
			}
			holds[k].Runs++
		}
	}
	out.Finish, out.Affected = spread(finish), count(affected)
	for _, k := range slices.Sorted(maps.Keys(holds)) {
		out.Obstacles = append(out.Obstacles, *holds[k])
	}
	slices.SortStableFunc(out.Obstacles, func(a, b ObstacleCount) int { return cmp.Compare(b.Runs, a.Runs) })
	for i := range ps[0].waves {
		out.Waves = append(out.Waves, summedWave(ps, i))
	}
	return out
}

func summedWave(ps []*passage, i int) Wave {
	w := Wave{Name: ps[0].waves[i].name, Hosts: ps[0].waves[i].hosts}
	var opens, promoted []clock.Duration
	for _, p := range ps {
		st := &p.waves[i]
		if st.opened != never {
			opens = append(opens, st.opened)
		}
		if st.promoted != never {
			promoted = append(promoted, st.promoted)
		}
		if p.stopped == i && p.phase != rollout.StatusDone {
			w.Stopped++
		}
	}
	w.Reached, w.Passed = len(opens), len(promoted)
	w.Opens, w.Promoted = spread(opens), spread(promoted)
	return w
}
