package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"

	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// facts has the hosts of some schedules say what they are, and some of them become another
// machine. The draw is its own, so that other schedules stay as they are.
func (p *planning) facts() {
	w, r := p.w, rand.New(rand.NewPCG(p.w.cfg.Seed, 0xfac75))
	if r.IntN(4) != 0 {
		return
	}
	for _, a := range w.agents {
		a.facts = drawFacts(r)
		for range r.IntN(3) {
			at, what := epoch.Add(clock.Duration(r.Int64N(int64(w.cfg.Faulty)))), becomings[r.IntN(len(becomings))]
			p.add(at, func() { a.facts = what.of(*a.facts) }, "%s %s", a.name, what.words)
		}
	}
}

func drawFacts(r *rand.Rand) *event.HostFacts {
	f := &event.HostFacts{CPUs: 1 << r.IntN(8), Memory: 1 << (30 + r.IntN(8)), Arch: []string{"amd64", "arm64"}[r.IntN(2)], Kernel: "6.1.0"}
	if r.IntN(2) == 0 {
		f.Engine, f.EngineAPI, f.Disk = "docker", "1.43", 100<<30
	}
	for i := range r.IntN(event.MaxGPUs + 1) {
		f.GPUs = append(f.GPUs, event.GPU{Vendor: "nvidia", Model: fmt.Sprintf("model %d", i), Memory: 16 << 30})
	}
	return f
}

// becomings are what may change of a machine.
var becomings = []struct {
	words string
	of    func(event.HostFacts) *event.HostFacts
}{
	{"loses a GPU", func(f event.HostFacts) *event.HostFacts {
		f.GPUs = slices.Clone(f.GPUs[min(1, len(f.GPUs)):])
		return &f
	}},
	{"boots another kernel", func(f event.HostFacts) *event.HostFacts { f.Kernel += "-1"; return &f }},
	{"has its memory doubled", func(f event.HostFacts) *event.HostFacts { f.Memory *= 2; return &f }},
	{"has another engine", func(f event.HostFacts) *event.HostFacts { f.Engine, f.EngineAPI = "docker", "1.51"; return &f }},
}

// measure tells what the host is, as agents do after a heartbeat.
func (a *agent) measure() {
	if a.facts == nil || a.core.Facts != nil && a.core.Facts.Equal(*a.facts) {
		return
	}
	a.step(core.Measured{Facts: *a.facts})
}

// checkFacts is S25: of a host that the server knows all of, it knows what it is.
func (w *World) checkFacts(s *server) {
	for _, a := range w.agents {
		h := s.state.Hosts[a.name]
		if a.facts == nil || h == nil || !level(a, h) || w.lied[a.name] {
			continue
		}
		if was := a.core.Facts; (was == nil) != (h.Facts == nil) || was != nil && !was.Equal(*h.Facts) {
			w.violate("S25", "%s is %+v as it reported, and %+v as the server has it", a.name, was, h.Facts)
		}
	}
}
