package forecast

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Behaviour is how one activation goes on one host.
type Behaviour struct {
	// Claim is the time from a grant to its claim, all preparing included.
	Claim clock.Duration
	// Activation is the time that the change takes; it is also that of a revert
	// unless Revert is set.
	Activation clock.Duration
	// Fails is why the activation ends badly; empty when it succeeds. Never has
	// it not end at all, so that its deadline passes.
	Fails string
	Never bool
	// Probes are looks at probes, counted from the activation. An enforce probe
	// that none is of passes at once.
	Probes []Observation
	// Cut says that the server cannot be reached while the bundle runs.
	Cut    bool
	Revert clock.Duration
	// Report is the time that a message to the server takes.
	Report clock.Duration
}

// Observation is one result of a probe.
type Observation struct {
	After  clock.Duration
	Name   string
	Pass   bool
	Reason string
	// Results are what evidence said of single controls.
	Results []host.SubResult
}

// Model says how hosts behave. The same arguments must give the same answer for
// as long as a world lasts.
type Model interface {
	Behave(host string, p *fleet.HostPlan) Behaviour
}

// Range is a length of time between two bounds, both included.
type Range struct {
	Min clock.Duration `json:"min"`
	Max clock.Duration `json:"max"`
}

func (r Range) draw(d *rand.Rand) clock.Duration {
	if r.Max <= r.Min {
		return r.Min
	}
	return r.Min + clock.Duration(d.Int64N(int64(r.Max-r.Min)+1))
}

// Rate is a probability for some hosts; of several that apply the one of the host
// goes before that of a tag, and that before the one for all.
type Rate struct {
	Host string  `json:"host,omitempty"`
	Tag  string  `json:"tag,omitempty"`
	Part float64 `json:"rate"` // 0 to 1
}

// Assumptions are what a forecast takes for granted about hosts.
type Assumptions struct {
	// Failure is how likely an activation fails on a host, by itself or by an
	// enforce probe, half of each where there are such probes.
	Failure []Rate `json:"failure"`
	// Fail names hosts that fail for sure.
	Fail []string `json:"fail"`
	// Offline is how likely a host is away all along. A rate of one host or tag
	// with 1 names hosts.
	Offline []Rate `json:"offline"`
	// Prepare is the time from a grant to its claim, Activation that of the change
	// and of going back, Latency that of a message.
	Prepare    Range          `json:"prepare"`
	Activation Range          `json:"activation"`
	Latency    clock.Duration `json:"latency"`
}

// Default are what is assumed of hosts unless told otherwise, times multiplied by a factor.
func Default(factor float64) Assumptions {
	times := func(low, high clock.Duration) Range {
		return Range{Min: clock.Duration(float64(low) * factor), Max: clock.Duration(float64(high) * factor)}
	}
	return Assumptions{Failure: []Rate{}, Fail: []string{}, Offline: []Rate{}, Latency: 50 * clock.Millisecond,
		Prepare: times(rollout.LeastPrepare, rollout.MostPrepare), Activation: times(rollout.LeastActivate, rollout.MostActivate)}
}

// of returns the rate for a host.
func of(rates []Rate, host string, tags []string) float64 {
	part, rank := 0.0, 0
	for _, r := range rates {
		switch {
		case r.Host != "" && r.Host == host:
			return r.Part
		case r.Host == "" && r.Tag != "" && slices.Contains(tags, r.Tag):
			part, rank = max(part, r.Part), 2
		case r.Host == "" && r.Tag == "" && rank < 2:
			part, rank = r.Part, 1
		}
	}
	return part
}

// Drawn is a Model that draws from a seed. What a host does depends on the seed,
// its name and what it is to run, and not on what other hosts do: two policies
// can be compared under the same luck.
type Drawn struct {
	Assumptions
	Seed uint64
	Tags map[string][]string // by host
}

func (d *Drawn) dice(host, what string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(host + "\x00" + what)) // never fails
	return rand.New(rand.NewPCG(d.Seed, h.Sum64()))
}

// Away reports whether a host is offline all along.
func (d *Drawn) Away(host string) bool {
	return d.dice(host, "offline").Float64() < of(d.Offline, host, d.Tags[host])
}

// Behave implements Model.
func (d *Drawn) Behave(host string, p *fleet.HostPlan) Behaviour {
	r := d.dice(host, string(p.Target))
	luck, kind := r.Float64(), r.IntN(2)
	b := Behaviour{Claim: d.Prepare.draw(r), Activation: d.Assumptions.Activation.draw(r), Report: d.Latency}
	b.Revert = d.Assumptions.Activation.draw(r)
	if luck >= of(d.Failure, host, d.Tags[host]) && !slices.Contains(d.Fail, host) {
		return b
	}
	enforced := slices.IndexFunc(p.Probes, func(p fleet.Probe) bool { return p.Mode == fleet.Enforce })
	if enforced < 0 || kind == 0 {
		b.Fails = "assumed"
	} else {
		b.Probes = []Observation{{Name: p.Probes[enforced].Name, Reason: "assumed"}}
	}
	return b
}
