package engine

import (
	"reflect"
	"sync/atomic"
)

// grown is a list that is a value although one that is made element by element shares its
// array: the first to extend a list extends it in place, every other one gets a copy.
type grown[T any] struct {
	all  []T
	used *atomic.Int64 // of the array of all; nil while nothing is free there
}

func (g grown[T]) with(more ...T) grown[T] {
	n, k := len(g.all), len(more)
	switch {
	case k == 0:
		return g
	case n == 0:
		return grown[T]{all: append([]T(nil), more...)}
	case g.used != nil && n+k <= cap(g.all) && g.used.CompareAndSwap(int64(n), int64(n+k)):
		return grown[T]{append(g.all, more...), g.used}
	}
	next := grown[T]{make([]T, n, 2*(n+k)), new(atomic.Int64)}
	copy(next.all, g.all)
	next.all = append(next.all, more...)
	next.used.Store(int64(n + k))
	return next
}

// list is the list for readers, who may append to it.
func (g grown[T]) list() []T { return g.all[:len(g.all):len(g.all)] }

// Same reports whether two decisions are equal in every part.
func Same(a, b Decision) bool {
	kids := reflect.DeepEqual(a.children.all, b.children.all) && reflect.DeepEqual(a.verdicts.all, b.verdicts.all)
	a.children, a.verdicts, b.children, b.verdicts = grown[Intent]{}, grown[Verdict]{}, grown[Intent]{}, grown[Verdict]{}
	return kids && reflect.DeepEqual(a, b)
}
