package hosting

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// secretsFolder is below the state folder.
const secretsFolder = "session-secrets"

// sessionSecrets are the references that a layer has now, with the workspaces that name each.
func (h *Hosting) sessionSecrets(doc *wire.Managed) map[string][]string {
	now := h.o.Wall()
	out := map[string][]string{}
	for _, e := range doc.Entries {
		var w spec.Workspace
		if e.Owner == spec.Operators || e.Kind != spec.KindWorkspace || e.NotAfter.Reached(now) || json.Unmarshal(e.Spec, &w) != nil {
			continue
		}
		for _, ref := range w.Secrets() {
			if of, session := spec.SecretOwner(ref); session && of == e.Owner {
				out[ref] = append(out[ref], e.Name)
			}
		}
	}
	return out
}

// fetchSecrets asks for the secrets that a layer names and this host does not have. What the server does
// not give is asked for again after the next heartbeat; until then what names it waits.
func (h *Hosting) fetchSecrets(ctx context.Context, doc *wire.Managed) map[string]string {
	if h.docker == nil {
		return nil
	}
	missing := h.sessionSecrets(doc)
	maps.DeleteFunc(missing, func(ref string, _ []string) bool {
		_, err := h.docker.SessionSecrets().Get(ref)
		return err == nil
	})
	if len(missing) == 0 {
		return nil
	}
	m, err := h.o.Client.SessionSecrets(ctx)
	if err != nil {
		h.o.Log.Warn("secrets of sessions were not fetched", "count", len(missing), "error", err)
		return nil
	}
	maps.DeleteFunc(m.Secrets, func(ref string, _ string) bool { return missing[ref] == nil })
	return m.Secrets
}

// keepSecrets keeps what came; what cannot be kept is asked for again. The caller holds admitting.
func (h *Hosting) keepSecrets(values map[string]string) {
	for _, ref := range slices.Sorted(maps.Keys(values)) {
		if err := h.docker.SessionSecrets().Put(ref, values[ref]); err != nil {
			h.o.Log.Warn("a secret of a session was not kept", "error", err)
		}
	}
}

// lateSecrets fetches what did not come with the layer that is held.
func (h *Hosting) lateSecrets(ctx context.Context, doc *wire.Managed) {
	values := h.fetchSecrets(ctx, doc)
	if len(values) == 0 {
		return
	}
	h.admitting.Lock()
	h.keepSecrets(values)
	h.admitting.Unlock()
	named := h.sessionSecrets(doc)
	for ref := range values { // order-free: the queue orders
		for _, name := range named[ref] {
			h.o.Loop.Enqueue(engine.Ref{Kind: spec.KindWorkspace, ID: name}, engine.Cause{Trigger: engine.TriggerExternal, ID: "a secret came"})
		}
	}
}

// forgetSecrets removes the secrets that neither an entry of a session that has not ended nor a workspace
// names.
func (h *Hosting) forgetSecrets(ctx context.Context) {
	if h.docker == nil {
		return
	}
	h.admitting.Lock()
	defer h.admitting.Unlock()
	var have managedDoc
	_, err := h.o.Store.Get(ctx, keyManaged, &have)
	if err == nil {
		err = h.docker.SweepSecrets(ctx, slices.Collect(maps.Keys(h.sessionSecrets(&have.Doc))))
	}
	if err != nil && ctx.Err() == nil {
		h.o.Log.Warn("secrets of sessions that are over could not be removed", "error", err)
	}
}
