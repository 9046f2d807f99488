package trust

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// MaxOverride bounds a signed override in bytes.
const MaxOverride = 16 << 10

// SignOverride encodes and signs an override; its type and version are filled
// in. One that breaks a rule is refused before a key is used.
func SignOverride(o fleet.Override, signers ...Signer) ([]byte, error) {
	o.Type, o.Version = fleet.TypeOverride, uint64(o.IssuedAt)
	if err := o.Check(); err != nil {
		return nil, refuse(Malformed, "override: %v", err)
	}
	return signDocument(fleet.TypeOverride, o, signers)
}

// Override checks an operator's signed override at the given wall time: its
// signatures, fleet, epoch and form, and that it may be accepted now. What was accepted
// before on the same matter is the caller's to compare.
func (v Verifier) Override(env []byte, wall clock.Instant) (Verified[fleet.Override], error) {
	var none Verified[fleet.Override]
	if len(env) > MaxOverride {
		return none, refuse(Malformed, "an override of %d bytes, at most %d are allowed", len(env), MaxOverride)
	}
	var o fleet.Override
	d, err := v.Open(RoleOverride, fleet.TypeOverride, env, &o, &o.Document)
	if err != nil {
		return none, err
	}
	if err := o.Check(); err != nil {
		return none, refuse(Malformed, "override: %v", err)
	}
	if err := v.operators(&o, env); err != nil {
		return none, err
	}
	now := v.state.Now(wall)
	if o.IssuedAt > now.Add(Slack) {
		return none, refuse(FutureDated, "override %s was signed at %s and it is %s; check the clocks", o.ID, o.IssuedAt, now)
	}
	if o.NotAfter.Reached(now) {
		return none, refuse(Expired, "override %s was accepted until %s and it is %s; sign it again", o.ID, o.NotAfter, now)
	}
	return prove(o, d, now), nil
}

// operators refuses an override that fewer operators signed than its action takes.
// Every signature of env is by a different key of the role, and holds.
func (v Verifier) operators(o *fleet.Override, env []byte) error {
	e, err := ParseEnvelope(env)
	if err != nil {
		return err
	}
	named := len(v.ring.roles[RoleOverride].keys)
	need := o.Operators(named)
	switch {
	case need > named:
		return refuse(ManifestVerifyFailed, "%s needs %d operators, root version %d names %d override key", o.Action, need, v.ring.root.Version, named)
	case len(e.Signatures) < need:
		return refuse(ManifestVerifyFailed, "%d of the %d operators that %s needs have signed", len(e.Signatures), need, o.Action)
	}
	return nil
}
