package trust

import "github.com/steadyfleet/steady/internal/core/fleet"

// MaxManagedEntry bounds a signed entry of the managed layer in bytes.
const MaxManagedEntry = 256 << 10

// SignManagedEntry encodes and signs an entry. Type is filled in.
func SignManagedEntry(e fleet.ManagedEntry, signers ...Signer) ([]byte, error) {
	e.Type = fleet.TypeManagedEntry
	return signDocument(fleet.TypeManagedEntry, e, signers)
}

// ManagedEntry checks an entry that an operator signed for a host. Versions are
// not compared: the caller knows which one of the resource it saw last.
func (v Verifier) ManagedEntry(env []byte, host string) (Verified[fleet.ManagedEntry], error) {
	var none Verified[fleet.ManagedEntry]
	if len(env) > MaxManagedEntry {
		return none, refuse(Malformed, "a signed entry of %d bytes, at most %d are allowed", len(env), MaxManagedEntry)
	}
	var e fleet.ManagedEntry
	d, err := v.Open(RoleOverride, fleet.TypeManagedEntry, env, &e, &e.Document)
	if err != nil {
		return none, err
	}
	if e.Host != host {
		return none, refuse(WrongHost, "the entry was signed for host %q, not for %q", e.Host, host)
	}
	return prove(e, d, e.IssuedAt), nil
}
