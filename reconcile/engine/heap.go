package engine

// slots is a heap of four children a node. A slot carries its key, so that
// sifting reads no item; it writes only their places.
type slots []slot

type slot struct {
	key uint64
	seq uint64 // breaks ties: first offered, first out
	it  *item
}

func (s slot) before(o slot) bool {
	return s.key < o.key || s.key == o.key && s.seq < o.seq
}

func (h *slots) push(s slot) {
	*h = append(*h, s)
	h.up(len(*h)-1, s)
}

// pop removes and returns the first item.
func (h *slots) pop() *item {
	old := *h
	first, n := old[0].it, len(old)-1
	last := old[n]
	old[n] = slot{}
	*h = old[:n]
	if cap(old) > 1024 && n < cap(old)/4 {
		*h = append(make(slots, 0, 2*n), old[:n]...)
	}
	if n > 0 {
		h.down(0, last)
	}
	return first
}

// fix moves an item whose key has changed to s.
func (h *slots) fix(s slot) {
	i := int(s.it.index)
	if s.before((*h)[i]) {
		h.up(i, s)
		return
	}
	h.down(i, s)
}

func (h *slots) up(i int, s slot) {
	a := *h
	for i > 0 {
		parent := (i - 1) / 4
		if !s.before(a[parent]) {
			break
		}
		a[i] = a[parent]
		a[i].it.index = int32(i)
		i = parent
	}
	a[i] = s
	s.it.index = int32(i)
}

func (h *slots) down(i int, s slot) {
	a := *h
	for {
		first := 4*i + 1
		if first >= len(a) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(a)); c++ {
			if a[c].before(a[least]) {
				least = c
			}
		}
		if !a[least].before(s) {
			break
		}
		a[i] = a[least]
		a[i].it.index = int32(i)
		i = least
	}
	a[i] = s
	s.it.index = int32(i)
}
