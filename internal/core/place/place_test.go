package place_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/place"
)

// TestNoDoubleBooking checks that whatever is placed, reserved and ended in whatever
// order, no host is booked over at any instant and no GPU has two owners.
func TestNoDoubleBooking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := world{hosts: drawHosts(t, false)}
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			if len(w.res) > 0 && pick(t, "ends", false, false, true) {
				i := rapid.IntRange(0, len(w.res)-1).Draw(t, "which")
				w.res = slices.Delete(w.res, i, i+1)
			}
			req := drawRequest(t)
			if d := place.Place(req, w.hosts, w.res); d.Placed() {
				w.res = append(w.res, req.Reserve(d))
			}
			w.sound(t)
		}
	})
}

// TestPlaceAgreesWithTheDefinition checks that the chosen host keeps every constraint at
// each instant of the slot, that each host left out breaks the one that its reason names, and that
// none is chosen only where none can be.
func TestPlaceAgreesWithTheDefinition(t *testing.T) {
	everyRequest(t, func(t *rapid.T, w world, req place.Request) {
		d, able := place.Place(req, w.hosts, w.res), w.able(&req)
		if d.Feasible != len(able) || d.Placed() != (len(able) > 0) {
			t.Fatalf("%v can run it, the decision is %+v", able, d)
		}
		var out []string
		for _, r := range d.LeftOut {
			out = append(out, r.Host)
			if !broken(&req, w.host(r.Host), w.res)[r.Code] || r.Message == "" {
				t.Fatalf("%+v is not so: %+v", r, w.host(r.Host))
			}
		}
		all := slices.Sorted(slices.Values(append(out, able...)))
		if len(all) != len(w.hosts) || len(slices.Compact(all)) != len(w.hosts) {
			t.Fatalf("%v are left out and %v can run it, of %d hosts", out, able, len(w.hosts))
		}
		if !d.Placed() {
			return
		}
		if !slices.Contains(able, d.Host) {
			t.Fatalf("%s was chosen, and breaks %v", d.Host, broken(&req, w.host(d.Host), w.res))
		}
		gpus := serving(&req, w.host(d.Host), w.res)
		if len(d.GPUs) != req.GPU.Count || len(slices.Compact(slices.Clone(d.GPUs))) != len(d.GPUs) || !slices.IsSorted(d.GPUs) ||
			slices.ContainsFunc(d.GPUs, func(i int) bool { return !slices.Contains(gpus, i) }) {
			t.Fatalf("GPUs %v were chosen of %v", d.GPUs, gpus)
		}
	})
}

// TestSpreadComesFirst checks that no host that can run a pod is in a domain with fewer
// pods of its group than that of the chosen one.
func TestSpreadComesFirst(t *testing.T) {
	everyRequest(t, func(t *rapid.T, w world, req place.Request) {
		if req.Spread == nil {
			return
		}
		domain := func(h *place.Host) string {
			if len(req.Spread.Tags) == 0 {
				return h.Name
			}
			for _, tag := range req.Spread.Tags {
				if slices.Contains(h.Tags, tag) {
					return tag
				}
			}
			return "none"
		}
		mates := func(host string) (n int) {
			for _, r := range w.res {
				inside := r.Host != "gone" && slices.ContainsFunc(w.hosts, func(h place.Host) bool { return h.Name == r.Host })
				if inside && r.Group == req.Group && r.Slot.Overlaps(req.Slot) && domain(w.host(r.Host)) == domain(w.host(host)) {
					n++
				}
			}
			return n
		}
		if d := place.Place(req, w.hosts, w.res); d.Placed() {
			for _, other := range w.able(&req) {
				if mates(other) < mates(d.Host) {
					t.Fatalf("%s has %d of group %s in its domain, %s has %d and was chosen", other, mates(other), req.Group, d.Host, mates(d.Host))
				}
			}
		}
	})
}

// TestTouchingSlotsDoNotConflict checks that a host which is full up to an instant, and
// from a later one on, is free between the two.
func TestTouchingSlotsDoNotConflict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := lab("h", 2)
		slot := drawSlot(t)
		full := place.Reservation{Pod: place.Pod{Owner: "a"}, Host: "h", Resources: place.Resources{MilliCPU: 4000, Memory: 8 << 30}, GPUs: []int{0, 1}}
		before, after := full, full
		before.Slot, after.Slot = place.Slot{From: 1, To: slot.From}, place.Slot{From: slot.To, To: slot.To + 5}
		req := want("b", slot, 2)
		req.Resources = full.Resources
		if d := place.Place(req, []place.Host{h}, []place.Reservation{after, before}); !d.Placed() {
			t.Fatalf("%+v", d)
		}
		late := slot
		late.To++
		req.Slot = late
		if d := place.Place(req, []place.Host{h}, []place.Reservation{after, before}); d.Placed() {
			t.Fatalf("%+v overlaps", d)
		}
	})
}

