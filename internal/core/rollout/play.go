package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// play grants as the planner does, host after host in the order of the plan, at one pace.
type play struct {
	*Problem
	pass   int
	now    clock.Instant
	cursor int
	queue  clock.Queue[int] // of tasks, and behind them of others
	used   []int            // by budget
	kinds  []*kind
	of     []*kind // by task
	left   []int   // tasks of each wave that are not through
	unmet  []int   // by task: how many it goes after that have not converged
	then   map[int][]int
	tried  int
	proven bool // one has converged

	begins   []clock.Instant
	promoted []clock.Instant // by wave
	hangs    string
}

// kind is hosts of a wave that budgets and windows treat alike.
type kind struct {
	wave    int
	budgets []int
	ready   Set // tasks that may begin, as far as the host is concerned
	open    []clock.Window
	// opens is the answer to all that is asked from asked on and before it.
	asked, opens clock.Instant
}

// kindsOf groups the tasks as Classify does, and puts first those that need no slot: so the planner goes.
func (p *Problem) kindsOf() (list []*kind, of []*kind) {
	of = make([]*kind, len(p.Tasks))
	index, key := map[string]*kind{}, []byte(nil)
	for i := range p.Tasks {
		t, leaf := &p.Tasks[i], &p.Leaves[i]
		key = classKey(key[:0], t.Wave, t.Budgets, leaf.Windows)
		if t.HasSlot {
			key = classKey(append(key[:0], '+'), t.Wave, nil, leaf.Windows)
		}
		k := index[string(key)]
		switch {
		case k != nil:
		case t.HasSlot:
			k = &kind{wave: t.Wave, open: p.Plan.WindowsOf(leaf)}
			index[string(key)], list = k, slices.Insert(list, 0, k)
		default:
			k = &kind{wave: t.Wave, budgets: t.Budgets, open: p.Plan.WindowsOf(leaf)}
			index[string(key)], list = k, append(list, k)
		}
		if t.State == Waits {
			of[i] = k
		}
	}
	return list, of
}

// from is when all windows of the kind are open for as long as a host prepares, at an instant or after
// it; zero is never. A grant that is not claimed when one of them closes has expired.
func (k *kind) from(at clock.Instant, prepares clock.Duration) clock.Instant {
	switch {
	case len(k.open) == 0:
		return at
	case at >= k.asked && at < k.opens:
		return k.opens
	}
	after := at
	if clock.AllOpen(k.open, at) {
		if after = at.Add(prepares); clock.AllOpen(k.open, after) {
			return at
		}
	}
	opens, ok := clock.NextOpening(k.open, after)
	if !ok {
		return 0
	}
	k.asked, k.opens = at, opens
	return opens
}

// edges counts for each task those that it goes after and that have not converged, and lists who goes after each.
func (p *Problem) edges() (unmet []int, then map[int][]int) {
	unmet, then = make([]int, len(p.Tasks)), map[int][]int{}
	m := Manifest{Leaves: p.Leaves}
	for i := range p.Leaves {
		if p.Tasks[i].State != Waits {
			continue
		}
		for _, name := range p.Leaves[i].After {
			if k, in := m.Leaf(name); in && (p.Tasks[k].State != Out || p.Tasks[k].Fails) {
				unmet[i]++
				then[k] = append(then[k], i)
			}
		}
	}
	return unmet, then
}

func (p *Problem) play(pass int) *play {
	r := &play{Problem: p, pass: pass, now: p.Now, cursor: p.Cursor, used: make([]int, len(p.Budgets)), tried: p.Tried,
		begins: make([]clock.Instant, len(p.Tasks)), promoted: make([]clock.Instant, len(p.Plan.Waves)), left: make([]int, len(p.Plan.Waves))}
	r.kinds, r.of = p.kindsOf()
	r.unmet, r.then = p.edges()
	if p.Soaked != 0 {
		r.queue.Push(max(p.Soaked, p.Now), -1)
	}
	for i := range p.Tasks {
		switch t := &p.Tasks[i]; t.State {
		case Flies:
			r.left[t.Wave]++
			r.hold(t.Budgets, t.At[pass], i)
		case Waits:
			r.left[t.Wave]++
			if r.await(i); t.HasSlot {
				r.hold(t.Budgets, 0, i)
			}
		case Out:
		}
	}
	for k := range p.Others {
		r.hold(p.Others[k].Budgets, p.Others[k].At[pass], len(p.Tasks)+k)
	}
	if r.hangs = p.Hangs; r.hangs == "" {
		r.run()
	}
	return r
}

// hold takes slots until an instant; zero is for ever.
func (r *play) hold(budgets []int, until clock.Instant, who int) {
	for _, b := range budgets {
		r.used[b]++
	}
	if until != 0 {
		r.queue.Push(until, who)
	}
}

