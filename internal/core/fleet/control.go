package fleet

import "fmt"

// Control is a static control: a CEL expression over a host and what it is to run
// that must be true. It travels in the signed release, so that the server asks
// what was signed.
type Control struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Source says where the control is from, such as a section of a benchmark.
	Source     string    `json:"source"`
	Expression string    `json:"expression"`
	Severity   string    `json:"severity"` // low, medium, high or critical
	Mode       ProbeMode `json:"mode"`     // Enforce or Observe
	Selector   Selector  `json:"selector"` // whose hosts it is asked of
}

// Controls are the static controls of one channel, a document that its manifest
// names by digest. Agents do not need it.
type Controls struct {
	Type     string    `json:"_type"`
	Controls []Control `json:"controls"` // sorted by id, unique
}

// TypeControls is the type of Controls.
const TypeControls = "steady/controls/v1"

// CriticalControls is the critical name of a manifest with controls: a server that
// does not know them must not open its rollout.
const CriticalControls = "controls"

// ControlFailure is a control that some hosts of a manifest do not pass.
type ControlFailure struct {
	Control  string    `json:"control"`
	Title    string    `json:"title"`
	Source   string    `json:"source"`
	Severity string    `json:"severity"`
	Mode     ProbeMode `json:"mode"`
	// Hosts are the first of those that fail, sorted; More is how many others do.
	Hosts []string `json:"hosts"`
	More  int      `json:"more,omitempty"`
	// Detail says what of the first host fails, such as its containers.
	Detail string `json:"detail"`
}

// Message says the failure in a sentence.
func (f *ControlFailure) Message() string {
	hosts := fmt.Sprintf("host %s", f.Hosts[0])
	if n := len(f.Hosts) + f.More - 1; n > 0 {
		hosts += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("control %s (%s) fails on %s: %s", f.Control, f.Title, hosts, f.Detail)
}

// MaxFailedHosts bounds ControlFailure.Hosts.
const MaxFailedHosts = 8
