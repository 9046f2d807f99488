package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// NVIDIA is the vendor whose GPUs containers are given by number.
const NVIDIA = "nvidia"

// GPUsOf is how many GPUs of NVIDIA a workspace asks for. In a session it names none, since which it is given
// is up to its booking.
func GPUsOf(w *spec.Workspace) (n int, err error) {
	for i := range w.GPUs {
		if g := &w.GPUs[i]; len(g.IDs) > 0 || g.Count < 0 {
			return 0, fmt.Errorf("workspace %s names GPUs, or asks for all of them: expected a count", w.Name)
		}
		n += w.GPUs[i].Count
	}
	return n, nil
}

// On is the workloads of a pod as they are set on a host: its containers are given the GPUs that it has booked
// there, and no others.
func (p *Pod) On(facts *place.Facts, booked []int) ([]Workload, error) {
	var free []string
	if facts != nil {
		for _, g := range booked {
			if g < len(facts.GPUs) && facts.GPUs[g].Vendor == NVIDIA {
				free = append(free, strconv.Itoa(rank(facts.GPUs[:g])))
			}
		}
	}
	out := slices.Clone(p.Workloads)
	for i := range out {
		if out[i].Kind != spec.KindWorkspace {
			continue
		}
		var w spec.Workspace
		if err := json.Unmarshal(out[i].Spec, &w); err != nil {
			return nil, fmt.Errorf("%s: %w", out[i].ID(), err)
		}
		if len(w.GPUs) == 0 {
			continue
		}
		for k := range w.GPUs {
			g := &w.GPUs[k]
			if g.Count > len(free) {
				return nil, fmt.Errorf("%s asks for more GPUs of %s than the pod has booked", out[i].ID(), NVIDIA)
			}
			g.IDs, free, g.Count = free[:g.Count:g.Count], free[g.Count:], 0
		}
		raw, err := json.Marshal(&w)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", out[i].ID(), err)
		}
		if _, out[i].Spec, err = spec.Known.Read(out[i].Kind, out[i].Name, raw); err != nil {
			return nil, fmt.Errorf("%s: %w", out[i].ID(), err)
		}
	}
	return out, nil
}

// rank is the number that NVIDIA's driver gives the GPU behind others: both count by the address on the bus, and
// the driver its own alone.
func rank(before []place.GPU) (n int) {
	for i := range before {
		if before[i].Vendor == NVIDIA {
			n++
		}
	}
	return n
}

// checkGPUs finds containers that are to have other GPUs than their pod books.
func (p *Pod) checkGPUs(problems *Problems, path string, workspaces []*spec.Workspace) {
	sum := 0
	for _, w := range workspaces {
		n, err := GPUsOf(w)
		if err != nil {
			problems.add(path+".workloads", "%v", err)
		}
		sum += n
	}
	switch {
	case sum > p.GPU.Count:
		problems.add(path+".gpus.count", "its containers ask for %d GPUs, and it books %d", sum, p.GPU.Count)
	case sum > 0 && p.GPU.Vendor != NVIDIA:
		problems.add(path+".gpus.vendor", "%q: expected %s, whose GPUs its containers ask for", p.GPU.Vendor, NVIDIA)
	}
}