// await puts a task that goes after none in line, at once or when its time comes.
func (r *play) await(i int) {
	t := &r.Tasks[i]
	switch {
	case r.unmet[i] > 0 || t.Hangs != "":
	case t.At[r.pass] > r.now:
		r.queue.Push(t.At[r.pass], i)
	default:
		r.of[i].ready.Put(i, true)
	}
}

func (r *play) run() {
	for r.cursor < len(r.promoted) {
		opens := r.grant()
		if r.through() {
			if r.hangs = r.Unproven[r.cursor]; r.hangs != "" {
				return
			}
			if r.cursor == r.Cursor {
				r.now = max(r.now, r.Soaks)
			}
			r.promoted[r.cursor] = r.now
			r.cursor++
			continue
		}
		next := clock.Earliest(opens, r.queue.Next())
		if next == 0 {
			r.hangs = r.stuck()
			return
		}
		for r.now = max(r.now, next); r.queue.Due(r.now); {
			_, i := r.queue.Pop()
			r.land(i)
		}
	}
}

// through reports whether nothing is left to do in the open waves.
func (r *play) through() bool {
	for w := range r.cursor + 1 {
		if r.left[w] > 0 {
			return false
		}
	}
	return true
}

// grant begins what may begin, and reports when the next window opens of what is held by windows alone.
func (r *play) grant() (opens clock.Instant) {
	for _, k := range r.kinds {
		if k.wave > r.cursor || k.ready.Len() == 0 || !r.room(k) {
			continue
		}
		if at := k.from(r.now, r.Pace[r.pass].Prepare+reports[r.pass]); at != r.now {
			opens = clock.Earliest(opens, at)
			continue
		}
		for i := k.ready.Next(0); i >= 0 && r.room(k); i = k.ready.Next(i + 1) {
			k.ready.Put(i, false)
			r.begins[i] = r.now
			r.tried++
			r.hold(k.budgets, r.now.Add(r.takes(r.pass, k.wave)), i)
		}
	}
	return opens
}

// room reports whether budgets and the policy let one more host of a kind begin.
func (r *play) room(k *kind) bool {
	if r.Canaries > 0 && !r.proven && r.tried >= r.Canaries {
		return false
	}
	for _, b := range k.budgets {
		if r.used[b] >= r.Budgets[b].Max {
			return false
		}
	}
	return true
}

// land ends what has had its time.
func (r *play) land(i int) {
	if i < 0 {
		r.proven = true
		return
	}
	if i >= len(r.Tasks) {
		r.free(r.Others[i-len(r.Tasks)].Budgets)
		return
	}
	t := &r.Tasks[i]
	if t.State == Waits && r.begins[i] == 0 { // its time to begin has come
		r.of[i].ready.Put(i, true)
		return
	}
	r.free(t.Budgets)
	r.left[t.Wave]--
	if t.Fails {
		return
	}
	r.proven = true
	for _, k := range r.then[i] {
		if r.unmet[k]--; r.unmet[k] == 0 {
			r.await(k)
		}
	}
}

func (r *play) free(budgets []int) {
	for _, b := range budgets {
		r.used[b]--
	}
}

// stuck names the reason why an open wave does not end.
func (r *play) stuck() string {
	edge := ""
	for i := range r.Tasks {
		t := &r.Tasks[i]
		switch {
		case t.Wave > r.cursor || t.State == Out || r.begins[i] != 0:
		case t.Hangs != "":
			return t.Hangs
		case t.State == Waits && r.unmet[i] > 0 && edge == "":
			edge = r.afterWords(i)
		}
	}
	for _, k := range r.kinds {
		if k.wave > r.cursor || k.ready.Len() == 0 {
			continue
		}
		for _, b := range k.budgets {
			if u := &r.Budgets[b]; r.used[b] >= u.Max {
				return fmt.Sprintf("hosts that failed or are silent hold %d of %d slots of budget %s", r.used[b], u.Max, u.Selector)
			}
		}
		if len(k.open) > 0 {
			return shut(k, r.Leaves[k.ready.Next(0)].Host)
		}
	}
	if edge != "" {
		return edge
	}
	return "none of the hosts that were tried first has converged"
}

// afterWords report that a host goes after others that do not converge before it.
func (r *play) afterWords(i int) string {
	leaf, m := &r.Leaves[i], Manifest{Leaves: r.Leaves}
	words := "host " + leaf.Host + " goes after " + strings.Join(leaf.After, ", ")
	for _, name := range leaf.After {
		if k, in := m.Leaf(name); in && r.Leaves[k].Wave > r.cursor {
			return words + ", which is in a later wave"
		}
	}
	return words + ", which does not converge by itself"
}

// shut reports that the windows of a host do not open any more.
func shut(k *kind, host string) string {
	var names []string
	for i := range k.open {
		names = append(names, k.open[i].Name)
	}
	if len(names) > 1 {
		return fmt.Sprintf("windows %s of host %s are never open together before %s", strings.Join(names, " and "), host, clock.Horizon(k.open))
	}
	return fmt.Sprintf("window %s of host %s does not open often enough before %s", names[0], host, clock.Horizon(k.open))
}
