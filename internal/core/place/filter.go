package place

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// The codes, in the order in which the filters are asked.
const (
	NotSelected        Code = "not-selected"
	SessionsNotAllowed Code = "sessions-not-allowed"
	RequiresSigned     Code = "requires-signed"
	OutOfBounds        Code = "out-of-bounds"
	NoFacts            Code = "no-facts"
	NoEngine           Code = "no-engine"
	WrongArch          Code = "wrong-arch"
	Absent             Code = "absent"
	Disabled           Code = "disabled"
	Frozen             Code = "frozen"
	AntiAffinity       Code = "anti-affinity"
	CPU                Code = "cpu"
	Memory             Code = "memory"
	GPUs               Code = "gpu"
)

// filter leaves a host out, and says why where somebody reads it.
type filter[T any] struct {
	code    Code
	refuses func(req *Request, h T) bool
	message func(req *Request, h T) string
}

func always(message string) func(*Request, *Host) string {
	return func(*Request, *Host) string { return message }
}

// hostFilters ask what no time changes.
var hostFilters = []filter[*Host]{
	{NotSelected, func(r *Request, h *Host) bool { return !r.Selector.Matches(h.Name, h.Channel, h.Tags) },
		func(r *Request, _ *Host) string {
			return "the selector does not pick the host: " + prose.Line(r.Selector.String())
		}},
	{SessionsNotAllowed, func(_ *Request, h *Host) bool { return !h.AllowsSessions },
		always("the host's signed declaration does not allow sessions")},
	{RequiresSigned, func(_ *Request, h *Host) bool { return h.RequireSigned },
		always("the host accepts only entries that an operator has signed (requireSigned)")},
	{OutOfBounds, func(r *Request, h *Host) bool { return r.OutOfBounds[h.Name] != "" },
		func(r *Request, h *Host) string { return prose.Line(r.OutOfBounds[h.Name]) }},
	{NoFacts, func(_ *Request, h *Host) bool { return h.Facts == nil },
		always("the host has not reported what it has, and so has no capacity")},
	{NoEngine, func(_ *Request, h *Host) bool { return h.Facts.Engine == "" },
		always("the host has no container engine")},
	{WrongArch, func(r *Request, h *Host) bool { return r.Arch != "" && r.Arch != h.Facts.Arch },
		func(r *Request, h *Host) string {
			return "the host is of " + prose.Line(h.Facts.Arch) + "; " + r.Arch + " is wanted"
		}},
	{Absent, func(_ *Request, h *Host) bool { return !h.Present }, always("the host is not connected")},
	{Disabled, func(_ *Request, h *Host) bool { return h.Disabled }, always("the host is disabled")},
	{Frozen, func(_ *Request, h *Host) bool { return h.Frozen }, always("the host is frozen")},
}

// slotFilters ask what reservations change; hosts that a hostFilter refuses are not asked.
var slotFilters = []filter[*candidate]{
	{AntiAffinity, func(r *Request, c *candidate) bool { return slices.ContainsFunc(c.over, r.apart) },
		func(r *Request, c *candidate) string { return apartMessage(c.over[slices.IndexFunc(c.over, r.apart)]) }},
	{CPU, func(r *Request, c *candidate) bool { return !enough(r.Resources.MilliCPU, c.available().MilliCPU) },
		func(r *Request, c *candidate) string { return cpuAmounts(c.peak.cpuAt).message(r, c) }},
	{Memory, func(r *Request, c *candidate) bool { return !enough(r.Resources.Memory, c.available().Memory) },
		func(r *Request, c *candidate) string { return memoryAmounts(c.peak.memoryAt).message(r, c) }},
	{GPUs, func(r *Request, c *candidate) bool { return len(c.gpus) < r.GPU.Count }, gpuMessage},
}

var codes = func() (out []Code) {
	for _, f := range hostFilters {
		out = append(out, f.code)
	}
	for _, f := range slotFilters {
		out = append(out, f.code)
	}
	return out
}()

// refusing is the filter that leaves the host out, or nil.
func refusing[T any](filters []filter[T], req *Request, h T) *filter[T] {
	i := slices.IndexFunc(filters, func(f filter[T]) bool { return f.refuses(req, h) })
	if i < 0 {
		return nil
	}
	return &filters[i]
}

