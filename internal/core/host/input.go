package host

import (
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// Input is a fact that may move the machine. The sum is sealed: each variant
// calls its own method of Inputs, so that a new one does not compile until
// every reader handles it.
type Input interface {
	Kind() string
	accept(Inputs) error
}

// Inputs handles every variant of Input.
type Inputs interface {
	claimed(Claimed) error
	activated(Activated) error
	activationFailed(ActivationFailed) error
	deferred(ActivationDeferred) error
	probeObserved(ProbeObserved) error
	contact(Contact) error
	elapsed(Elapsed) error
	revertOrdered(RevertClaimed) error
	revertCompleted(RevertCompleted) error
	revertFailed(RevertFailed) error
	booted(Booted) error
	rebootClaimed(RebootClaimed) error
	rebootFailed(RebootFailed) error
	revertDeferred(RevertDeferred) error
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

// Contact says that the server accepted a request of this host.
type Contact struct{}

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

func (i Claimed) accept(h Inputs) error            { return h.claimed(i) }
func (i Activated) accept(h Inputs) error          { return h.activated(i) }
func (i ActivationFailed) accept(h Inputs) error   { return h.activationFailed(i) }
func (i ActivationDeferred) accept(h Inputs) error { return h.deferred(i) }
func (i ProbeObserved) accept(h Inputs) error      { return h.probeObserved(i) }
func (i Contact) accept(h Inputs) error            { return h.contact(i) }
func (i Elapsed) accept(h Inputs) error            { return h.elapsed(i) }
func (i RevertClaimed) accept(h Inputs) error      { return h.revertOrdered(i) }
func (i RevertCompleted) accept(h Inputs) error    { return h.revertCompleted(i) }
func (i RevertFailed) accept(h Inputs) error       { return h.revertFailed(i) }
func (i Booted) accept(h Inputs) error             { return h.booted(i) }

// EncodeInput returns the JSON of an input without its kind.
func EncodeInput(in Input) (json.RawMessage, error) { return json.Marshal(in) }

// DecodeInput reads what EncodeInput wrote. An unknown kind is an error: the
// report of a newer agent must not be half understood.
func DecodeInput(kind string, b json.RawMessage) (Input, error) {
	switch kind {
	case Claimed{}.Kind():
		return decode[Claimed](b)
	case Activated{}.Kind():
		return decode[Activated](b)
	case ActivationFailed{}.Kind():
		return decode[ActivationFailed](b)
	case ActivationDeferred{}.Kind():
		return decode[ActivationDeferred](b)
	case ProbeObserved{}.Kind():
		return decode[ProbeObserved](b)
	case Contact{}.Kind():
		return Contact{}, nil
	case Elapsed{}.Kind():
		return Elapsed{}, nil
	case RevertClaimed{}.Kind():
		return decode[RevertClaimed](b)
	case RevertCompleted{}.Kind():
		return decode[RevertCompleted](b)
	case RevertFailed{}.Kind():
		return decode[RevertFailed](b)
	case Booted{}.Kind():
		return decode[Booted](b)
	case RebootClaimed{}.Kind():
		return decode[RebootClaimed](b)
	case RebootFailed{}.Kind():
		return decode[RebootFailed](b)
	case RevertDeferred{}.Kind():
		return decode[RevertDeferred](b)
	}
	return nil, fmt.Errorf("unknown kind of host input %q", kind)
}

func decode[T Input](b json.RawMessage) (Input, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, fmt.Errorf("decode host input %s: %w", v.Kind(), err)
	}
	return v, nil
}
