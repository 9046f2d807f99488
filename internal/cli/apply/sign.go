package apply

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/trust"
)

// sealer signs entries for hosts that take no others.
type sealer struct {
	signer trust.Signer
	head   fleet.Document
}

// newSealer loads the override key of a folder. The version of entries is the
// time of signing, so that a later one counts.
func newSealer(keys string, now clock.Instant) (*sealer, error) {
	signer, v, err := keyring.SignerUnderRoot(keys, trust.RoleOverride)
	if err != nil {
		return nil, exit.Bad(err)
	}
	return &sealer{signer, fleet.Document{Fleet: v.Fleet(), Epoch: v.Epoch(), Version: uint64(now), IssuedAt: now}}, nil
}

// seal signs one resource for its host; a nil sealer signs nothing.
func (s *sealer) seal(r Resource) (json.RawMessage, error) {
	if s == nil {
		return nil, nil
	}
	return trust.SignManagedEntry(fleet.ManagedEntry{Document: s.head, Host: r.Host, Kind: r.Kind, Name: r.Name, Spec: string(r.Spec)}, s.signer)
}
