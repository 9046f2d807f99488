package workspace

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Affected lists the workspaces that an event of the engine may be about, to be
// checked again. Call it after OnEvent.
func (m *Reconciler) Affected(e dockerapi.Event) []engine.Ref {
	switch e.Subject {
	case dockerapi.Container:
		a := e.Attributes
		if a[convert.LabelOwner] != m.o.Owner.ID() || a[convert.LabelKind] != spec.KindWorkspace || !dockerapi.Matters(e.Action) {
			return nil
		}
		return []engine.Ref{{Kind: spec.KindWorkspace, ID: a[convert.LabelName]}}
	case dockerapi.Network:
		if e.Container != "" {
			m.mu.Lock()
			defer m.mu.Unlock()
			if have, ok := m.comparisons[e.Container]; ok {
				return []engine.Ref{have.ref}
			}
			return nil
		}
		return m.knownUsing(func(u *spec.Uses) bool {
			return slices.Contains(slices.Collect(maps.Values(u.Networks)), e.Name)
		})
	case dockerapi.Volume:
		if e.Container != "" {
			return nil
		}
		return m.knownUsing(func(u *spec.Uses) bool {
			return slices.Contains(slices.Collect(maps.Values(u.Volumes)), e.ID)
		})
	case dockerapi.Image:
		return m.knownUsing(func(u *spec.Uses) bool {
			return u.Image == e.Name || u.Image == e.ID || slices.Contains([]string{e.Name, e.ID}, imageref.Untagged(u.Image))
		})
	case dockerapi.Resync:
		return m.knownUsing(func(*spec.Uses) bool { return true })
	}
	return nil
}

// knownUsing lists known workspaces, in order.
func (m *Reconciler) knownUsing(uses func(*spec.Uses) bool) []engine.Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []engine.Ref
	for ref, r := range m.known {
		if uses(&r.Desired.Spec.Uses) {
			out = append(out, ref)
		}
	}
	slices.SortFunc(out, engine.Ref.Compare)
	return out
}
