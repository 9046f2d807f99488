package bench

import (
	"fmt"
	"math"
)

// Flight Control, measured once on a machine like the one that the targets are
// for. The figures are reference data: they do not carry to another machine.
const (
	peerName       = "Flight Control"
	peerConditions = "Flight Control v1.4.0-main, its own simulator, 2 cores shared with other work, PostgreSQL and Redis counted in; medians of 3, enrolment (its agents poll every 5 s) and policies (30 s ticks) 1 run."
)

// peerFleet is the peer at one size of fleet. Zero was not measured.
type peerFleet struct {
	hosts                 int
	change, changeMillis  float64 // seconds, CPU per host
	enrol, enrolMillis    float64
	waves, budget         float64 // seconds
	idlePercent, idleSize float64 // MiB
}

var peerFleets = []peerFleet{
	{hosts: 100, change: 2.05, changeMillis: 20, enrol: 6.3, enrolMillis: 43, waves: 100.7, budget: 287.7, idlePercent: 0.49, idleSize: 332},
	{hosts: 500, change: 11.3, changeMillis: 18, enrol: 29.8, enrolMillis: 47, idlePercent: 1.05, idleSize: 404},
	{hosts: 1000, change: 30.8, changeMillis: 24.5, enrol: 63.7, enrolMillis: 75, idlePercent: 2.12, idleSize: 486},
}

// peerNear returns the peer at the measured size that is nearest.
func peerNear(hosts int) peerFleet {
	best := peerFleets[0]
	for _, p := range peerFleets {
		if distance(p.hosts, hosts) < distance(best.hosts, hosts) {
			best = p
		}
	}
	return best
}

func distance(a, b int) float64 { return math.Abs(math.Log(float64(a) / float64(b))) }

// Comparison is one figure beside the peer's and the target.
type Comparison struct {
	What   string  `json:"what"`
	Unit   string  `json:"unit"`
	Here   float64 `json:"here"`
	Target float64 `json:"target"` // at most, for this size of fleet
	Met    bool    `json:"met"`
	Peer   float64 `json:"peer"`
	// PeerHosts is the size of fleet that the peer's figure is of.
	PeerHosts int `json:"peerHosts"`
}

// Targets for fleets up to 1 000 hosts; time, memory and CPU at rest grow with
// the fleet beyond.
const (
	targetChange       = 3.0 // s
	targetChangeMillis = 3.0 // ms of CPU per host
	targetPolicy       = 1.0 // s more
	targetEnrol        = 10.0
	targetEnrolMillis  = 10.0
	targetIdleMiB      = 120.0
	targetIdlePercent  = 1.0
	targetIdleMiBAt10k = 1024.0
)

// compare sets the report's figures beside the peer's and the targets.
func (r *Report) compare() []Comparison {
	p := peerNear(r.Hosts)
	scale := max(1, float64(r.Hosts)/1000)
	idle := targetIdleMiB + (scale-1)*(targetIdleMiBAt10k-targetIdleMiB)/9
	rows := []Comparison{
		{What: "change to all converged", Unit: "s", Here: r.Plain.Seconds, Target: targetChange * scale, Peer: p.change, PeerHosts: p.hosts},
		{What: "server CPU per host for it", Unit: "ms", Here: r.Plain.ServerMillisPerHost, Target: targetChangeMillis, Peer: p.changeMillis, PeerHosts: p.hosts},
		{What: "more with waves and a budget", Unit: "s", Here: r.PolicySeconds, Target: targetPolicy,
			Peer: peerFleets[0].waves - peerFleets[0].change, PeerHosts: peerFleets[0].hosts},
		{What: "enrolment of all", Unit: "s", Here: r.Enrol.Seconds, Target: targetEnrol * scale, Peer: p.enrol, PeerHosts: p.hosts},
		{What: "server CPU per host for it", Unit: "ms", Here: r.Enrol.ServerMillisPerHost, Target: targetEnrolMillis, Peer: p.enrolMillis, PeerHosts: p.hosts},
		{What: "server memory at rest (PSS)", Unit: "MiB", Here: mib(r.Idle.ServerPSS), Target: idle, Peer: p.idleSize, PeerHosts: p.hosts},
		{What: "server CPU at rest, of one core", Unit: "%", Here: r.Idle.ServerPercent, Target: targetIdlePercent * scale, Peer: p.idlePercent, PeerHosts: p.hosts},
	}
	for i := range rows {
		rows[i].Met = rows[i].Here <= rows[i].Target
	}
	return rows
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// figure prints a number with its unit, in three digits or so.
func figure(x float64, unit string) string {
	switch {
	case math.Abs(x) >= 100:
		return fmt.Sprintf("%.0f %s", x, unit)
	case math.Abs(x) >= 10:
		return fmt.Sprintf("%.1f %s", x, unit)
	}
	return fmt.Sprintf("%.2f %s", x, unit)
}