// TestPeakIsThatOfTheWorstInstant checks the sweep against a sum at every instant.
func TestPeakIsThatOfTheWorstInstant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, slot := drawWorld(t, false), drawSlot(t)
		var want place.Resources
		for x := slot.From; x < slot.To; x++ {
			cpu, memory, _ := use(w.res, "h1", x)
			want = place.Resources{MilliCPU: max(want.MilliCPU, cpu), Memory: max(want.Memory, memory)}
		}
		if got := place.Peak("h1", w.res, slot); got != want {
			t.Fatalf("the peak is %+v, by instants %+v", got, want)
		}
	})
}

// lab is a host with 4 CPUs, 8 GiB and GPUs of 24 GiB.
func lab(name string, gpus int) place.Host {
	f := &place.Facts{CPUs: 4, Memory: 8 << 30, Arch: "amd64", Engine: "docker 28"}
	for range gpus {
		f.GPUs = append(f.GPUs, place.GPU{Vendor: "nvidia", Model: "l4", Memory: 24 << 30})
	}
	return place.Host{Name: name, Facts: f, Present: true, AllowsSessions: true}
}

func want(owner string, slot place.Slot, gpus int) place.Request {
	r := place.Request{Pod: place.Pod{Owner: owner}, Slot: slot, Resources: place.Resources{MilliCPU: 1000, Memory: 1 << 30}, GPU: place.GPURequest{Count: gpus}}
	r.Selector.All = true
	return r
}

func hour(n int) clock.Instant {
	return clock.Instant(20_000*clock.Day) + clock.Instant(n)*clock.Instant(clock.Hour)
}

func TestReasonsHaveFigures(t *testing.T) {
	slot := place.Slot{From: hour(10), To: hour(16)}
	book := func(owner string, to int, cpu int64, gpus ...int) place.Reservation {
		return place.Reservation{Pod: place.Pod{Owner: owner}, Host: "h", Slot: place.Slot{From: hour(9), To: hour(to)}, GPUs: gpus,
			Resources: place.Resources{MilliCPU: cpu, Memory: cpu << 20}}
	}
	for name, c := range map[string]struct {
		host func(*place.Host)
		req  func(*place.Request)
		res  []place.Reservation
		code place.Code
		want string
	}{
		"GPUs": {func(h *place.Host) { h.Facts.GPUs[3].Memory = 8 << 30 }, func(r *place.Request) { r.GPU = place.GPURequest{Count: 2, Memory: 16 << 30} },
			[]place.Reservation{book("s/a/1", 14, 0, 0, 1), book("s/b/1", 13, 0, 3)}, place.GPUs, "2 of 4 GPUs are reserved by s/a/1 until 2024-10-04 14:00 UTC, 1 is too small; 2 with at least 16 GiB are wanted"},
		"GPUs of the bundle": {func(h *place.Host) { h.UsedGPUs, h.Facts.GPUs[2].Memory = []int{0}, 0 }, func(r *place.Request) { r.GPU = place.GPURequest{Count: 1, Vendor: "AMD"} },
			nil, place.GPUs, "3 of 4 GPUs are of another kind, 1 is not measured; 1 of AMD is wanted"},
		"a GPU of the bundle": {func(h *place.Host) { h.UsedGPUs = []int{0} }, func(r *place.Request) { r.GPU.Count = 4 },
			nil, place.GPUs, "1 of 4 GPUs is used by the signed bundle; 4 are wanted"},
		"no GPU": {func(h *place.Host) { h.Facts.GPUs = nil }, func(r *place.Request) { r.GPU.Count = 1 }, nil, place.GPUs, "the host has 0 GPUs; 1 is wanted"},
		"CPUs": {func(h *place.Host) { h.Used.MilliCPU = 500 }, func(r *place.Request) { r.Resources.MilliCPU = 1500 },
			[]place.Reservation{book("s/b/1", 15, 1000), book("s/a/1", 12, 1000), book("s/c/1", 13, 500), book("s/d/1", 10, 500)}, place.CPU,
			"2.5 of 4 CPUs are reserved by s/a/1 until 2024-10-04 12:00 UTC, s/c/1 until 2024-10-04 13:00 UTC and 1 more, 0.5 are used by the signed bundle; 1.5 are wanted"},
		"memory": {nil, func(r *place.Request) { r.Resources.Memory = 9 << 30 }, nil, place.Memory, "the host has 8 GiB of memory; 9 GiB is wanted"},
		"apart": {nil, func(r *place.Request) { r.AntiAffinity = []string{"s/a"} }, []place.Reservation{book("s/a/1", 12, 0)}, place.AntiAffinity,
			"s/a/1 is on the host until 2024-10-04 12:00 UTC, and the two share no host"},
		"selector": {nil, func(r *place.Request) { r.Selector.All, r.Selector.Tags = false, []string{"gpu"} }, nil, place.NotSelected, "the selector does not pick the host: tags:gpu"},
		"arch":     {nil, func(r *place.Request) { r.Arch = "arm64" }, nil, place.WrongArch, "the host is of amd64; arm64 is wanted"},
	} {
		h, req := lab("h", 4), want("s/z/1", slot, 0)
		if c.host != nil {
			c.host(&h)
		}
		if c.req != nil {
			c.req(&req)
		}
		d := place.Place(req, []place.Host{h}, c.res)
		if want := (place.Reason{Host: "h", Code: c.code, Message: c.want}); len(d.LeftOut) != 1 || d.LeftOut[0] != want {
			t.Errorf("%s: %+v\nwant %+v", name, d.LeftOut, want)
		}
		if want := "none of 1 host can run s/z/1: 1 " + string(c.code); d.Message != want {
			t.Errorf("%s: %q, want %q", name, d.Message, want)
		}
	}
}

