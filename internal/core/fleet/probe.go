package fleet

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

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

// probes merges the scopes of one host, widest first: a narrower probe of the
// same name replaces the whole.
func (r *resolver) probes(host string) []Probe {
	h := r.d.Hosts[host]
	merged := ProbeSet{}
	put := func(set ProbeSet) {
		for _, n := range keys(set) {
			merged[n] = set[n]
		}
	}
	put(r.in.BundleProbes[h.Bundle])
	put(r.d.Probes)
	for _, tag := range slices.Sorted(slices.Values(h.Tags)) {
		put(r.d.TagProbes[tag])
	}
	put(r.d.Channels[h.Channel].Probes)
	put(h.Probes)
	var out []Probe
	for _, n := range keys(merged) {
		out = append(out, resolveProbe(n, merged[n]))
	}
	if b := r.in.Bundles[h.Bundle]; b.Containers != nil && len(b.Containers.Workspaces) > 0 && !r.in.NoResources[h.Bundle] {
		out = append(out, Probe{Name: ResourcesName, Mode: Enforce, Interval: DefaultResourcesInterval,
			Timeout: DefaultProbeTimeout, Resources: &ResourcesProbe{}})
	}
	return out
}

func resolveProbe(name string, d ProbeDecl) Probe {
	timeout := DefaultProbeTimeout
	if d.Exec != nil {
		timeout = DefaultExecTimeout
	}
	p := Probe{
		Name: name, Mode: cmp.Or(d.Mode, Enforce),
		Interval: d.Interval.Or(DefaultProbeInterval),
	}
	p.Timeout = d.Timeout.Or(min(timeout, p.Interval))
	if d.HTTP != nil {
		p.HTTP = &HTTPProbe{URL: d.HTTP.URL, ExpectStatus: cmp.Or(d.HTTP.ExpectStatus, DefaultExpectStatus), BodyContains: d.HTTP.BodyContains}
	}
	if d.TCP != nil {
		p.TCP = &TCPProbe{Address: d.TCP.Address}
	}
	if e := d.Evidence; e != nil {
		p.Evidence = &EvidenceProbe{Path: e.Path, Framework: e.Framework, MaxAge: e.MaxAge.Or(DefaultEvidenceMaxAge)}
	}
	if d.Exec != nil {
		p.Exec = &ExecProbe{Command: slices.Clone(d.Exec.Command), ExpectExitCode: d.Exec.ExpectExitCode}
	}
	return p
}

// indexProbes lists each distinct probe once in the header, by name and then by
// content, and returns each host's indexes, ascending.
func indexProbes(m *Manifest, hosts []string, probes map[string][]Probe) map[string][]int {
	byKey := map[string]Probe{}
	for _, h := range hosts {
		for _, p := range probes[h] {
			byKey[probeKey(p)] = p
		}
	}
	all := keys(byKey)
	for _, k := range all {
		m.Probes = append(m.Probes, byKey[k])
	}
	index := map[string][]int{}
	for _, h := range hosts {
		for _, p := range probes[h] {
			i, _ := slices.BinarySearch(all, probeKey(p))
			index[h] = append(index[h], i)
		}
		slices.Sort(index[h])
	}
	return index
}

// probeKey orders probes by name, then by everything else.
func probeKey(p Probe) string {
	b, err := json.Marshal(p)
	if err != nil {
		panic("fleet: a probe did not encode: " + err.Error())
	}
	return strings.Join([]string{p.Name, string(b)}, "\x00")
}
