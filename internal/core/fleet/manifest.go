package fleet

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// Manifest is the signed header of one rollout's frozen plan. Its leaves, one
// per host and sorted by host, are bound by LeavesRoot, an RFC 6962 Merkle root
// over their canonical bytes: a host needs only the header, its own leaf and a
// proof.
type Manifest struct {
	Document
	Channel string `json:"channel"`
	Ref     string `json:"ref"`
	// FleetResolvedHash says which declared plan this was projected from. It is
	// provenance; validity comes from being listed in Resolved.
	FleetResolvedHash digest.Digest `json:"fleetResolvedHash"`
	Policy            Policy        `json:"policy"`
	Waves             []Wave        `json:"waves"`
	Probes            []Probe       `json:"probes"`
	Budgets           []Budget      `json:"budgets"`
	// Windows are the maintenance windows of its hosts.
	Windows []clock.Window `json:"windows,omitempty"`
	// CanaryMax is how many hosts the first wave with hosts may have, and how many
	// may be tried until one of the rollout has converged; zero is no bound.
	CanaryMax int `json:"canaryMax,omitempty"`
	// Controls names the static controls that the plan must pass to open.
	Controls digest.Digest `json:"controls,omitempty"`
	// AllowVolumeDelete and AllowMassChange are the operator's signed consent.
	AllowVolumeDelete bool   `json:"allowVolumeDelete"`
	AllowMassChange   bool   `json:"allowMassChange"`
	LeavesRoot        string `json:"leavesRoot"` // hexadecimal
	LeafCount         int    `json:"leafCount"`
}

// ReleaseVersion is the signed place of a release in the order of all releases of a fleet.
type ReleaseVersion struct {
	Epoch   uint64 `json:"epoch"`
	Version uint64 `json:"version"`
}

// Before reports whether v was signed before o. What has no version, as what was recorded
// before versions were, is before nothing, and nothing is before it.
func (v ReleaseVersion) Before(o ReleaseVersion) bool {
	if v == (ReleaseVersion{}) {
		return false
	}
	return v.Epoch < o.Epoch || v.Epoch == o.Epoch && v.Version < o.Version
}

// Release returns which release the manifest was made for.
func (m *Manifest) Release() ReleaseVersion { return ReleaseVersion{m.Epoch, m.Version} }

// Rollout returns the display name "<channel>@<ref>".
func (m *Manifest) Rollout() string { return RolloutName(m.Channel, m.Ref) }

// Leaf is one host's part of a manifest.
type Leaf struct {
	Host   string        `json:"host"`
	Wave   int           `json:"wave"` // index into Manifest.Waves
	Target digest.Digest `json:"target"`
	// Probes and Budgets are indexes into the manifest's lists, ascending.
	Probes  []int `json:"probes"`
	Budgets []int `json:"budgets"`
	// After lists the hosts that must have converged first (host edges).
	After []string `json:"after"`
	// Windows are indexes into the manifest's list, ascending. All of them must be
	// open for the host to be disrupted.
	Windows []int `json:"windows,omitempty"`
	// Delegation is what the server may do on the host without a signature; nil
	// is nothing.
	Delegation *Delegation `json:"delegation,omitempty"`
	// Removed says that the host leaves the fleet. An agent that does not know it takes the
	// target like any other; that of a host which is wiped names wipe critical.
	Removed Workloads `json:"removed,omitempty"`
}

// OnHealthFailure is what happens when a wave has more failures than allowed.
type OnHealthFailure string

// The health failure policies. RollbackAndHalt is the default.
const (
	RollbackAndHalt OnHealthFailure = "rollback-and-halt"
	Halt            OnHealthFailure = "halt"
)

// OnNewRef is what a new ref does while a rollout of its channel is active.
type OnNewRef string

// Queue keeps the latest new ref until the active rollout ends; Supersede ends
// the active rollout.
const (
	Queue     OnNewRef = "queue"
	Supersede OnNewRef = "supersede"
)

// Policy is a rollout policy with every default filled in.
type Policy struct {
	Name            string          `json:"name"`
	MaxFailures     int             `json:"maxFailures"` // per wave
	OnHealthFailure OnHealthFailure `json:"onHealthFailure"`
	// ConfirmWindow is how long after activation the agent waits for an
	// accepted contact with the server before it reverts; zero turns it off.
	ConfirmWindow      clock.Duration `json:"confirmWindow"`
	ActivationDeadline clock.Duration `json:"activationDeadline"`
	// SustainedFailure is how long an enforce probe may fail without a pass.
	SustainedFailure clock.Duration `json:"sustainedFailure"`
	GrantExpiry      clock.Duration `json:"grantExpiry"`
}

