package sim

import (
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/trust"
)

// file is a signed override as somebody has it, with how many operators signed it.
type file struct {
	env    []byte
	signed int
}

// signed has so many operators sign an override.
func (n *publisher) signed(t *gate.AcceptedOverride, by int) {
	env, err := trust.SignOverride(t.Override, keyring().operators[n.w.epoch-1][:by]...)
	if err != nil {
		n.w.violate("core", "%v", err)
	}
	t.Digest = digest.Of(mustPayload(env))
	n.overrides[t.Digest] = file{env, by}
}

// cosign has the other operators sign it too.
func (n *publisher) cosign(t *gate.AcceptedOverride) {
	f := n.overrides[t.Digest]
	env, err := trust.AddSignatures(f.env, keyring().operators[t.Epoch-1][f.signed:]...)
	if err != nil {
		n.w.violate("core", "%v", err)
	}
	n.overrides[t.Digest] = file{env, operators}
}

// forged is what a server that lies makes of it: one signature is left out, or all
// are an attacker's.
func (f file) forged(half bool) file {
	if half && f.signed > 1 {
		return file{stripped(f.env), f.signed - 1}
	}
	env, _ := trust.Sign(fleet.TypeOverride, mustPayload(f.env), keyring().attacker)
	return file{env, 0}
}

// stripped leaves the first signature out.
func stripped(env []byte) []byte {
	return altered(env, func(e *envelope) { e.Signatures = e.Signatures[1:] })
}

// checkSigned checks that what somebody believes was signed by as many operators as the
// action takes: S40 of what opens every wave, S18 of the rest.
func (t *checker) checkSigned(who string, w *World, o *gate.AcceptedOverride, signed int) {
	if need := o.Operators(operators); signed < need {
		rule := "S18"
		if o.Action == fleet.OverrideBreakGlass {
			rule = "S40"
		}
		w.violate(rule, "%s takes override %s (%s), which %d of %d operators signed", who, o.ID, o.Action, signed, need)
	}
}
