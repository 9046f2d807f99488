package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// Defaults that Resolve fills in.
const (
	DefaultSigningInterval    = 1 * clock.Hour
	DefaultReconcileInterval  = 30 * clock.Second
	DefaultActivationDeadline = 10 * clock.Minute
	DefaultConfirmWindow      = 2 * clock.Minute
	DefaultSustainedFailure   = 60 * clock.Second
	DefaultGrantExpiry        = 10 * clock.Minute
	DefaultProbeInterval      = 30 * clock.Second
	DefaultProbeTimeout       = 3 * clock.Second
	DefaultExecTimeout        = 10 * clock.Second
	DefaultExpectStatus       = 200
)

// EmptyBundle is the name of the bundle with nothing in it, which hosts without
// a declared bundle are given. No declared bundle may have it.
const EmptyBundle = "empty"

// Inputs is what a plan depends on besides the declaration.
type Inputs struct {
	Ref string
	// Bundles holds the content of every declared bundle by its declared name,
	// and Digests the digests of their canonical bytes. The entry "" is the
	// empty bundle, which hosts without one are given.
	Bundles map[string]Bundle
	Digests map[string]digest.Digest
	// BundleProbes are the probes of scope bundle, by bundle name.
	BundleProbes map[string]ProbeSet
	// NoResources are the bundles without the probe of their resources, by name.
	NoResources map[string]bool
	// Times are where bundles declare how long their services may take, by bundle name and service.
	Times map[string]map[string]Times
	// Zones are the tables of the time zones that windows name, and Now the instant
	// from which windows must still open.
	Zones map[string]clock.Zone
	Now   clock.Instant
	// Packs are the packs of controls that there are.
	Packs map[string][]Control
	// Previous is the release before this one, or nil for the first.
	Previous *Previous
	// Removals are what may be removed of it however much that is.
	Removals []Removal
}

// Previous is what a plan needs to know of the release before it.
type Previous struct {
	Version   uint64
	Resolved  Resolved
	Roster    Roster
	Manifests map[digest.Digest]Manifest // headers by digest
	Bundles   map[digest.Digest]Bundle
}

// Plan is a declaration resolved: all of a release but versions, times, roots
// and signatures.
type Plan struct {
	Fleet        string
	Ref          string
	Channels     []ChannelPlan // sorted by name
	ChannelEdges []Edge
	Servers      []string
	Budgets      []BudgetMembers // unique, sorted by digest
	Roster       map[string]RosterHost
	Revoked      []Revocation // sorted by host
	Bundles      []digest.Digest
}

// ChannelPlan is one channel of a plan. Header lacks its Document fields,
// FleetResolvedHash and LeavesRoot. A channel without hosts has no leaves and
// needs no manifest.
type ChannelPlan struct {
	Name     string
	Settings ResolvedChannel // without Manifests
	Header   Manifest
	Leaves   []Leaf // sorted by host
	// Controls are the channel's static controls; nil without any. Header lacks
	// their name.
	Controls *Controls
}

// SetRef names the plan, and so every manifest of it.
func (p *Plan) SetRef(ref string) {
	p.Ref = ref
	for i := range p.Channels {
		p.Channels[i].Settings.Ref, p.Channels[i].Header.Ref = ref, ref
	}
}

// Bytes returns the canonical form (RFC 8785): keys are in order and names need
// no escapes.
func (b BudgetMembers) Bytes() []byte {
	out, err := json.Marshal(b)
	if err != nil {
		panic("fleet: a list of strings did not encode: " + err.Error())
	}
	return out
}

