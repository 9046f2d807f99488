package engine

import "slices"

// grown is a list that is a value, and to which elements are added one by one without a copy of
// those that it has.
type grown[T any] struct{ last *added[T] }

type added[T any] struct {
	before *added[T]
	items  []T
	count  int // of all up to here
}

func (g grown[T]) len() int {
	if g.last == nil {
		return 0
	}
	return g.last.count
}

func (g grown[T]) with(more ...T) grown[T] {
	if len(more) == 0 {
		return g
	}
	return grown[T]{&added[T]{g.last, slices.Clone(more), g.len() + len(more)}}
}

// list is a copy of the list, nil if it is empty.
func (g grown[T]) list() []T {
	if g.last == nil {
		return nil
	}
	out := make([]T, g.last.count)
	for a := g.last; a != nil; a = a.before {
		copy(out[a.count-len(a.items):], a.items)
	}
	return out
}
