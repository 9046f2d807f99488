package host

import (
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Input is a fact that may move the machine. The sum is sealed: each variant says
// itself what it does to the machine, and has its place among the decoders.
type Input interface {
	Kind() string
	accept(*turn) error
}

// Claimed starts an activation: the server has committed and acknowledged the
// host's claim of a grant.
type Claimed struct {
	Grant    string        `json:"grant"`
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest"`
	Wave     int           `json:"wave"`
	From     digest.Digest `json:"from"`
	Target   digest.Digest `json:"target"`
	BootID   string        `json:"bootId"`
	// Release is the signed version of the plan.
	Release fleet.ReleaseVersion `json:"release,omitzero"`
}

// Activated says that every resource of the target was observed converged.
type Activated struct {
	Observed digest.Digest `json:"observed"`
}

// ActivationFailed says that a resource of the target exhausted its retries.
type ActivationFailed struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// ActivationDeferred says that the target is staged and needs a reboot because
// Component cannot be switched while it runs.
type ActivationDeferred struct {
	Component string `json:"component"`
}

// ProbeObserved is one result of a probe.
type ProbeObserved struct {
	Name   string `json:"name"`
	Pass   bool   `json:"pass"`
	Reason string `json:"reason"` // why it failed, bounded
	// Results are what evidence says of single controls, those that do not pass
	// first, at most MaxResults.
	Results []SubResult `json:"results,omitempty"`
}

// MaxResults bounds what one look at evidence reports.
const MaxResults = 64

// SubResult is what evidence says of one control.
type SubResult struct {
	Control   string `json:"control_id"`
	Status    string `json:"status"`
	Framework string `json:"framework"`
	Article   string `json:"article,omitempty"`
}

// Passed reports whether the control passed.
func (r *SubResult) Passed() bool { return r.Status == ControlPass }

// ControlPass is the status of a control that passed; every other one failed.
const ControlPass = "pass"

// Contact says that the server accepted a request of this host. Served is how long the server
// has served without a gap, in whole seconds; 0 where it does not tell.
type Contact struct {
	Served clock.Duration `json:"served,omitempty"`
}

// Elapsed says that an instant named by Due has come.
type Elapsed struct{}

// RevertClaimed says that the server ordered this host back, that the order was
// proven to the agent, and that its claim was acknowledged.
type RevertClaimed struct {
	Grant  string `json:"grant"`
	Reason string `json:"reason"`
}

// RevertCompleted says that the host runs its earlier bundle again.
type RevertCompleted struct {
	Observed digest.Digest `json:"observed"`
}

// RevertFailed says that an attempt to go back did not succeed.
type RevertFailed struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

// Booted says that the agent started. BootID changes with the machine's boots,
// not with the agent's restarts.
type Booted struct {
	BootID  string        `json:"bootId"`
	Current digest.Digest `json:"current"`
}

// Kind names of the variants, part of the event vocabulary.
func (Claimed) Kind() string            { return "claimed" }
func (Activated) Kind() string          { return "activated" }
func (ActivationFailed) Kind() string   { return "activation-failed" }
func (ActivationDeferred) Kind() string { return "activation-deferred" }
func (ProbeObserved) Kind() string      { return "probe-observed" }
func (Contact) Kind() string            { return "contact" }
func (Elapsed) Kind() string            { return "elapsed" }
func (RevertClaimed) Kind() string      { return "revert-claimed" }
func (RevertCompleted) Kind() string    { return "revert-completed" }
func (RevertFailed) Kind() string       { return "revert-failed" }
func (Booted) Kind() string             { return "booted" }

// EncodeInput returns the JSON of an input without its kind.
func EncodeInput(in Input) (json.RawMessage, error) { return json.Marshal(in) }

// decoders has every variant of Input by its kind.
var decoders = map[string]func(json.RawMessage) (Input, error){
	Claimed{}.Kind():            decode[Claimed],
	Activated{}.Kind():          decode[Activated],
	ActivationFailed{}.Kind():   decode[ActivationFailed],
	ActivationDeferred{}.Kind(): decode[ActivationDeferred],
	ProbeObserved{}.Kind():      decode[ProbeObserved],
	Contact{}.Kind():            decode[Contact],
	Elapsed{}.Kind():            decode[Elapsed],
	RevertClaimed{}.Kind():      decode[RevertClaimed],
	RevertCompleted{}.Kind():    decode[RevertCompleted],
	RevertFailed{}.Kind():       decode[RevertFailed],
	Booted{}.Kind():             decode[Booted],
	RebootClaimed{}.Kind():      decode[RebootClaimed],
	RebootFailed{}.Kind():       decode[RebootFailed],
	RevertDeferred{}.Kind():     decode[RevertDeferred],
}

// DecodeInput reads what EncodeInput wrote. An unknown kind is an error: the
// report of a newer agent must not be half understood.
func DecodeInput(kind string, b json.RawMessage) (Input, error) {
	read := decoders[kind]
	if read == nil {
		return nil, fmt.Errorf("unknown kind of host input %q", kind)
	}
	return read(b)
}

func decode[T Input](b json.RawMessage) (Input, error) {
	var v T
	if string(b) == "{}" {
		return v, nil
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, fmt.Errorf("decode host input %s: %w", v.Kind(), err)
	}
	return v, nil
}
