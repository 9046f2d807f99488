package place_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/place"
)

// TestNextSlotIsTheEarliest checks that no start before the one given, at any instant from
// the slot asked for to the horizon, has room on any host.
func TestNextSlotIsTheEarliest(t *testing.T) {
	everyRequest(t, func(t *rapid.T, w world, req place.Request) {
		horizon := clock.Instant(rapid.Int64Range(0, 2*int64(lastInstant)).Draw(t, "horizon"))
		next := place.NextSlot(req, w.hosts, w.res, horizon).Decision
		for from := req.Slot.From; from <= max(horizon, req.Slot.From); from++ {
			at := req
			at.Slot = place.Slot{From: from, To: from + req.Slot.To - req.Slot.From}
			if able := w.able(&at); len(able) > 0 {
				if next.Slot != at.Slot || !slices.Contains(able, next.Host) {
					t.Fatalf("%v can run it in %v, the answer is %+v", able, at.Slot, next)
				}
				return
			}
		}
		if next.Placed() || next.Slot != req.Slot {
			t.Fatalf("no slot begins by %d, the answer is %+v", horizon, next)
		}
	})
}

// without is the world in which some owners reserved nothing of a host.
func (w *world) without(host string, owners []string) *world {
	return &world{hosts: w.hosts, res: slices.DeleteFunc(slices.Clone(w.res), func(r place.Reservation) bool {
		return r.Host == host && slices.Contains(owners, r.Owner)
	})}
}

// TestFreedByIsTheSmallestSet checks against all sets of owners that what is named frees the
// slot, that no smaller set does, and that no other of its size ends before.
func TestFreedByIsTheSmallestSet(t *testing.T) {
	everyRequest(t, func(t *rapid.T, w world, req place.Request) {
		freed := place.NextSlot(req, w.hosts, w.res, lastInstant).FreedBy
		owners := []string{"a/x/1", "a/x/2", "a/y/1", "b/x/1", "ab/x/1"}
		if len(w.able(&req)) > 0 {
			if freed != nil {
				t.Fatalf("it is free, and yet %+v", freed)
			}
			return
		}
		var least *place.Freed
		for _, h := range w.hosts {
			for bits := range 1 << len(owners) {
				f := place.Freed{Host: h.Name}
				for i, o := range owners {
					if bits>>i&1 == 1 {
						f.Owners = append(f.Owners, o)
					}
				}
				if !slices.Contains(w.without(h.Name, f.Owners).able(&req), h.Name) {
					continue
				}
				for _, r := range w.res {
					if r.Host == h.Name && slices.Contains(f.Owners, r.Owner) && r.Slot.Overlaps(req.Slot) {
						f.Until = max(f.Until, r.Slot.To)
					}
				}
				if least == nil || len(f.Owners) < len(least.Owners) || len(f.Owners) == len(least.Owners) && f.Until < least.Until {
					least = &f
				}
			}
		}
		if (freed == nil) != (least == nil) || freed != nil && (len(freed.Owners) != len(least.Owners) || freed.Until != least.Until ||
			!slices.Contains(w.without(freed.Host, freed.Owners).able(&req), freed.Host)) {
			t.Fatalf("freed by %+v, the least is %+v", freed, least)
		}
	})
}

func TestNextSlotOfAFullFleet(t *testing.T) {
	res := func(owner string, from, to int, gpus ...int) place.Reservation {
		return place.Reservation{Pod: place.Pod{Owner: owner}, Host: "h", Slot: place.Slot{From: hour(from), To: hour(to)}, GPUs: gpus}
	}
	hosts := []place.Host{lab("h", 2)}
	req := want("z", place.Slot{From: hour(10), To: hour(12)}, 1)
	for name, c := range map[string]struct {
		res     []place.Reservation
		gpus    int
		horizon int
		from    int // 0: none
		freed   *place.Freed
	}{
		"free":                    {nil, 2, 10, 10, nil},
		"one suffices":            {[]place.Reservation{res("a", 9, 14, 0), res("b", 9, 13, 1)}, 1, 20, 13, &place.Freed{Host: "h", Owners: []string{"b"}, Until: hour(13)}},
		"both have to go":         {[]place.Reservation{res("a", 9, 14, 0), res("b", 9, 13, 1)}, 2, 20, 14, &place.Freed{Host: "h", Owners: []string{"a", "b"}, Until: hour(14)}},
		"a gap is too short":      {[]place.Reservation{res("a", 9, 11, 0, 1), res("b", 12, 15, 0, 1)}, 1, 20, 15, &place.Freed{Host: "h", Owners: []string{"a"}, Until: hour(11)}},
		"a gap is long enough":    {[]place.Reservation{res("a", 9, 11, 0, 1), res("b", 13, 15, 0, 1)}, 1, 20, 11, &place.Freed{Host: "h", Owners: []string{"a"}, Until: hour(11)}},
		"the horizon comes first": {[]place.Reservation{res("a", 9, 14, 0, 1)}, 1, 13, 0, &place.Freed{Host: "h", Owners: []string{"a"}, Until: hour(14)}},
		"never":                   {[]place.Reservation{res("a", 9, 14, 0, 1)}, 3, 20, 0, nil},
	} {
		req.GPU.Count = c.gpus
		next := place.NextSlot(req, hosts, c.res, hour(c.horizon))
		d := next.Decision
		if d.Placed() != (c.from > 0) || d.Placed() && d.Slot != (place.Slot{From: hour(c.from), To: hour(c.from + 2)}) || !reflect.DeepEqual(next.FreedBy, c.freed) {
			t.Errorf("%s: %+v, %+v", name, d, next.FreedBy)
		}
	}
}

// TestFreedByWithoutASearchLeavesNobodyOut checks a host with more owners than sets of them can be tried:
// the answer still frees the slot, and needs each that it names.
func TestFreedByWithoutASearchLeavesNobodyOut(t *testing.T) {
	g, h := lab("g", 0), lab("h", 0)
	g.Facts.CPUs, h.Facts.CPUs = 62, 64
	req := want("z", place.Slot{From: hour(10), To: hour(12)}, 0)
	req.Resources.MilliCPU = 32_000
	var res []place.Reservation
	for i := range 64 {
		r := place.Reservation{Pod: place.Pod{Owner: fmt.Sprintf("o%02d", i)}, Host: "h", Slot: place.Slot{From: hour(9), To: hour(12 + i)},
			Resources: place.Resources{MilliCPU: 1000}}
		soon := r
		soon.Host, soon.Slot.To = "g", hour(11)
		res = append(res, r, soon)
	}
	freed := place.NextSlot(req, []place.Host{g, h}, res, hour(10)).FreedBy
	if freed == nil || freed.Host != "h" || len(freed.Owners) != 32 || freed.Until != hour(43) {
		t.Fatalf("%+v", freed)
	}
}
