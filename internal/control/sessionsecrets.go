package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/wire"
)

// SessionSecrets are the secrets of sessions that a host is to have now.
func (c *Control) SessionSecrets(ctx context.Context, p *Peer) (wire.SessionSecrets, error) {
	refs, err := c.sessions.SecretsOn(ctx, p.Name)
	out := wire.SessionSecrets{Secrets: map[string]string{}}
	if err != nil || len(refs) == 0 {
		return out, err
	}
	key, err := c.eventKey()
	for _, ref := range refs {
		out.Secrets[ref.String()] = ref.Value(key)
	}
	return out, err
}

// CreatedSecret is a secret of a session with its value.
type CreatedSecret struct {
	session.SecretRef
	Value string
}

// CreatedSecrets are the secrets of a session, for who created it alone.
func (c *Control) CreatedSecrets(ctx context.Context, name string) (out []CreatedSecret, err error) {
	refs, err := c.sessions.SecretsOf(ctx, name)
	if err != nil || len(refs) == 0 {
		return nil, err
	}
	key, err := c.eventKey()
	for _, ref := range refs {
		out = append(out, CreatedSecret{ref, ref.Value(key)})
	}
	return out, err
}