func (r *Request) apart(o *Reservation) bool { return r.Apart(&o.Pod) }

// Accepts reports whether the host accepts pods now, whatever they want of it.
func (h *Host) Accepts() bool {
	return refusing(hostFilters, &Request{Selector: fleet.Selector{All: true}}, h) == nil
}

func apartMessage(o *Reservation) string {
	return o.Owner + " is on the host until " + prose.Date(o.Slot.To) + ", and the two share no host"
}

// amounts makes the message of one resource.
type amounts struct {
	whole string // of what: CPUs
	of    func(Resources) int64
	text  func(int64) string
	verb  func(int64) string
	at    clock.Instant // of the peak
}

func cpuAmounts(at clock.Instant) amounts {
	return amounts{"CPUs", func(r Resources) int64 { return r.MilliCPU }, cpuText, func(n int64) string {
		if n == 1000 {
			return "is"
		}
		return "are"
	}, at}
}

func memoryAmounts(at clock.Instant) amounts {
	return amounts{"of memory", func(r Resources) int64 { return r.Memory }, memoryText, func(int64) string { return "is" }, at}
}

// message says for example: 12 of 16 CPUs are reserved by a until 2026-01-02 14:00 UTC,
// 2 are used by the signed bundle; 4 are wanted.
func (m amounts) message(r *Request, c *candidate) string {
	whole := m.text(m.of(c.measured())) + " " + m.whole
	var parts []string
	add := func(n int64, why string) {
		of := ""
		if len(parts) == 0 {
			of = " of " + whole
		}
		parts = append(parts, m.text(n)+of+" "+m.verb(n)+" "+why)
	}
	if n := m.of(c.peak.Resources); n > 0 {
		add(n, "reserved by "+owners(slices.DeleteFunc(slices.Clone(c.over), func(o *Reservation) bool {
			return m.of(o.Resources) <= 0 || o.Slot.From > m.at || o.Slot.To <= m.at
		})))
	}
	if n := m.of(c.Used); n > 0 {
		add(n, "used by the signed bundle")
	}
	if len(parts) == 0 {
		parts = append(parts, "the host has "+whole)
	}
	want := m.of(r.Resources)
	return strings.Join(parts, ", ") + "; " + m.text(want) + " " + m.verb(want) + " wanted"
}

// owners names who reserved, with the end of each, the soonest first.
func owners(by []*Reservation) string {
	const shown = 2
	slices.SortStableFunc(by, func(a, b *Reservation) int { return cmp.Compare(a.Slot.To, b.Slot.To) })
	var names []string
	for _, r := range by {
		names = append(names, r.Owner+" until "+prose.Date(r.Slot.To))
	}
	return prose.Names(names, shown)
}

// gpuMessage says for example: 2 of 4 GPUs are reserved by a until 2026-01-02 14:00 UTC,
// 1 is too small; 2 are wanted.
func gpuMessage(r *Request, c *candidate) string {
	count, booked := map[string]int{}, map[int]bool{}
	const bundle, reserved = "used by the signed bundle", "reserved by "
	for i, g := range c.Facts.GPUs {
		switch flaw := r.GPU.flaw(g); {
		case flaw != "":
			count[flaw]++
		case slices.Contains(c.UsedGPUs, i):
			count[bundle]++
		case c.busy[i]:
			count[reserved]++
			booked[i] = true
		}
	}
	by := slices.DeleteFunc(slices.Clone(c.over), func(o *Reservation) bool {
		return !slices.ContainsFunc(o.GPUs, func(i int) bool { return booked[i] })
	})
	total := prose.Count(len(c.Facts.GPUs), "GPU")
	of := " of " + total
	var parts []string
	for _, why := range []string{reserved, bundle, "too small", "of another kind", "not measured"} {
		n := count[why]
		if n == 0 {
			continue
		}
		if why == reserved {
			why += owners(by)
		}
		parts, of = append(parts, fmt.Sprintf("%d%s %s %s", n, of, prose.Verb(n, "is", "are"), why)), ""
	}
	if len(parts) == 0 {
		parts = append(parts, "the host has "+total)
	}
	return strings.Join(parts, ", ") + "; " + r.GPU.String() + " " + prose.Verb(r.GPU.Count, "is", "are") + " wanted"
}
