// Package place decides which host runs a pod, as a pure function of the request, the
// hosts and what is reserved on them, with a reason for each host that is left out.
//
// It works as the schedulers of Kubernetes and nomad do. Filters leave out each host
// that cannot run the pod through the whole of its slot; the first filter that refuses
// gives the reason. Criteria rank the hosts that are left, in this order: fewest pods of
// the group in its domain, where the request asks for spread; the smallest GPUs that
// serve; the fewest GPUs left free; the least CPU and memory left free; the name. That
// is best fit: slots end, and what must not be split is a whole host or a large GPU for the
// next that needs one, so pods without GPUs stay off hosts with them. Who wants distance
// asks for spread or anti-affinity.
//
// Free is what the facts measured, less what the signed bundle uses, less the peak of the
// reservations that overlap the slot. The order of hosts and reservations is of no
// account. Names of hosts are distinct. Whoever moves or extends a pod leaves its own
// reservation out of those it passes in.
package place

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Facts are what a host measured of itself.
type Facts struct {
	CPUs   int    `json:"cpus"`
	Memory int64  `json:"memory"` // bytes
	GPUs   []GPU  `json:"gpus,omitempty"`
	Arch   string `json:"arch"`
	Engine string `json:"engine,omitempty"` // of containers, with its version; empty: none
}

// Host is what placement reads of an enrolled host.
type Host struct {
	Name    string   `json:"name"`
	Channel string   `json:"channel,omitempty"`
	Tags    []string `json:"tags,omitempty"`  // of the signed declaration
	Facts   *Facts   `json:"facts,omitempty"` // nil: none yet, and so no capacity
	// Used and UsedGPUs are what the signed bundle uses. A bundle that asks for a number of
	// GPUs uses those of the lowest indices, as engines give them out.
	Used           Resources `json:"used"`
	UsedGPUs       []int     `json:"usedGPUs,omitempty"`
	Present        bool      `json:"present,omitempty"`
	Disabled       bool      `json:"disabled,omitempty"`
	Frozen         bool      `json:"frozen,omitempty"`
	RequireSigned  bool      `json:"requireSigned,omitempty"`
	AllowsSessions bool      `json:"allowsSessions,omitempty"`
}

// Capacity is what the host has for pods: what it measured, without what its signed
// bundle uses.
func (h *Host) Capacity() Resources { return h.measured().Sub(h.Used) }

func (h *Host) measured() Resources {
	if h.Facts == nil {
		return Resources{}
	}
	return Resources{MilliCPU: 1000 * min(max(int64(h.Facts.CPUs), 0), maxAmount/1000), Memory: min(max(h.Facts.Memory, 0), maxAmount)}
}

// Spread asks for hosts with few pods of the request's group: it ranks, and refuses none.
type Spread struct {
	// Tags are the domains: a host is in that of the first that it carries, or in one with
	// all that carry none of them. Without tags each host is a domain.
	Tags []string `json:"tags,omitempty"`
}

func (s *Spread) domain(h *Host) string {
	if len(s.Tags) == 0 {
		return h.Name
	}
	for _, tag := range s.Tags {
		if slices.Contains(h.Tags, tag) {
			return tag
		}
	}
	return ""
}

// Request is what a pod wants.
type Request struct {
	Pod
	Selector  fleet.Selector `json:"selector"`
	Arch      string         `json:"arch,omitempty"` // empty: any
	Resources Resources      `json:"resources"`
	GPU       GPURequest     `json:"gpu"`
	Slot      Slot           `json:"slot"`
	Spread    *Spread        `json:"spread,omitempty"`
	// OutOfBounds says of hosts why their signed bounds do not allow what would run there.
	OutOfBounds map[string]string `json:"outOfBounds,omitempty"`
}

// Validate refuses a request that means nothing.
func (r *Request) Validate() error {
	switch w := r.Resources; {
	case r.Slot.From <= 0 || r.Slot.To <= r.Slot.From:
		return fmt.Errorf("the slot of %s is from %s to %s: expected an end after its start", r.Owner, r.Slot.From, r.Slot.To)
	case w.MilliCPU < 0 || w.Memory < 0 || r.GPU.Count < 0 || r.GPU.Memory < 0:
		return fmt.Errorf("%s wants a negative amount", r.Owner)
	case w.MilliCPU > maxAmount || w.Memory > maxAmount:
		return fmt.Errorf("%s wants %s CPUs and %s of memory, which no host has", r.Owner, cpuText(w.MilliCPU), memoryText(w.Memory))
	case r.Spread != nil && r.Group == "":
		return fmt.Errorf("%s is to be spread and has no group: expected the group that it is spread with", r.Owner)
	}
	return nil
}

// Code says why a host is left out; part of the API.
type Code string

// Reason says why one host is left out.
type Reason struct {
	Host    string `json:"host"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Decision is the host that a pod gets, or why none.
type Decision struct {
	Owner    string   `json:"owner"`
	Slot     Slot     `json:"slot"`
	Host     string   `json:"host,omitempty"` // empty: none
	GPUs     []int    `json:"gpus,omitempty"` // of the host, in the order of their indices
	Message  string   `json:"message"`        // why this host, or why none
	Feasible int      `json:"feasible"`       // hosts that can run the pod
	LeftOut  []Reason `json:"leftOut,omitempty"`
}

// Placed reports whether there is a host.
func (d *Decision) Placed() bool { return d.Host != "" }

// Reserve is the reservation that carries the decision out.
func (r *Request) Reserve(d Decision) Reservation {
	return Reservation{Pod: r.Pod, Host: d.Host, Slot: d.Slot, Resources: r.Resources, GPUs: d.GPUs}
}

// Place chooses the host of a pod.
func Place(req Request, hosts []Host, reservations []Reservation) Decision {
	return NewCalendar(hosts, reservations).Place(req)
}

// place decides one request with its reasons.
func (b *book) place(req *Request) Decision {
	d := Decision{Owner: req.Owner, Slot: req.Slot}
	if err := req.Validate(); err != nil {
		d.Message = err.Error()
		return d
	}
	all := b.options(req, &d.LeftOut)
	if d.Feasible = len(all); d.Feasible == 0 {
		return req.Refused(d.LeftOut)
	}
	first, second := best(all)
	d.Host, d.GPUs = first.name, first.gpus
	d.Message = "host " + d.Host + " is the only one with room"
	if second != nil {
		d.Message = fmt.Sprintf("host %s is chosen of %d with room: it has %s", d.Host, len(all), decisive(&first.score, &second.score))
	}
	return d
}

// Refused is the decision on a request for which these hosts are all that there are, with the reason of each.
func (r *Request) Refused(out []Reason) Decision {
	return Decision{Owner: r.Owner, Slot: r.Slot, Message: none(r, out), LeftOut: out}
}

// none counts the reasons, in the order of the filters.
func none(req *Request, out []Reason) string {
	if len(out) == 0 {
		return "no host is enrolled that could run " + req.Owner
	}
	count := map[Code]int{}
	for _, r := range out {
		count[r.Code]++
	}
	var parts []string
	for _, code := range codes {
		parts = append(parts, prose.Any(count[code], string(code)))
	}
	return fmt.Sprintf("none of %s can run %s: %s", prose.Count(len(out), "host"), req.Owner, prose.Join(parts...))
}
