package engine

// heap has four children a node. A slot carries its key, so that sifting reads no item; it
// writes only their places.
type heap struct {
	slots []slot
	late  bool // it orders deadlines, whose places are kept apart
}

type slot struct {
	key uint64
	it  *item
}

func (h *heap) len() int { return len(h.slots) }

// set puts a slot into its place.
func (h *heap) set(i int, s slot) {
	h.slots[i] = s
	if h.late {
		s.it.late = int32(i)
		return
	}
	s.it.index = int32(i)
}

func (h *heap) push(s slot) {
	h.slots = append(h.slots, s)
	h.up(len(h.slots)-1, s)
}

// pop removes and returns the first item.
func (h *heap) pop() *item { return h.remove(0).it }

// remove takes out the slot at a place.
func (h *heap) remove(i int) slot {
	old := h.slots
	gone, n := old[i], len(old)-1
	last := old[n]
	old[n] = slot{}
	h.slots = old[:n]
	if cap(old) > 1024 && n < cap(old)/4 {
		h.slots = append(make([]slot, 0, 2*n), old[:n]...)
	}
	if i < n {
		h.sift(i, last)
	}
	return gone
}

// sift puts a slot at a place, and from there to where it belongs.
func (h *heap) sift(i int, s slot) {
	if i > 0 && s.key < h.slots[(i-1)/4].key {
		h.up(i, s)
		return
	}
	h.down(i, s)
}

func (h *heap) up(i int, s slot) {
	for i > 0 {
		parent := (i - 1) / 4
		if s.key >= h.slots[parent].key {
			break
		}
		h.set(i, h.slots[parent])
		i = parent
	}
	h.set(i, s)
}

func (h *heap) down(i int, s slot) {
	a := h.slots
	for {
		first := 4*i + 1
		if first >= len(a) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(a)); c++ {
			if a[c].key < a[least].key {
				least = c
			}
		}
		if a[least].key >= s.key {
			break
		}
		h.set(i, a[least])
		i = least
	}
	h.set(i, s)
}
