package place_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/place"
)

// The oracle says from the definition, instant by instant, what may be booked. It calls
// nothing of the package.

// lastInstant ends the small worlds that the oracle looks through.
const lastInstant clock.Instant = 14

func live(r *place.Reservation, x clock.Instant) bool { return r.Slot.From <= x && x < r.Slot.To }

// use sums what is reserved of a host at an instant.
func use(res []place.Reservation, host string, x clock.Instant) (cpu, memory int64, gpus map[int]int) {
	gpus = map[int]int{}
	for i := range res {
		if r := &res[i]; r.Host == host && live(r, x) {
			cpu, memory = cpu+r.Resources.MilliCPU, memory+r.Resources.Memory
			for _, g := range r.GPUs {
				gpus[g]++
			}
		}
	}
	return cpu, memory, gpus
}

func shuns(a, b *place.Pod) bool {
	if a.Owner == b.Owner {
		return false
	}
	for _, name := range a.AntiAffinity {
		if name == b.Group || name == b.Owner || strings.HasPrefix(b.Owner, name+"/") {
			return true
		}
	}
	return false
}

// serving are the GPUs of a host that a request may have for its whole slot.
func serving(req *place.Request, h *place.Host, res []place.Reservation) (out []int) {
	for i, g := range h.Facts.GPUs {
		ok := g.Memory > 0 && g.Memory >= req.GPU.Memory && !slices.Contains(h.UsedGPUs, i) &&
			(req.GPU.Vendor == "" || req.GPU.Vendor == g.Vendor) && (req.GPU.Model == "" || req.GPU.Model == g.Model)
		for x := req.Slot.From; x < req.Slot.To; x++ {
			_, _, gpus := use(res, h.Name, x)
			ok = ok && gpus[i] == 0
		}
		if ok {
			out = append(out, i)
		}
	}
	return out
}

// broken are the codes of all constraints that a host breaks for a request.
func broken(req *place.Request, h *place.Host, res []place.Reservation) map[place.Code]bool {
	out := map[place.Code]bool{}
	add := func(code place.Code, is bool) {
		if is {
			out[code] = true
		}
	}
	add(place.NotSelected, !req.Selector.Matches(h.Name, h.Channel, h.Tags))
	add(place.SessionsNotAllowed, !h.AllowsSessions)
	add(place.RequiresSigned, h.RequireSigned)
	_, outside := req.OutOfBounds[h.Name]
	add(place.OutOfBounds, outside)
	add(place.Absent, !h.Present)
	add(place.Disabled, h.Disabled)
	add(place.Frozen, h.Frozen)
	if h.Facts == nil {
		add(place.NoFacts, true)
		return out
	}
	add(place.NoEngine, h.Facts.Engine == "")
	add(place.WrongArch, req.Arch != "" && req.Arch != h.Facts.Arch)
	for x := req.Slot.From; x < req.Slot.To; x++ {
		cpu, memory, _ := use(res, h.Name, x)
		add(place.CPU, req.Resources.MilliCPU > 0 && cpu+h.Used.MilliCPU+req.Resources.MilliCPU > int64(h.Facts.CPUs)*1000)
		add(place.Memory, req.Resources.Memory > 0 && memory+h.Used.Memory+req.Resources.Memory > h.Facts.Memory)
		for i := range res {
			add(place.AntiAffinity, res[i].Host == h.Name && live(&res[i], x) && (shuns(&req.Pod, &res[i].Pod) || shuns(&res[i].Pod, &req.Pod)))
		}
	}
	add(place.GPUs, len(serving(req, h, res)) < req.GPU.Count)
	return out
}

// world is hosts with what is reserved on them.
type world struct {
	hosts []place.Host
	res   []place.Reservation
}

func (w *world) host(name string) *place.Host {
	return &w.hosts[slices.IndexFunc(w.hosts, func(h place.Host) bool { return h.Name == name })]
}

// able are the hosts that may run a request.
func (w *world) able(req *place.Request) (names []string) {
	for i := range w.hosts {
		if len(broken(req, &w.hosts[i], w.res)) == 0 {
			names = append(names, w.hosts[i].Name)
		}
	}
	return names
}

// sound fails unless at every instant each host has what is reserved, and each GPU one owner.
func (w *world) sound(t *rapid.T) {
	t.Helper()
	for i := range w.hosts {
		h := &w.hosts[i]
		for x := clock.Instant(1); x <= 3*lastInstant; x++ {
			cpu, memory, gpus := use(w.res, h.Name, x)
			if cpu == 0 && memory == 0 && len(gpus) == 0 {
				continue
			}
			if cpu > 0 && cpu+h.Used.MilliCPU > int64(h.Facts.CPUs)*1000 || memory > 0 && memory+h.Used.Memory > h.Facts.Memory {
				t.Fatalf("at %d %+v has %d and %d reserved", x, h, cpu, memory)
			}
			for g, n := range gpus {
				if n > 1 || slices.Contains(h.UsedGPUs, g) || g >= len(h.Facts.GPUs) || h.Facts.GPUs[g].Memory == 0 {
					t.Fatalf("at %d GPU %d of %+v has %d owners", x, g, h, n)
				}
			}
		}
	}
}

func pick[V any](t *rapid.T, label string, of ...V) V { return rapid.SampledFrom(of).Draw(t, label) }

