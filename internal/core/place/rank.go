package place

import (
	"cmp"
	"math/bits"
	"strings"
)

// score is what the criteria compare; less is better in each.
type score struct {
	spread    int   // pods of the group in the host's domain
	gpuMemory int64 // of the GPUs that the pod gets
	gpusLeft  int
	left      uint64 // shares of CPU and memory that stay free, in parts of partsOf each
	name      string
}

const partsOf = 1_000_000

// criteria rank hosts, the first that tells two apart.
var criteria = []struct {
	message string
	compare func(a, b *score) int
}{
	{"the fewest pods of its group", func(a, b *score) int { return cmp.Compare(a.spread, b.spread) }},
	{"the smallest GPUs that serve", func(a, b *score) int { return cmp.Compare(a.gpuMemory, b.gpuMemory) }},
	{"the fewest GPUs left free", func(a, b *score) int { return cmp.Compare(a.gpusLeft, b.gpusLeft) }},
	{"the least CPU and memory left free", func(a, b *score) int { return cmp.Compare(a.left, b.left) }},
	{"the first name of equals", func(a, b *score) int { return strings.Compare(a.name, b.name) }},
}

func (s *score) compare(o *score) int {
	for _, c := range criteria {
		if d := c.compare(s, o); d != 0 {
			return d
		}
	}
	return 0
}

// decisive says by what the first is better than the second.
func decisive(first, second *score) string {
	for _, c := range criteria {
		if c.compare(first, second) != 0 {
			return c.message
		}
	}
	return criteria[len(criteria)-1].message
}

// option is a host that can run a pod, with the GPUs that it would get.
type option struct {
	score
	gpus []int
}

// options lists the hosts that can run a pod, by name. With out, it adds the reason for each
// of the others.
func (b *book) options(req *Request, out *[]Reason) []option {
	all := make([]option, 0, len(b.hosts))
	mates := b.mates(req)
	for i := range b.hosts {
		h := &b.hosts[i]
		if f := refusing(hostFilters, req, h.Host); f != nil {
			if out != nil {
				*out = append(*out, Reason{h.Name, f.code, worded(b, f, req, h.Host)})
			}
			continue
		}
		c := b.candidate(h, req, req.Slot)
		if f := refusing(slotFilters, req, c); f != nil {
			if out != nil {
				*out = append(*out, Reason{h.Name, f.code, worded(b, f, req, c)})
			}
			continue
		}
		all = append(all, option{gpus: append([]int(nil), c.gpus...), score: c.score(mates)})
	}
	return all
}

// worded is the message of a filter, where it is read.
func worded[T any](b *book, f *filter[T], req *Request, h T) string {
	if b.brief {
		return ""
	}
	return f.message(req, h)
}

// best are the first and the second by rank.
func best(all []option) (first, second *option) {
	for i := range all {
		switch o := &all[i]; {
		case first == nil || o.compare(&first.score) < 0:
			first, second = o, first
		case second == nil || o.compare(&second.score) < 0:
			second = o
		}
	}
	return first, second
}

func (c *candidate) score(mates map[string]int) score {
	s := score{gpusLeft: c.free - len(c.gpus), name: c.Name}
	if c.req.Spread != nil {
		s.spread = mates[c.req.Spread.domain(c.Host)]
	}
	for _, i := range c.gpus {
		s.gpuMemory += min(c.Facts.GPUs[i].Memory, maxAmount)
	}
	left, all := c.available().Sub(c.req.Resources), c.measured()
	s.left = share(left.MilliCPU, all.MilliCPU) + share(left.Memory, all.Memory)
	return s
}

// share is n of all in parts of partsOf, in whole numbers: every machine ranks alike.
func share(n, all int64) uint64 {
	if n <= 0 || all <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(min(n, all)), partsOf)
	q, _ := bits.Div64(hi, lo, uint64(all))
	return q
}

// mates counts the pods of the request's group in each domain within its slot.
func (b *book) mates(req *Request) map[string]int {
	if req.Spread == nil {
		return nil
	}
	count := map[string]int{}
	for i := range b.hosts {
		for _, r := range b.hosts[i].reserved {
			if r.Group == req.Group && r.Slot.Overlaps(req.Slot) {
				count[req.Spread.domain(b.hosts[i].Host)]++
			}
		}
	}
	return count
}
