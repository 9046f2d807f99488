package file

import (
	"slices"
)

// align returns, for each element of to, which one of old it is or came of, and -1 for those
// that are new. Equal elements come first, in order where that can be; then those that have
// most in common; then, between two that stay, those at one place.
func align(old, to []any) []int {
	from := common(old, to)
	used := map[int]bool{}
	for _, i := range from {
		used[i] = true
	}
	take := func(j int, fits func(i int) bool) {
		for i := 0; i < len(old) && from[j] < 0; i++ {
			if !used[i] && fits(i) {
				from[j], used[i] = i, true
			}
		}
	}
	for j := range to {
		take(j, func(i int) bool { return same(old[i], to[j]) })
	}
	for j := range to {
		if len(old)*len(to) > maxAligned {
			break
		}
		best := 0
		for i := range old {
			if !used[i] {
				best = max(best, likeness(old[i], to[j]))
			}
		}
		if best > 0 {
			take(j, func(i int) bool { return likeness(old[i], to[j]) == best })
		}
	}
	for j := range to {
		after := -1
		if j > 0 {
			after = from[j-1]
		}
		next := len(old)
		for _, i := range from[j:] {
			if i > after {
				next = i
				break
			}
		}
		if j == 0 || after >= 0 {
			take(j, func(i int) bool { return i == after+1 && i < next })
		}
	}
	return from
}

// names are members by which elements of a list are told apart.
var names = []string{"id", "name", "key", "alias"}

// likeness of two values that differ; zero is none.
func likeness(a, b any) int {
	n := 0
	switch a := a.(type) {
	case map[string]any:
		b, _ := b.(map[string]any)
		for k, v := range a { // order-free: a sum
			if w, there := b[k]; there {
				n++
				if same(v, w) {
					n += 2
					if slices.Contains(names, k) {
						n += 100
					}
				}
			}
		}
	case []any:
		b, _ := b.([]any)
		for _, v := range a {
			if slices.ContainsFunc(b, func(w any) bool { return same(v, w) }) {
				n++
			}
		}
	}
	return n
}

// maxAligned bounds the pairs of elements that are compared for a common sequence.
const maxAligned = 1 << 20

// common pairs the equal elements of a longest common sequence.
func common(old, to []any) []int {
	from := make([]int, len(to))
	for j := range from {
		from[j] = -1
	}
	head := 0
	for head < min(len(old), len(to)) && same(old[head], to[head]) {
		from[head] = head
		head++
	}
	n, m := len(old), len(to)
	for n > head && m > head && same(old[n-1], to[m-1]) {
		n, m = n-1, m-1
		from[m] = n
	}
	if (n-head)*(m-head) > maxAligned {
		return from
	}
	longest := make([][]int, n+1)
	for i := range longest {
		longest[i] = make([]int, m+1)
	}
	equal := func(i, j int) bool { return same(old[i], to[j]) }
	for i := n - 1; i >= head; i-- {
		for j := m - 1; j >= head; j-- {
			longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			if equal(i, j) {
				longest[i][j] = longest[i+1][j+1] + 1
			}
		}
	}
	for i, j := head, head; i < n && j < m; {
		switch {
		case equal(i, j):
			from[j] = i
			i, j = i+1, j+1
		case longest[i+1][j] >= longest[i][j+1]:
			i++
		default:
			j++
		}
	}
	return from
}
