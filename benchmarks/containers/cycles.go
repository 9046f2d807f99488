package main

import (
	"fmt"
	"os"
	"time"
)

// listingAge is for how long the loop answers turns from one listing.
const listingAge = 1100 * time.Millisecond

// How long after the last a cycle is: at once, so that one listing answers; as at
// rest, with its share of the sweep; and after what was seen is trusted for.
const (
	atOnce = 0
	usual  = 5 * time.Second
	whole  = 2 * time.Minute
)

// nothing is one cycle over everything with nothing to do. One that writes, to the
// engine or to the database, is an error.
func (b *bench) nothing(r *rig, after time.Duration) spent {
	time.Sleep(listingAge)
	n, refs := r.transitions(), r.open()
	s := b.counted(r, 0, func() { r.cycle(refs, after) })
	if after != atOnce { // what it saw is of the time to come, and not trusted
		time.Sleep(listingAge)
		r.cycle(refs, atOnce)
	}
	if s.Writes != 0 || r.transitions() != n {
		b.Fatalf("a cycle with nothing to do wrote: %d calls to the engine, %d transitions", s.Writes, r.transitions()-n)
	}
	return s
}

// cycles measures what a cycle costs by how many workspaces there are.
func (b *bench) cycles() {
	for _, n := range b.o.Sizes {
		dir, err := os.MkdirTemp(b.dir, "cycle-")
		b.ok(err)
		r := openRig(b.host, dir, b.d.Socket(), b.o.starts)
		running := n <= mostRunning
		began := time.Now()
		r.converge(load(b.host, dir, project(n, "1", "a", running)))
		fmt.Fprintf(os.Stderr, "%d workspaces are there after %s\n", n, time.Since(began).Round(time.Millisecond))
		name := fmt.Sprintf("%d running", n)
		if !running {
			name = fmt.Sprintf("%d created, not started", n)
		}
		stop := b.profile()
		var cycles, all, lone []spent
		for range b.o.Cycles {
			cycles = append(cycles, b.nothing(r, usual))
			lone = append(lone, b.list())
		}
		for range max(1, b.o.Cycles/3) {
			all = append(all, b.nothing(r, whole))
		}
		b.report.Cycles = append(b.report.Cycles, cycle{Workspaces: name, List: typical(lone), Cycle: typical(cycles), Whole: typical(all)})
		stop()
		r.close()
		b.wipe()
	}
}