func TestBestFit(t *testing.T) {
	slot := place.Slot{From: hour(10), To: hour(12)}
	small, large := lab("a-large", 0), lab("b", 2)
	small.Facts.CPUs = 8
	mixed := lab("c", 3)
	mixed.Facts.GPUs[1].Memory = 16 << 30
	part := place.Reservation{Pod: place.Pod{Owner: "x", Group: "g"}, Host: "d", Slot: slot, Resources: place.Resources{MilliCPU: 2000}}
	check := func(req place.Request, hosts []place.Host, host, why string, gpus ...int) {
		t.Helper()
		d := place.Place(req, hosts, []place.Reservation{part})
		if d.Host != host || !slices.Equal(d.GPUs, gpus) || !strings.HasSuffix(d.Message, why) {
			t.Errorf("%+v, want %s %v: %s", d, host, gpus, why)
		}
	}
	check(want("p", slot, 0), []place.Host{large, small}, "a-large", "it has the fewest GPUs left free")
	check(want("p", slot, 1), []place.Host{large, mixed, small}, "c", "it has the smallest GPUs that serve", 1)
	check(want("p", slot, 2), []place.Host{mixed, small}, "c", "is the only one with room", 0, 1)
	check(want("p", slot, 2), []place.Host{lab("c", 3), large}, "b", "it has the fewest GPUs left free", 0, 1)
	check(want("p", slot, 0), []place.Host{lab("c", 0), lab("d", 0)}, "d", "it has the least CPU and memory left free")
	check(want("p", slot, 0), []place.Host{lab("f", 0), lab("e", 0)}, "e", "it has the first name of equals")
	blind := lab("z", 1)
	blind.Facts.GPUs[0].Memory = 0
	check(want("p", slot, 0), []place.Host{lab("b", 1), blind}, "z", "it has the fewest GPUs left free")
	spread := want("p", slot, 0)
	spread.Group, spread.Spread = "g", &place.Spread{}
	check(spread, []place.Host{lab("c", 0), lab("d", 0)}, "c", "it has the fewest pods of its group")
}

// TestFactsBeyondReasonDoNotOverflow checks that a host which claims all there is has no
// more room than a pebibyte.
func TestFactsBeyondReasonDoNotOverflow(t *testing.T) {
	h := lab("h", 1)
	h.Facts.CPUs, h.Facts.Memory = math.MaxInt, 1<<62
	h.Facts.GPUs[0].Memory = 1 << 62
	req := want("p", place.Slot{From: 1, To: 2}, 1)
	if d := place.Place(req, []place.Host{h}, nil); !d.Placed() || h.Capacity().Memory != 1<<50 {
		t.Errorf("%+v of %+v", d, h.Capacity())
	}
}
