package purity

import (
	"fmt"
	"maps"
	"slices"
	clk "time"
)

type pipe chan int // want a channel type

func world(m map[string]int) {
	_ = clk.Now()               // want time.Now
	_ = clk.Since(clk.Time{})   // want time.Since
	_ = clk.Until(clk.Time{})   // want time.Until
	_ = clk.After(1)            // want time.After
	clk.AfterFunc(1, func() {}) // want time.AfterFunc
	clk.NewTimer(1)             // want time.NewTimer
	clk.NewTicker(1)            // want time.NewTicker
	_ = clk.Tick(1)             // want time.Tick
	clk.Sleep(1)                // want time.Sleep
	f := clk.Now                // want time.Now
	_ = f
	_ = clk.Unix(0, 0).In(clk.Local) // want time.Local
	go world(m)                      // want a go statement
	select {}                        // want a select statement
}

func prints() {
	fmt.Println("x") // want fmt.Println
	println("x")     // want println
}

func ranges(m map[string]int) ([]string, string) {
	var names []string
	for k := range m { // want a range over a map
		names = append(names, k)
	}
	last := ""
	for k := range m { // want a range over a map
		last = k
	}
	for k, v := range m { // want a range over a map
		if v > 1 {
			return nil, k
		}
	}
	for range m { // want a range over a map
		fmt.Sprint()
		break
	}
	byValue := map[int]string{}
	for k, v := range m { // want a range over a map
		byValue[v] = k
	}
	sum := 0.0
	for _, v := range m { // want a range over a map
		sum += float64(v)
	}
	for k := range maps.Keys(m) { // want a range over a map
		last += k
	}
	// order-free:
	for k := range m { // want a range over a map
		last += k
	}
	switch {
	default:
		for k := range m { // want a range over a map
			last += k
		}
	}
	names = slices.Collect(maps.Keys(m)) // want an unsorted maps.Keys
	return names, last
}

func generic[M ~map[string]int](m M) (out []string) {
	for k := range m { // want a range over a map
		out = append(out, k)
	}
	return out
}

func mixed(m map[string]int, seen map[string]bool) bool {
	for k, v := range m { // want a range over a map
		seen[k] = true
		if v > 3 {
			return true
		}
	}
	for _, v := range m { // want a range over a map
		if v > 3 {
			return true
		}
		if v < 0 {
			return false
		}
	}
	return false
}

func reads(m map[string]int, used map[int]bool) int {
	total, found := 0, false
	for _, v := range m { // want a range over a map
		if total < 10 {
			total += v
		}
	}
	for _, v := range m { // want a range over a map
		if !found {
			total += v
			found = true
		}
	}
	for _, v := range m { // want a range over a map
		used[v] = true
		used[v+1] = false
	}
	for _, v := range m { // want a range over a map
		if v > 2 {
			found = true
		} else {
			found = false
		}
	}
	return total
}
