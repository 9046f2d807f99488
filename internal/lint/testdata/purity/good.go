package purity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"
)

func fine(m map[string]int) []string {
	var names, big []string
	for k, v := range m {
		if v == 0 {
			continue
		}
		names = append(names, k)
		if n := v * 2; n > 4 {
			big = append(big, k)
		}
	}
	slices.Sort(names)
	sort.Strings(big)
	total, copied := 0, map[string]int{}
	for k, v := range m {
		total += v
		copied[k] = v
		total++
	}
	for k := range m {
		if k == "" {
			delete(copied, k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintln(nil, k)
	}
	for k := range m { // order-free: the longest name wins and names differ in length
		if len(k) > len(names[0]) {
			names[0] = k
		}
	}
	// order-free: a set is printed as a set.
	for k := range m {
		names[0] += k
	}
	return append(names, big...)
}

func any3(m map[string]int) bool {
	for _, v := range m {
		if v == 3 {
			return true
		}
	}
	return false
}

type pair struct {
	key string
	n   int
}

func pairs(m map[string]int) []pair {
	out := make([]pair, 0, len(m))
	for k, n := range maps.All(m) {
		out = append(out, pair{k, n})
	}
	slices.SortFunc(out, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	return out
}

func convert(d int64) time.Duration { return time.Duration(d) * time.Millisecond }

// A method that shares a name with a forbidden function is not that function.
type source struct{}

func (source) Now() int64 { return 0 }

func read(s source) int64 { return s.Now() }

func sets(m map[string][]int) (map[int]bool, map[int]struct{}, bool) {
	used, set, found := map[int]bool{}, map[int]struct{}{}, false
	for k, v := range m {
		slices.Sort(v)
		m[k] = slices.Compact(v)
	}
	for _, v := range m {
		used[len(v)] = true
		set[len(v)] = struct{}{}
		if len(v) > 2 {
			found = true
		}
	}
	return used, set, found
}
