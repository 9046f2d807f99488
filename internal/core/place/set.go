package place

import (
	"cmp"
	"slices"
	"strings"
)

// maxVisits bounds the visits of hosts in a search, which is so long on one goroutine in a
// large fleet and complete in a small one.
const maxVisits = 100_000

// Placement is where all pods of a part or a session go, or why they do not.
type Placement struct {
	// Decisions are in the order of the requests; none when one is refused.
	Decisions []Decision `json:"decisions,omitempty"`
	// Refused is the first that found no host in the declared order.
	Refused *Decision `json:"refused,omitempty"`
}

// PlaceAll chooses hosts for all requests or for none. Each sees those before it, in the
// declared order. Where one finds no host so, a search goes back and forth: requests that the
// fewest hosts can run come first, and of these the largest; hosts are tried in the order
// of their rank, each with the GPUs that it would give to this request alone. After
// 100,000 visits of hosts it ends. So a set may be refused that a longer search, or other GPUs of
// the same hosts, would fit.
func PlaceAll(reqs []Request, hosts []Host, reservations []Reservation) Placement {
	return NewCalendar(hosts, reservations).PlaceAll(reqs)
}

// PlaceAll is PlaceAll on a calendar.
func (c *Calendar) PlaceAll(reqs []Request) Placement {
	b, out := c.own(), Placement{}
	var undo []func()
	for i := range reqs {
		d := b.place(&reqs[i])
		if !d.Placed() {
			out.Refused = &d
			break
		}
		out.Decisions = append(out.Decisions, d)
		r := reqs[i].Reserve(d)
		undo = append(undo, b.reserve(&r))
	}
	if out.Refused == nil {
		return out
	}
	for _, f := range slices.Backward(undo) {
		f()
	}
	out.Decisions = nil
	if found := b.search(reqs); found != nil {
		return Placement{Decisions: found}
	}
	return out
}

func (b *book) host(name string) *hostBook {
	i, found := slices.BinarySearchFunc(b.hosts, name, func(h hostBook, name string) int { return strings.Compare(h.Name, name) })
	if !found {
		return nil
	}
	return &b.hosts[i]
}

// reserve books r, and undo takes it away again.
func (b *book) reserve(r *Reservation) (undo func()) {
	h := b.host(r.Host)
	before := h.reserved
	i, _ := slices.BinarySearchFunc(before, r, order)
	h.reserved = slices.Insert(slices.Clip(slices.Clone(before)), i, r)
	return func() { h.reserved = before }
}

// search finds decisions in another order than the declared one, or nil.
func (b *book) search(reqs []Request) []Decision {
	hosts, by := make([]int, len(reqs)), make([]int, len(reqs))
	for i := range reqs {
		by[i] = i
		if reqs[i].Validate() != nil {
			return nil
		}
		if hosts[i] = len(b.options(&reqs[i], nil)); hosts[i] == 0 {
			return nil // reservations of the others give no room
		}
	}
	slices.SortStableFunc(by, func(i, j int) int {
		a, b := &reqs[i], &reqs[j]
		return cmp.Or(cmp.Compare(hosts[i], hosts[j]), cmp.Compare(b.GPU.Count, a.GPU.Count), cmp.Compare(b.GPU.Memory, a.GPU.Memory),
			cmp.Compare(b.Resources.Memory, a.Resources.Memory), cmp.Compare(b.Resources.MilliCPU, a.Resources.MilliCPU))
	})
	s := searching{book: b, reqs: reqs, by: by, visits: maxVisits, found: make([]Decision, len(reqs))}
	if !s.from(0) {
		return nil
	}
	return s.found
}

// searching is a depth-first search with a bound.
type searching struct {
	*book
	reqs   []Request
	by     []int
	visits int
	found  []Decision
}

// from places the requests from the one at by[k] on.
func (s *searching) from(k int) bool {
	if k == len(s.by) {
		return true
	}
	if s.visits -= len(s.hosts); s.visits < 0 {
		return false
	}
	req := &s.reqs[s.by[k]]
	ranked := s.options(req, nil)
	slices.SortFunc(ranked, func(a, b option) int { return a.compare(&b.score) })
	for _, o := range ranked {
		d := Decision{Owner: req.Owner, Slot: req.Slot, Host: o.name, GPUs: o.gpus, Feasible: len(ranked),
			Message: "host " + o.name + " leaves room for the others, which the declared order does not"}
		r := req.Reserve(d)
		undo := s.reserve(&r)
		fits := s.from(k + 1)
		undo()
		if fits {
			s.options(req, &d.LeftOut)
			s.found[s.by[k]] = d
			return true
		}
		if s.visits < 0 {
			break
		}
	}
	return false
}