func some(t *rapid.T, label string, of ...string) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(of), 0, 2, rapid.ID).Draw(t, label)
}

func drawSlot(t *rapid.T) place.Slot {
	from := clock.Instant(rapid.Int64Range(1, int64(lastInstant)-1).Draw(t, "from"))
	return place.Slot{From: from, To: from + clock.Instant(rapid.Int64Range(1, 5).Draw(t, "length"))}
}

func drawPod(t *rapid.T) place.Pod {
	return place.Pod{Owner: pick(t, "owner", "a/x/1", "a/x/2", "a/y/1", "b/x/1", "ab/x/1"), Group: pick(t, "group", "", "g", "h"),
		AntiAffinity: pick(t, "avoids", nil, nil, nil, nil, nil, []string{"g"}, []string{"a"}, []string{"a/x/1", "h"})}
}

func drawAmounts(t *rapid.T) place.Resources {
	return place.Resources{MilliCPU: pick(t, "cpu", int64(0), 1000, 1000, 1500, 2000), Memory: rapid.Int64Range(0, 4).Draw(t, "memory")}
}

func drawHost(t *rapid.T, name string, even bool) place.Host {
	h := place.Host{Name: name, Channel: "lab", Tags: some(t, "tags", "r1", "r2"), Present: true, AllowsSessions: true,
		Used:  place.Resources{MilliCPU: pick(t, "used", int64(0), 0, 500), Memory: rapid.Int64Range(0, 1).Draw(t, "used memory")},
		Facts: &place.Facts{CPUs: rapid.IntRange(2, 4).Draw(t, "cpus"), Memory: rapid.Int64Range(3, 8).Draw(t, "memory"), Arch: pick(t, "arch", "amd64", "amd64", "arm64"), Engine: "docker"}}
	for range rapid.IntRange(0, 3).Draw(t, "gpus") {
		g := place.GPU{Vendor: "nvidia", Model: "a", Memory: 8}
		if !even {
			g = place.GPU{Vendor: pick(t, "vendor", "nvidia", "amd"), Model: "a", Memory: pick(t, "gpu memory", int64(0), 8, 16)}
		}
		h.Facts.GPUs = append(h.Facts.GPUs, g)
	}
	if len(h.Facts.GPUs) > 1 && pick(t, "bundle has a GPU", false, false, true) {
		h.UsedGPUs = []int{rapid.IntRange(0, len(h.Facts.GPUs)-1).Draw(t, "used GPU")}
	}
	switch rapid.IntRange(0, 30).Draw(t, "flaw") {
	case 1:
		h.Facts = nil
	case 2:
		h.Facts.Engine = ""
	case 3:
		h.Present = false
	case 4:
		h.Disabled = true
	case 5:
		h.Frozen = true
	case 6:
		h.RequireSigned = true
	case 7:
		h.AllowsSessions = false
	}
	return h
}

func drawHosts(t *rapid.T, even bool) (out []place.Host) {
	for _, name := range []string{"h1", "h2", "h3"}[:rapid.IntRange(0, 3).Draw(t, "hosts")] {
		out = append(out, drawHost(t, name, even))
	}
	return out
}

// drawWorld has reservations that may book a host over, as after facts that have shrunk.
func drawWorld(t *rapid.T, even bool) world {
	w := world{hosts: drawHosts(t, even)}
	for range rapid.IntRange(0, 9).Draw(t, "reservations") {
		r := place.Reservation{Pod: drawPod(t), Host: pick(t, "host", "h1", "h1", "h1", "h2", "h2", "h3", "gone"), Slot: drawSlot(t), Resources: drawAmounts(t)}
		r.GPUs = rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 0, rapid.IntRange(0, 2).Draw(t, "books"), rapid.ID).Draw(t, "booked")
		w.res = append(w.res, r)
	}
	return w
}

func drawRequest(t *rapid.T) place.Request {
	r := place.Request{Pod: drawPod(t), Resources: drawAmounts(t), Slot: drawSlot(t), Arch: pick(t, "arch", "", "", "amd64", "arm64"),
		Selector: pick(t, "selector", fleet.Selector{All: true}, fleet.Selector{All: true}, fleet.Selector{All: true}, fleet.Selector{Channel: "lab"}, fleet.Selector{Tags: []string{"r1"}},
			fleet.Selector{All: true, Not: &fleet.Selector{Hosts: []string{"h2"}}})}
	if r.GPU.Count = pick(t, "wants", 0, 0, 1, 2); r.GPU.Count > 0 {
		r.GPU.Memory, r.GPU.Vendor = pick(t, "wants memory", int64(0), 8, 16), pick(t, "wants vendor", "", "", "nvidia")
	}
	r.OutOfBounds = pick(t, "out of bounds", nil, nil, nil, map[string]string{"h1": "image x is not allowed"})
	if r.Group != "" {
		r.Spread = pick(t, "spread", nil, &place.Spread{}, &place.Spread{Tags: []string{"r1", "r2"}})
	}
	return r
}

// everyRequest asks several requests of each of many worlds.
func everyRequest(t *testing.T, check func(t *rapid.T, w world, req place.Request)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, false)
		for range 5 {
			check(t, w, drawRequest(t))
		}
	})
}
