package fleet

import "github.com/steadyfleet/steady/internal/core/clock"

// ProbeMode says whether a probe can fail a host.
type ProbeMode string

// Enforce probes gate convergence and cause reverts; observe probes are only
// reported; disabled ones do not run.
const (
	Enforce  ProbeMode = "enforce"
	Observe  ProbeMode = "observe"
	Disabled ProbeMode = "disabled"
)

// Probe is a check on the host with every default filled in. Kinds says which
// one; exactly one is set. A probe that errs or times out has failed.
type Probe struct {
	Name      string          `json:"name"`
	Mode      ProbeMode       `json:"mode"`
	Interval  clock.Duration  `json:"interval"` // at least 1 s
	Timeout   clock.Duration  `json:"timeout"`
	HTTP      *HTTPProbe      `json:"http,omitempty"`
	TCP       *TCPProbe       `json:"tcp,omitempty"`
	Exec      *ExecProbe      `json:"exec,omitempty"`
	Evidence  *EvidenceProbe  `json:"evidence,omitempty"`
	Resources *ResourcesProbe `json:"resources,omitempty"`
}

// Kinds lists what the probe checks: http, tcp, exec, evidence or resources.
func (p *Probe) Kinds() []string {
	var out []string
	for _, k := range []struct {
		name string
		set  bool
	}{{"http", p.HTTP != nil}, {"tcp", p.TCP != nil}, {"exec", p.Exec != nil}, {"evidence", p.Evidence != nil}, {"resources", p.Resources != nil}} {
		if k.set {
			out = append(out, k.name)
		}
	}
	return out
}

// ResourcesProbe passes while everything that the bundle declares is as declared:
// workspaces run and are healthy, or ended well where they run once.
type ResourcesProbe struct{}

// ResourcesName is the name of the one ResourcesProbe of a host. No declared probe
// may have it.
const ResourcesName = "resources"

// DefaultResourcesInterval is how often resources are checked. The engine is not
// queried for it: the agent knows their status.
const DefaultResourcesInterval = 5 * clock.Second

// HTTPProbe passes when a GET answers with the expected status and, if set, a
// body that contains BodyContains.
type HTTPProbe struct {
	URL          string `json:"url"`
	ExpectStatus int    `json:"expectStatus"`
	BodyContains string `json:"bodyContains"`
}

// TCPProbe passes when the address accepts a connection.
type TCPProbe struct {
	Address string `json:"address"` // host:port
}

// ExecProbe passes when the command exits with the expected code. There is no
// shell: the command is an argument vector, run in the agent's root folder.
type ExecProbe struct {
	Command        []string `json:"command"`
	ExpectExitCode int      `json:"expectExitCode"`
}

// EvidenceProbe passes when a file that some scanner on the host keeps says that
// every control passes. A file that is missing, older than MaxAge or not as
// expected fails.
type EvidenceProbe struct {
	Path string `json:"path"` // absolute
	// Framework, when set, is the only one that counts.
	Framework string `json:"framework"`
	// MaxAge is the oldest that the file may be; zero is any age.
	MaxAge clock.Duration `json:"maxAge"`
}

// DefaultEvidenceMaxAge is how old evidence may be unless a probe says otherwise.
const DefaultEvidenceMaxAge = 24 * clock.Hour
