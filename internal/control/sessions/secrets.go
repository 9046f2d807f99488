package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// SecretsOn lists the secrets that a host is to have now: those that the sessions' workspaces in its
// layer name, whose pods are booked there and do not end.
func (r *Runner) SecretsOn(ctx context.Context, host string) (refs []session.SecretRef, err error) {
	err = r.srv.ViewState(ctx, func(s *server.State) { refs = secretsOn(s, host) })
	return refs, err
}

func secretsOn(s *server.State, host string) (refs []session.SecretRef) {
	layer := s.Managed.Hosts[host]
	if layer == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(layer.Entries)) {
		e := layer.Entries[id]
		for _, name := range namedBy(&e) {
			ref, ok := session.ParseSecret(name)
			if of, _ := spec.SecretOwner(name); !ok || of != e.Owner {
				continue
			}
			b, _ := s.Booked.Of(ref.Rows()[2])
			if b.Host == host && b.State != session.StateLeaving && ref.Valid(s.Rows) && !slices.Contains(refs, ref) {
				refs = append(refs, ref)
			}
		}
	}
	return refs
}

// namedBy lists what an entry names of secrets of sessions.
func namedBy(e *managed.Entry) []string {
	var w spec.Workspace
	if e.Owner == spec.Operators || e.Kind != spec.KindWorkspace || json.Unmarshal(e.Spec, &w) != nil {
		return nil
	}
	return w.Secrets()
}

// SecretsOf lists the secrets of a session.
func (r *Runner) SecretsOf(ctx context.Context, name string) ([]session.SecretRef, error) {
	row, err := r.loop.Get(ctx, session.Ref(name))
	if errors.Is(err, engine.ErrNotFound) {
		return nil, unknown(name)
	}
	var s session.Spec
	if err == nil {
		err = json.Unmarshal(row.Desired, &s)
	}
	return s.Secrets(name), err
}

// olderAgent says of what a host reports that its agent does not know what sessions are given.
func olderAgent(message string) string {
	secret := strings.Contains(message, `secret "`+spec.OwnerSession+"/") && strings.Contains(message, "of the host is not allowed here")
	if secret || strings.Contains(message, `unknown field "keep"`) {
		return "; the agent of this host is older than the server and knows neither secrets nor kept volumes of sessions: upgrade it"
	}
	return ""
}
