package place_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/place"
)

// TestAllOrNothing checks that either every request of a set gets a host, in the order of the
// requests and each within its constraints beside the others, or none does.
func TestAllOrNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		var reqs []place.Request
		for range rapid.IntRange(0, 4).Draw(t, "requests") {
			reqs = append(reqs, drawRequest(t))
		}
		all := place.PlaceAll(reqs, w.hosts, w.res)
		if all.Refused != nil {
			if len(all.Decisions) > 0 || all.Refused.Placed() {
				t.Fatalf("refused, and yet %+v", all)
			}
			return
		}
		var booked []place.Reservation
		for i, d := range all.Decisions {
			if d.Owner != reqs[i].Owner || d.Slot != reqs[i].Slot {
				t.Fatalf("decision %d is for %s in %v", i, d.Owner, d.Slot)
			}
			booked = append(booked, reqs[i].Reserve(d))
		}
		for i, d := range all.Decisions {
			others := slices.Concat(w.res, booked[:i], booked[i+1:])
			if bad := broken(&reqs[i], w.host(d.Host), others); len(bad) > 0 {
				t.Fatalf("%s on %s breaks %v beside the others", d.Owner, d.Host, bad)
			}
			for _, g := range d.GPUs {
				if !slices.Contains(serving(&reqs[i], w.host(d.Host), others), g) {
					t.Fatalf("GPU %d of %s does not serve %s beside the others", g, d.Host, d.Owner)
				}
			}
		}
	})
}

// TestSetsOfOneSlotAreRefusedOnlyWhereNoneFits checks the search against all ways to place a set, where
// GPUs are alike and slots the same, so that only hosts are a choice.
func TestSetsOfOneSlotAreRefusedOnlyWhereNoneFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, slot := drawWorld(t, true), drawSlot(t)
		var reqs []place.Request
		for i := range rapid.IntRange(0, 4).Draw(t, "requests") {
			r := drawRequest(t)
			r.Slot, r.GPU, r.Owner = slot, place.GPURequest{Count: r.GPU.Count}, fmt.Sprintf("new/x/%d", i)
			reqs = append(reqs, r)
		}
		all := place.PlaceAll(reqs, w.hosts, w.res)
		if fits := w.anyWay(reqs); fits != (all.Refused == nil) {
			t.Fatalf("some way fits: %t, the answer is %+v", fits, all.Refused)
		}
	})
}

// anyWay tries each host for each request.
func (w *world) anyWay(reqs []place.Request) bool {
	if len(reqs) == 0 {
		return true
	}
	for _, name := range w.able(&reqs[0]) {
		gpus := serving(&reqs[0], w.host(name), w.res)[:reqs[0].GPU.Count]
		r := place.Reservation{Pod: reqs[0].Pod, Host: name, Slot: reqs[0].Slot, Resources: reqs[0].Resources, GPUs: gpus}
		with := world{hosts: w.hosts, res: append(slices.Clone(w.res), r)}
		if with.anyWay(reqs[1:]) {
			return true
		}
	}
	return false
}

func TestSetsAreSearched(t *testing.T) {
	slot := place.Slot{From: hour(10), To: hour(12)}
	a, b := lab("a", 0), lab("b", 0)
	a.Facts.CPUs, b.Facts.CPUs = 6, 7
	for name, c := range map[string]struct {
		cpus  []int64
		hosts string
	}{
		"the declared order does": {[]int64{2, 4, 7}, "aab"},
		"the largest first":       {[]int64{2, 3, 2, 6}, "bbba"},
		"back and forth":          {[]int64{4, 3, 3, 3}, "bbaa"},
		"none":                    {[]int64{5, 5, 3}, ""},
		"one is too large":        {[]int64{1, 8}, ""},
	} {
		var reqs []place.Request
		for i, n := range c.cpus {
			r := want(fmt.Sprintf("s/p/%d", i), slot, 0)
			r.Resources = place.Resources{MilliCPU: n * 1000}
			reqs = append(reqs, r)
		}
		all, got := place.PlaceAll(reqs, []place.Host{a, b}, nil), ""
		for i, d := range all.Decisions {
			if got += d.Host; d.Owner != reqs[i].Owner || d.Message == "" || len(d.LeftOut)+d.Feasible != 2 {
				t.Errorf("%s: decision %d is %+v", name, i, d)
			}
		}
		if got != c.hosts || (all.Refused == nil) != (got != "") {
			t.Errorf("%s: %s, want %s: %+v", name, got, c.hosts, all)
		}
	}
}

// TestSetsMayComeInAnyOrderOfTime checks a pod against one before it whose slot begins earlier
// than that of the first.
func TestSetsMayComeInAnyOrderOfTime(t *testing.T) {
	of := func(owner string, from, to int, cpus int64) place.Request {
		r := want(owner, place.Slot{From: hour(from), To: hour(to)}, 0)
		r.Resources = place.Resources{MilliCPU: cpus * 1000}
		return r
	}
	reqs := []place.Request{of("a", 14, 16, 1), of("b", 10, 15, 3), of("c", 10, 12, 2)}
	all := place.PlaceAll(reqs, []place.Host{lab("h", 0)}, nil)
	if all.Refused == nil || all.Refused.Owner != "c" || all.Refused.LeftOut[0].Message != "3 of 4 CPUs are reserved by b until 2024-10-04 15:00 UTC; 2 are wanted" {
		t.Fatalf("%+v", all)
	}
	reqs[2] = of("c", 10, 14, 1)
	if all := place.PlaceAll(reqs, []place.Host{lab("h", 0)}, nil); len(all.Decisions) != 3 {
		t.Fatalf("%+v", all.Refused)
	}
}
