package fleet

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// APIVersion and Kind open every declaration.
const (
	APIVersion = "steady/v1"
	Kind       = "Fleet"
)

// Declaration is fleet.yaml as written, defaults not yet filled in.
type Declaration struct {
	APIVersion         string                     `json:"apiVersion"`
	Kind               string                     `json:"kind"`
	Metadata           Metadata                   `json:"metadata"`
	Servers            []string                   `json:"servers"` // where hosts find the server
	Hosts              map[string]HostDecl        `json:"hosts"`
	Channels           map[string]ChannelDecl     `json:"channels"`
	RolloutPolicies    map[string]PolicyDecl      `json:"rolloutPolicies"`
	Edges              []Edge                     `json:"edges"`
	ChannelEdges       []Edge                     `json:"channelEdges"`
	DisruptionBudgets  []BudgetDecl               `json:"disruptionBudgets"`
	MaintenanceWindows []WindowDecl               `json:"maintenanceWindows"`
	Compliance         *ComplianceDecl            `json:"compliance"`
	Bundles            map[string]BundleDecl      `json:"bundles"`
	Probes             map[string]ProbeDecl       `json:"probes"`    // scope fleet
	TagProbes          map[string]ProbeSet        `json:"tagProbes"` // scope tag
	AllowMassChange    bool                       `json:"allowMassChange"`
	AllowVolumeDelete  bool                       `json:"allowVolumeDelete"`
	AllowMovingTags    bool                       `json:"allowMovingTags"` // takes images that no digest names
	Logging            *spec.Logging              `json:"logging"`         // of services that declare none
	Revoked            map[string]RevocationEntry `json:"revoked"`
	// Removed says what becomes of what hosts run that Hosts names no more.
	Removed map[string]RemovalDecl `json:"removed"`
}

// Metadata names the fleet.
type Metadata struct {
	Name string `json:"name"`
}

// HostDecl declares one host.
type HostDecl struct {
	Channel string   `json:"channel"`
	Tags    []string `json:"tags"`
	Bundle  string   `json:"bundle"`
	// Managed lists the kinds that the managed layer may set, and Allow what else
	// the server may do without a signature.
	Managed []string `json:"managed"`
	Allow   []string `json:"allow"`
	// Bounds bounds the managed layer; its kinds are Managed's.
	Bounds spec.Bounds `json:"bounds"`
	Probes ProbeSet    `json:"probes"` // scope host
	// RenamedFrom is the name that the machine has in earlier releases; what it runs goes on.
	RenamedFrom string `json:"renamedFrom"`
	// removed is set of a host that leaves the fleet.
	removed Workloads
}

// RemovalDecl declares a host that leaves. Channel is that of an earlier release by
// default.
type RemovalDecl struct {
	Workloads Workloads `json:"workloads"`
	Channel   string    `json:"channel"`
}

// ChannelDecl declares one release train. FreshnessWindow is required.
type ChannelDecl struct {
	RolloutPolicy     string       `json:"rolloutPolicy"`
	FreshnessWindow   DurationText `json:"freshnessWindow"`
	SigningInterval   DurationText `json:"signingInterval"`
	ReconcileInterval DurationText `json:"reconcileInterval"`
	OnNewRef          OnNewRef     `json:"onNewRef"`
	Probes            ProbeSet     `json:"probes"` // scope channel
}

// PolicyDecl declares a rollout policy.
type PolicyDecl struct {
	Waves              []WaveDecl      `json:"waves"`
	HealthGate         HealthGate      `json:"healthGate"`
	OnHealthFailure    OnHealthFailure `json:"onHealthFailure"`
	ConfirmWindow      DurationText    `json:"confirmWindow"`
	ActivationDeadline DurationText    `json:"activationDeadline"`
	SustainedFailure   DurationText    `json:"sustainedFailure"`
	GrantExpiry        DurationText    `json:"grantExpiry"`
	// CanaryMax bounds the first wave that has hosts; nil is no bound.
	CanaryMax *int `json:"canaryMax"`
}