// Resolve turns a declaration that Validate passed into a plan. It is
// deterministic: the same inputs give the same plan. On an error finding the
// plan must not be used.
func Resolve(d *Declaration, in Inputs) (Plan, []Finding) {
	r := &resolver{d: d, in: in, c: checker{d: d}}
	p := Plan{Fleet: d.Metadata.Name, Roster: map[string]RosterHost{}, ChannelEdges: slices.Clone(d.ChannelEdges), Servers: slices.Clone(d.Servers)}
	r.leave()
	d = r.d
	budgets, windows, controls := r.budgets(), r.windows(), r.controls()
	for _, h := range keys(d.Hosts) {
		host := d.Hosts[h]
		p.Roster[h] = RosterHost{
			Channel: host.Channel, Tags: sorted(host.Tags),
			Bundle: r.target(h), Managed: sorted(host.Managed), Delegation: host.delegation(), Removed: host.removed,
			RenamedFrom: host.RenamedFrom,
		}
		p.Bundles = append(p.Bundles, p.Roster[h].Bundle)
	}
	slices.Sort(p.Bundles)
	p.Bundles = slices.Compact(p.Bundles)
	for _, n := range keys(d.Channels) {
		cp := r.channel(n, budgets, windows)
		cp.Controls = controls[n]
		p.Channels = append(p.Channels, cp)
	}
	p.Budgets = usedBudgets(p.Channels, budgets)
	for _, h := range keys(d.Revoked) {
		t, err := time.Parse(time.RFC3339, d.Revoked[h].NotBefore)
		if err != nil {
			r.c.errorf(at("revoked", h, "notBefore"), "notBefore is %q: expected a time such as 2026-03-01T12:00:00Z", d.Revoked[h].NotBefore)
			continue
		}
		p.Revoked = append(p.Revoked, Revocation{Host: h, NotBefore: clock.FromTime(t), Reason: d.Revoked[h].Reason})
	}
	r.massChange(&p)
	r.lateBundles(&p)
	p.SetRef(in.Ref)
	return p, r.c.out
}

type resolver struct {
	d  *Declaration
	in Inputs
	c  checker
}

// target is the digest of what the host should run.
func (r *resolver) target(host string) digest.Digest {
	name := r.d.Hosts[host].Bundle
	t, ok := r.in.Digests[name]
	if !ok {
		r.c.errorf(at("hosts", host, "bundle"), "bundle %q was not read: expected its digest", name)
	}
	return t
}

// sorted copies a list in order; never nil, so that it encodes as a list.
func sorted(v []string) []string {
	return slices.Sorted(slices.Values(append([]string{}, v...)))
}

// channel freezes the plan of one channel.
func (r *resolver) channel(name string, budgets []budget, windows []clock.Window) ChannelPlan {
	decl := r.d.Channels[name]
	policy := r.d.RolloutPolicies[decl.RolloutPolicy]
	cp := ChannelPlan{
		Name: name,
		Settings: ResolvedChannel{
			FreshnessWindow:   decl.FreshnessWindow.Duration,
			SigningInterval:   decl.SigningInterval.Or(DefaultSigningInterval),
			ReconcileInterval: decl.ReconcileInterval.Or(DefaultReconcileInterval),
			OnNewRef:          cmp.Or(decl.OnNewRef, Queue),
			Manifests:         []ManifestRef{},
		},
		Header: Manifest{
			Channel: name, Policy: resolvePolicy(decl.RolloutPolicy, policy),
			Waves: []Wave{}, Probes: []Probe{}, Budgets: []Budget{},
			AllowVolumeDelete: r.d.AllowVolumeDelete, AllowMassChange: r.d.AllowMassChange,
		},
	}
	for _, w := range policy.Waves {
		cp.Header.Waves = append(cp.Header.Waves, Wave{Name: w.Name, Soak: w.Soak.Duration, MinSoaked: w.MinSoaked.Count, MinSoakedPct: w.MinSoaked.Percent})
	}
	var hosts []string
	probes := map[string][]Probe{}
	for _, h := range keys(r.d.Hosts) {
		if r.d.Hosts[h].Channel == name {
			hosts = append(hosts, h)
			if r.d.Hosts[h].removed == "" {
				probes[h] = r.probes(h)
			}
		}
	}
	probeIndex := indexProbes(&cp.Header, hosts, probes)
	budgetIndex := indexBudgets(&cp.Header, hosts, budgets)
	windowIndex := r.indexWindows(&cp.Header, hosts, windows)
	after := r.after()
	for _, h := range hosts {
		wave := waveOf(policy.Waves, h, r.d.Hosts[h])
		if r.d.Hosts[h].removed != "" {
			wave = len(policy.Waves) - 1
		}
		if wave < 0 {
			r.c.errorf(at("hosts", h), "host %q is in no wave of policy %q: expected a wave that selects it", h, decl.RolloutPolicy)
			continue
		}
		cp.Header.Waves[wave].Hosts++
		decl := r.d.Hosts[h]
		cp.Leaves = append(cp.Leaves, Leaf{
			Host: h, Wave: wave, Target: r.in.Digests[decl.Bundle],
			Probes: probeIndex[h], Budgets: budgetIndex[h], After: after[h], Delegation: decl.delegation(),
			Windows: windowIndex[h], Removed: decl.removed,
		})
	}
	for i := range cp.Leaves {
		l := &cp.Leaves[i]
		l.Probes, l.Budgets, l.After = nonNil(l.Probes), nonNil(l.Budgets), nonNil(l.After)
	}
	r.pace(&cp, decl.RolloutPolicy)
	cp.Header.LeafCount = len(cp.Leaves)
	if n := policy.CanaryMax; n != nil {
		cp.Header.CanaryMax, cp.Header.Critical = *n, append(cp.Header.Critical, CriticalCanary)
	}
	return cp
}

