package bench

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"
)

// Report is what a run measured. Sizes are in bytes, percentages of one core.
type Report struct {
	Version string `json:"version"` // of this build
	Go      string `json:"go"`
	CPUs    int    `json:"cpus"`
	Hosts   int    `json:"hosts"`
	// Verified says that agents checked every signature.
	Verified bool      `json:"verified"`
	Enrol    Enrolment `json:"enrol"`
	First    Change    `json:"first"`
	Plain    Changes   `json:"plain"`  // one wave
	Policy   Changes   `json:"policy"` // waves and a budget
	// PolicySeconds is how much longer the median change takes with the policy.
	PolicySeconds float64   `json:"policySeconds"`
	Viewed        *Viewed   `json:"viewed,omitempty"`
	Forecast      *Forecast `json:"forecast,omitempty"`
	Storm         *Storm    `json:"storm,omitempty"`
	Idle          Idle      `json:"idle"`
	Floor         Floor     `json:"floor"`
	Soak          *Soak     `json:"soak,omitempty"`
	Troubles      Trouble   `json:"troubles"`
	// Compared sets the figures beside the peer's and the targets.
	Compared []Comparison `json:"compared"`
	Peer     string       `json:"peer"` // the conditions of its figures
}

// Spent is what a phase took.
type Spent struct {
	Seconds             float64 `json:"seconds"`
	ServerMillisPerHost float64 `json:"serverCpuMillisPerHost"`
	AgentsMillisPerHost float64 `json:"agentsCpuMillisPerHost"`
	Requests            int64   `json:"requests"`
	RequestsPerSecond   float64 `json:"requestsPerSecond"`
	// OthersPercent is the CPU that neither the server nor the agents used; the
	// kernel's work for their connections is in it in part.
	OthersPercent float64 `json:"othersCpuPercent"`
}

// Enrolment is how every host got its identity and its first connection.
type Enrolment struct {
	Spent
	AtOnce int `json:"atOnce"`
}

// Change is one release, from the start of its push until the log says that its
// rollout is terminal and every agent's own machine has converged. Seconds of
// Spent are that time.
type Change struct {
	Spent
	Rollout     string  `json:"rollout"`
	Policy      bool    `json:"policy"`
	PushSeconds float64 `json:"pushSeconds"`
	HalfSeconds float64 `json:"halfSeconds"` // until half of the hosts
	LastSeconds float64 `json:"lastSeconds"` // until the last host
	ServerRSS   int64   `json:"serverRssBytes"`
	// Bytes on the agents' connections, TLS and HTTP/2 counted in.
	SentPerHost     int64 `json:"sentBytesPerHost"`
	ReceivedPerHost int64 `json:"receivedBytesPerHost"`
}

// Changes are rounds of the same kind. The medians are taken one by one.
type Changes struct {
	Rounds              []Change `json:"rounds"`
	Seconds             float64  `json:"medianSeconds"`
	ServerMillisPerHost float64  `json:"medianServerCpuMillisPerHost"`
}

// Idle is the fleet at rest, every long-poll open, from some seconds after the
// last change on.
type Idle struct {
	Spent
	ServerPercent float64 `json:"serverCpuPercent"`
	AgentsPercent float64 `json:"agentsCpuPercent"`
	ServerRSS     int64   `json:"serverRssBytes"`
	ServerPSS     int64   `json:"serverPssBytes"`
	AgentsRSS     int64   `json:"agentsRssBytes"`
}

// Trouble is what agents met and went on from.
type Trouble struct {
	Errors   int64    `json:"errors"`
	Declined int64    `json:"declinedGrants"`
	Refused  int64    `json:"refusedClaims"`
	Repeated int64    `json:"repeatedOffers"`
	First    []string `json:"first,omitempty"`
}

func newReport(o Options) *Report {
	return &Report{
		Version: o.Version, Go: runtime.Version(), CPUs: runtime.NumCPU(), Hosts: o.Hosts, Verified: o.Verify, Peer: peerConditions,
	}
}

func spent(before, after gauge, hosts int) Spent {
	server, agents := after.server-before.server, after.agents-before.agents
	s := Spent{
		Seconds:             after.at.Sub(before.at).Seconds(),
		ServerMillisPerHost: millis(server, hosts), AgentsMillisPerHost: millis(agents, hosts),
		Requests: after.requests - before.requests,
	}
	s.RequestsPerSecond = float64(s.Requests) / s.Seconds
	s.OthersPercent = max(0, share(after.machine-before.machine-server-agents, s.Seconds))
	return s
}

func millis(d time.Duration, hosts int) float64 {
	return d.Seconds() * 1000 / float64(hosts)
}

// share is CPU time in percent of one core.
func share(d time.Duration, seconds float64) float64 { return 100 * d.Seconds() / seconds }

// finish computes what follows from the measurements.
func (r *Report) finish(c *crowd) {
	r.Plain.medians()
	r.Policy.medians()
	r.PolicySeconds = r.Policy.Seconds - r.Plain.Seconds
	if r.Viewed != nil {
		r.Viewed.compare(&r.Plain, r.Hosts)
	}
	if f := r.Forecast; f != nil {
		f.medians()
		f.Ratio = f.Seconds / r.Plain.Seconds
	}
	if s := r.Storm; s != nil {
		s.medians()
		s.Ratio = s.Seconds / r.Plain.Seconds
	}
	r.Troubles = Trouble{
		Errors: c.failures.Load(), Declined: c.declined.Load(), Refused: c.refused.Load(), Repeated: c.repeated.Load(), First: c.noted(),
	}
	r.Compared = r.compare()
}

func (c *Changes) medians() {
	var seconds, cpu []float64
	for _, m := range c.Rounds {
		seconds, cpu = append(seconds, m.Seconds), append(cpu, m.ServerMillisPerHost)
	}
	c.Seconds, c.ServerMillisPerHost = median(seconds), median(cpu)
}

// typical is the round with the median server CPU.
func typical[T any](rounds []T, spent func(T) Spent) T {
	s := slices.SortedFunc(slices.Values(rounds), func(a, b T) int {
		return cmp.Compare(spent(a).ServerMillisPerHost, spent(b).ServerMillisPerHost)
	})
	return s[len(s)/2]
}

// median of nothing is 0; of an even number the mean of the middle two.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(xs))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func describePolicy(policy bool) string {
	if !policy {
		return ""
	}
	return fmt.Sprintf(" (waves of %d %%, %d %%, rest; budget %d %%)", waveShares[0], waveShares[1], budgetPercent)
}