// WaveDecl declares one wave; a host belongs to the first wave that picks it.
type WaveDecl struct {
	Name       string       `json:"name"`
	Selector   Selector     `json:"selector"`
	Soak       DurationText `json:"soak"`
	MinSoaked  Quorum       `json:"minSoaked"`
	AllowEmpty bool         `json:"allowEmpty"`
}

// Quorum is how many hosts of a wave must converge: a count, or a percentage of its
// enrolled hosts that have something to change.
type Quorum struct {
	Count, Percent int
}

// UnmarshalJSON reads a count such as 2, or a percentage such as "50%".
func (q *Quorum) UnmarshalJSON(b []byte) error {
	*q = Quorum{}
	if len(b) == 0 || b[0] != '"' {
		return json.Unmarshal(b, &q.Count)
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	digits, ok := strings.CutSuffix(s, "%")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil {
		return fmt.Errorf("%q: expected a count such as 2 or a percentage such as \"50%%\"", s)
	}
	q.Percent = n
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (q Quorum) MarshalJSON() ([]byte, error) {
	if q.Percent != 0 {
		return json.Marshal(strconv.Itoa(q.Percent) + "%")
	}
	return json.Marshal(q.Count)
}

// HealthGate bounds the failures of one wave.
type HealthGate struct {
	MaxFailures int `json:"maxFailures"`
}

// Edge makes a host wait until another of its channel has converged, or keeps a
// channel from opening a rollout while another has one that is not finished.
type Edge struct {
	Gated  string `json:"gated"`
	Gates  string `json:"gates"`
	Reason string `json:"reason"`
}

// BudgetDecl declares a disruption budget by count, percentage or both (the
// smaller counts).
type BudgetDecl struct {
	Selector       Selector `json:"selector"`
	MaxInFlight    *int     `json:"maxInFlight"`
	MaxInFlightPct *int     `json:"maxInFlightPct"`
}

// BundleDecl points at a bundle folder, relative to fleet.yaml.
type BundleDecl struct {
	Path string `json:"path"`
}

// RevocationEntry withdraws the certificates a host got before NotBefore, an
// RFC 3339 time.
type RevocationEntry struct {
	NotBefore string `json:"notBefore"`
	Reason    string `json:"reason"`
}

// ProbeSet is a scope's probes by name.
type ProbeSet map[string]ProbeDecl

// ProbeDecl declares a probe; exactly one of HTTP, TCP, Exec and Evidence is set.
type ProbeDecl struct {
	Mode     ProbeMode     `json:"mode"`
	Interval DurationText  `json:"interval"`
	Timeout  DurationText  `json:"timeout"`
	HTTP     *HTTPProbe    `json:"http"`
	TCP      *TCPProbe     `json:"tcp"`
	Exec     *ExecProbe    `json:"exec"`
	Evidence *EvidenceDecl `json:"evidence"`
}

// EvidenceDecl is EvidenceProbe as written; maxAge is a day by default.
type EvidenceDecl struct {
	Path      string       `json:"path"`
	Framework string       `json:"framework"`
	MaxAge    DurationText `json:"maxAge"`
}

// DurationText is a duration as written, such as 30m; Set tells 0s from absent.
type DurationText struct {
	clock.Duration
	Set bool
}

// UnmarshalJSON reads a duration string; null leaves the duration absent.
func (d *DurationText) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*d = DurationText{}
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := clock.ParseDuration(s)
	if err != nil {
		return err
	}
	d.Duration, d.Set = v, true
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (d DurationText) MarshalJSON() ([]byte, error) {
	if !d.Set {
		return []byte("null"), nil
	}
	return json.Marshal(d.Duration.String())
}

// Or returns the declared duration or, when none was, the default.
func (d DurationText) Or(def clock.Duration) clock.Duration {
	if d.Set {
		return d.Duration
	}
	return def
}