// Wave is one stage. It promotes only with at least max(1, MinSoaked)
// converged hosts.
type Wave struct {
	Name      string         `json:"name"`
	Soak      clock.Duration `json:"soak"`
	MinSoaked int            `json:"minSoaked"`
	// MinSoakedPct asks for so many of a hundred of the enrolled hosts that have
	// something to change, rounded up.
	MinSoakedPct int `json:"minSoakedPct,omitempty"`
	Hosts        int `json:"hosts"` // how many leaves it has
}

// Budget caps how many of its members may be in flight at once, over all
// rollouts. Members are hosts, frozen when the manifest was built; they may
// belong to other channels too and are listed in a BudgetMembers document.
type Budget struct {
	Selector string        `json:"selector"` // as declared, for people
	Max      int           `json:"max"`      // a percentage already rounded down, at least 1
	Members  digest.Digest `json:"members"`
}

// BudgetMembers is the sorted host list of a budget.
type BudgetMembers struct {
	Type  string   `json:"_type"`
	Hosts []string `json:"hosts"`
}

// HostPlan is all that one host takes from a manifest: the header's settings
// for its wave and its own leaf. Agent and server derive it from the same
// signed bytes, and nothing else reaches the host machine.
type HostPlan struct {
	Manifest digest.Digest  `json:"manifest"`
	Release  ReleaseVersion `json:"release,omitzero"` // that the manifest was made for
	Rollout  string         `json:"rollout"`
	Channel  string         `json:"channel"`
	Host     string         `json:"host"`
	Wave     int            `json:"wave"`
	Target   digest.Digest  `json:"target"`
	Soak     clock.Duration `json:"soak"`
	Policy   Policy         `json:"policy"`
	Probes   []Probe        `json:"probes"`
	// Windows must all be open when an activation begins.
	Windows []clock.Window `json:"windows,omitempty"`
	// AllowVolumeDelete is the operator's signed consent that volumes which are no
	// longer declared go with their data.
	AllowVolumeDelete bool `json:"allowVolumeDelete,omitempty"`
	// Delegation is shared with the leaf and must not be changed.
	Delegation *Delegation `json:"delegation,omitempty"`
	// Removed says that the host leaves the fleet.
	Removed Workloads `json:"removed,omitempty"`
}

// HostPlanOf joins a header with one of its leaves. The caller has checked that
// the leaf belongs to the header and that its indexes are in range.
func HostPlanOf(m *Manifest, manifest digest.Digest, l *Leaf) HostPlan {
	p := HostPlan{
		Manifest: manifest, Release: m.Release(), Rollout: m.Rollout(), Channel: m.Channel,
		Host: l.Host, Wave: l.Wave, Target: l.Target,
		Soak: m.Waves[l.Wave].Soak, Policy: m.Policy,
		Delegation: l.Delegation, AllowVolumeDelete: m.AllowVolumeDelete, Windows: m.WindowsOf(l), Removed: l.Removed,
	}
	if l.Removed == Wipe { // what is deleted does not come back: no failure and no silence undoes it
		p.AllowVolumeDelete, p.Policy.OnHealthFailure, p.Policy.ConfirmWindow = true, Halt, 0
	}
	for _, i := range l.Probes {
		p.Probes = append(p.Probes, m.Probes[i])
	}
	return p
}

// CriticalCanary is the critical name of a manifest that bounds its first wave: a
// server that does not know the bound would let more hosts go.
const CriticalCanary = "canaryMax"

// CheckCanary refuses a manifest whose first wave has more hosts than its policy
// allows, or that does not name the bound critical.
func (m *Manifest) CheckCanary() error {
	most := m.CanaryMax
	switch {
	case most < 0:
		return fmt.Errorf("canaryMax is %d", most)
	case most == 0:
		return nil
	case !slices.Contains(m.Critical, CriticalCanary):
		return fmt.Errorf("it bounds its first wave and does not name that critical")
	}
	if i := slices.IndexFunc(m.Waves, func(w Wave) bool { return w.Hosts > 0 }); i >= 0 && m.Waves[i].Hosts > most {
		return fmt.Errorf("its first wave %q has %d hosts, at most %d may be (canaryMax)", m.Waves[i].Name, m.Waves[i].Hosts, most)
	}
	return nil
}

// canaries refuses a first wave with more hosts than the policy allows. Waves
// without hosts hold nobody back, so the first one with hosts counts.
func (c *checker) canaries(channel, policy string, counts []int) {
	p := c.d.RolloutPolicies[policy]
	first := slices.IndexFunc(counts, func(n int) bool { return n > 0 })
	if p.CanaryMax == nil || *p.CanaryMax < 1 || first < 0 || counts[first] <= *p.CanaryMax {
		return
	}
	c.errorf(at("rolloutPolicies", policy, "waves", first), "wave %q has %d hosts of channel %q and is the first with any: expected at most %d (canaryMax)",
		p.Waves[first].Name, counts[first], channel, *p.CanaryMax)
}
