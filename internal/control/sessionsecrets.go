package control

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/wire"
)

// SessionSecrets are the secrets of sessions that a host is to have now.
func (c *Control) SessionSecrets(ctx context.Context, p *Peer) (wire.SessionSecrets, error) {
	return c.secretsOn(ctx, p.Name)
}

func (c *Control) secretsOn(ctx context.Context, host string) (wire.SessionSecrets, error) {
	refs, err := c.sessions.SecretsOn(ctx, host)
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

// shortestEnd is how much of a secret may be left where an output was cut off.
const shortestEnd = 8

// withoutSecrets takes secrets out of an error that tells of a command's output, which may begin within one.
func withoutSecrets(known map[string]string, failed error) error {
	if failed == nil {
		return nil
	}
	text := failed.Error()
	for _, ref := range slices.Sorted(maps.Keys(known)) {
		for value := known[ref]; len(value) >= shortestEnd; value = value[1:] {
			text = secret.Clean(text, ref, []byte(value))
		}
	}
	if text == failed.Error() {
		return failed
	}
	return errors.New(text)
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
