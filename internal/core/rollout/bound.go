package rollout

import "github.com/steadyfleet/steady/internal/core/clock"

// bound is what no course goes below: each budget, each chain of host edges and each window by
// itself, with hosts that take their soak alone. To play with no pace is no bound: a faster host
// may take a slot for which a better one comes later.
type bound struct {
	*Problem
	begins   []clock.Instant   // by task
	promoted []clock.Instant   // by wave
	held     [][]clock.Instant // by budget: until when hosts on their way hold slots
}

func (p *Problem) bound() *bound {
	b := &bound{Problem: p, begins: make([]clock.Instant, len(p.Tasks)), promoted: make([]clock.Instant, len(p.Plan.Waves)), held: make([][]clock.Instant, len(p.Budgets))}
	kinds, of := p.kindsOf()
	unmet, then := p.edges()
	members := make([][]int, len(p.Plan.Waves)) // tasks by the wave that waits for them
	for i := range p.Tasks {
		t := &p.Tasks[i]
		if t.State == Out {
			continue
		}
		w := max(t.Wave, p.Cursor)
		members[w] = append(members[w], i)
		for k := 0; k < len(t.Budgets) && t.State == Flies; k++ {
			b.held[t.Budgets[k]] = append(b.held[t.Budgets[k]], t.At[least])
		}
	}
	at := p.Now
	for w := p.Cursor; w < len(members); w++ {
		end := at
		if w == p.Cursor {
			end = max(end, p.Soaks)
		}
		end = max(end, b.chains(members[w], at, of, unmet, then), b.slots(w, at, kinds), b.lines(members[w], w, at, kinds, of))
		b.promoted[w], at = end, end
	}
	return b
}

// chains follows the host edges: each host begins when its windows open after the last that it goes after.
func (b *bound) chains(members []int, at clock.Instant, of []*kind, unmet []int, then map[int][]int) (end clock.Instant) {
	queue := make([]int, 0, len(members))
	for _, i := range members {
		if unmet[i] == 0 {
			queue = append(queue, i)
		}
		b.begins[i] = max(b.begins[i], at)
	}
	for len(queue) > 0 {
		i := queue[0]
		queue = queue[1:]
		t := &b.Tasks[i]
		through := t.At[least]
		if t.State == Waits {
			b.begins[i] = max(b.begins[i], t.At[least])
			if from := of[i].from(b.begins[i], 0); from != 0 {
				b.begins[i] = from
			}
			through = b.begins[i].Add(b.takes(least, t.Wave))
		}
		end = max(end, through)
		for _, k := range then[i] {
			b.begins[k] = max(b.begins[k], through)
			if unmet[k]--; unmet[k] == 0 && b.Tasks[k].Wave <= max(t.Wave, b.Cursor) {
				queue = append(queue, k)
			}
		}
	}
	return end
}

// lines has the hosts of each kind go one after the other through each of its budgets, in their
// windows. Those that nothing of their own keeps back begin in that order.
func (b *bound) lines(members []int, w int, at clock.Instant, kinds, of []*kind) (end clock.Instant) {
	all, lines := map[*kind]int{}, map[*kind][]int{}
	for _, i := range members {
		if of[i] == nil {
			continue
		}
		if all[of[i]]++; len(b.Leaves[i].After) == 0 && b.Tasks[i].At[least] <= b.Now && b.Tasks[i].Hangs == "" {
			lines[of[i]] = append(lines[of[i]], i)
		}
	}
	for _, k := range kinds {
		if max(k.wave, b.Cursor) != w || all[k] == 0 {
			continue
		}
		for _, budget := range k.budgets {
			begins, last := b.fill(budget, all[k], at, b.takes(least, k.wave), k)
			end = max(end, last)
			for n, i := range lines[k] {
				b.begins[i] = max(b.begins[i], begins[n])
			}
		}
	}
	return end
}

// slots has all hosts of a wave go through each of their budgets, whatever their windows.
func (b *bound) slots(w int, at clock.Instant, kinds []*kind) (end clock.Instant) {
	n, d := make([]int, len(b.Budgets)), make([]clock.Duration, len(b.Budgets))
	count := func(budgets []int, wave int) {
		for _, k := range budgets {
			if soak := b.takes(least, wave); n[k] == 0 || soak < d[k] {
				d[k] = soak
			}
			n[k]++
		}
	}
	for i := range b.Tasks {
		if t := &b.Tasks[i]; t.State == Waits && !t.HasSlot && max(t.Wave, b.Cursor) == w {
			count(t.Budgets, t.Wave)
		}
	}
	for k := range n {
		if n[k] > 0 {
			_, last := b.fill(k, n[k], at, d[k], nil)
			end = max(end, last)
		}
	}
	return end
}

// fill is when each of n hosts that take d can begin at the soonest with the slots of a budget,
// and when the last of them is through. Slots of other rollouts may come free at once.
func (b *bound) fill(budget, n int, at clock.Instant, d clock.Duration, k *kind) (begins []clock.Instant, end clock.Instant) {
	free := b.Budgets[budget].Max
	var slots clock.Queue[struct{}]
	for _, until := range b.held[budget] {
		if until > at {
			free--
			slots.Push(until, struct{}{})
		}
	}
	for range min(free, n) {
		slots.Push(at, struct{}{})
	}
	begins = make([]clock.Instant, 0, n)
	for range n {
		if slots.Len() == 0 {
			begins = append(begins, at) // a budget that holds everybody
			continue
		}
		from, _ := slots.Pop()
		if k != nil {
			if opens := k.from(from, 0); opens != 0 {
				from = opens
			}
		}
		begins = append(begins, from)
		end = from.Add(d)
		slots.Push(end, struct{}{})
	}
	return begins, end
}