func nonNil[T any](v []T) []T { return append([]T{}, v...) }

func resolvePolicy(name string, p PolicyDecl) Policy {
	return Policy{
		Name:               name,
		MaxFailures:        p.HealthGate.MaxFailures,
		OnHealthFailure:    cmp.Or(p.OnHealthFailure, RollbackAndHalt),
		ConfirmWindow:      p.ConfirmWindow.Or(DefaultConfirmWindow),
		ActivationDeadline: p.ActivationDeadline.Or(DefaultActivationDeadline),
		SustainedFailure:   p.SustainedFailure.Or(DefaultSustainedFailure),
		GrantExpiry:        p.GrantExpiry.Or(DefaultGrantExpiry),
	}
}

// after lists, per gated host, the hosts it waits for, sorted and unique.
func (r *resolver) after() map[string][]string {
	m := map[string][]string{}
	for _, e := range r.d.Edges {
		m[e.Gated] = append(m[e.Gated], e.Gates)
	}
	for h, v := range m {
		slices.Sort(v)
		m[h] = slices.Compact(v)
	}
	return m
}

type budget struct {
	Budget
	members BudgetMembers
}

// budgets resolves every budget over the whole fleet. Two spellings that pick
// the same hosts are one budget under the smaller limit.
func (r *resolver) budgets() []budget {
	var out []budget
	for _, b := range r.d.DisruptionBudgets {
		hosts := selected(r.d, &b.Selector)
		if len(hosts) == 0 {
			continue
		}
		members := BudgetMembers{Type: TypeBudget, Hosts: hosts}
		next := budget{
			Budget:  Budget{Selector: b.Selector.String(), Max: budgetMax(b, len(hosts)), Members: digest.Of(members.Bytes())},
			members: members,
		}
		i := slices.IndexFunc(out, func(o budget) bool { return o.Members == next.Members })
		switch {
		case i < 0:
			out = append(out, next)
		case next.Max < out[i].Max:
			out[i] = next
		}
	}
	return out
}

// indexBudgets lists in the header the budgets with members in the channel.
func indexBudgets(m *Manifest, hosts []string, budgets []budget) map[string][]int {
	index := map[string][]int{}
	for _, b := range budgets {
		n := len(m.Budgets)
		for _, h := range hosts {
			if _, ok := slices.BinarySearch(b.members.Hosts, h); ok {
				index[h] = append(index[h], n)
			}
		}
		if slices.ContainsFunc(hosts, func(h string) bool { return slices.Contains(index[h], n) }) {
			m.Budgets = append(m.Budgets, b.Budget)
		}
	}
	return index
}

func usedBudgets(channels []ChannelPlan, budgets []budget) []BudgetMembers {
	var out []BudgetMembers
	for _, b := range budgets {
		if slices.ContainsFunc(channels, func(c ChannelPlan) bool { return slices.Contains(c.Header.Budgets, b.Budget) }) {
			out = append(out, b.members)
		}
	}
	slices.SortFunc(out, func(a, b BudgetMembers) int { return slices.Compare(a.Hosts, b.Hosts) })
	return out
}
