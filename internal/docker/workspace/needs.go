package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// needs are the inputs of the form with the declaration, and what follows from
// them alone. It is not changed once made: looks share it.
type needs struct {
	convert.Inputs
	facts      dockerapi.Facts
	declared   *spec.Deployment
	generation int64
	refused    []diff.Difference
	startFirst bool
	stopFirst  string
	healthWait clock.Duration
}

// equal reports whether the same follows from both.
func (n *needs) equal(o *needs) bool {
	return n.generation == o.generation && n.Name == o.Name && n.Image == o.Image && n.facts == o.facts && maps.Equal(n.Networks, o.Networks) &&
		maps.Equal(n.Containers, o.Containers) && maps.Equal(n.Secrets, o.Secrets) && maps.Equal(n.Variables, o.Variables) && (n.declared == o.declared || reflect.DeepEqual(n.declared, o.declared))
}

// derive works out what follows. An error of the first kind reports what is missing.
func (n *needs) derive() (absent, err error) {
	d := n.declared
	if _, err := convert.Workspace(d, n.Inputs); err != nil {
		return err, nil
	}
	var volumes []string
	checked := d.Workspace.Health != nil && !d.Workspace.Health.Disable && len(d.Workspace.Health.Test) > 0
	if c := n.Image.Config; c != nil {
		volumes = slices.Sorted(maps.Keys(c.Volumes))
		checked = checked || d.Workspace.Health == nil && c.Healthcheck != nil && len(c.Healthcheck.Test) > 0
	}
	n.healthWait = convert.HealthWait(&d.Workspace, &n.Inputs)
	n.startFirst, n.stopFirst = replace.StartFirst(&d.Workspace, volumes, checked)
	n.refused, err = convert.Refused(d, n.Inputs, n.facts.Rules)
	return nil, err
}

// absent is what is not there: all that one cannot be made without, and the part
// that one cannot be started without.
type absent struct{ make, start []string }

func (a *absent) add(start bool, what string) {
	a.make = append(a.make, what)
	if start {
		a.start = append(a.start, what)
	}
}

func (a *absent) String() string { return "waiting for " + strings.Join(a.make, ", ") }

// inputs reads what names mean on the engine now. What is missing is listed; the
// inputs are nil if nothing can be compared without it. Fallback is the image of
// the container in place, for when the declared one is not there.
func (m *Reconciler) inputs(ctx context.Context, r *engine.Resource[Desired], fallback string) (*needs, absent, error) {
	d, u := &r.Desired, &r.Desired.Spec.Uses
	var missing absent
	about, err := m.cache.About(ctx)
	if err != nil {
		return nil, missing, err
	}
	out := &needs{facts: about}
	out.Name, out.API, out.NoSwap, out.Digest = m.title(d), about.API, about.NoSwap, m.o.Digest
	if m.o.GPUs != nil {
		lacks, err := m.o.GPUs(ctx, &d.Spec.Workspace)
		if err != nil {
			return nil, missing, err
		}
		if lacks != "" {
			missing.add(false, "GPUs: "+lacks)
		}
	}
	if out.Image, err = m.cache.Image(ctx, u.Image); err != nil {
		return nil, missing, err
	}
	if out.Image == nil {
		missing.add(false, "image "+imageref.Brief(u.Image))
		if fallback != "" {
			if out.Image, err = m.cache.Image(ctx, fallback); err != nil {
				return nil, missing, err
			}
		}
	}
	have, err := m.cache.Networks(ctx, u.Networks)
	if err != nil {
		return nil, missing, err
	}
	if len(u.Networks) > 0 {
		out.Networks = make(map[string]string, len(u.Networks))
	}
	for _, title := range u.Networks {
		if id, ok := have[title]; ok && (m.o.Replacing == nil || !m.o.Replacing(title)) {
			out.Networks[title] = id
			continue
		}
		missing.add(true, "network "+title)
	}
	if len(u.Volumes) > 0 {
		have, err := m.cache.Volumes(ctx, u.Volumes)
		if err != nil {
			return nil, missing, err
		}
		for _, title := range u.Volumes {
			if !have[title] {
				missing.add(false, "volume "+title)
			}
		}
	}
	unknown, err := m.borrowed(ctx, d, out, &missing)
	if err != nil {
		return nil, missing, err
	}
	slices.Sort(missing.make)
	if unknown || len(missing.start) > 0 || out.Image == nil {
		return nil, missing, nil
	}
	out, err = m.derived(r, out, &missing)
	return out, missing, err
}

// derived gives the needs of the last check if they are like these, and else works
// out what follows; nil if something is missing for that.
func (m *Reconciler) derived(r *engine.Resource[Desired], n *needs, missing *absent) (*needs, error) {
	n.declared, n.generation = &r.Desired.Spec, r.Generation
	m.mu.Lock()
	last := m.needs[r.Ref]
	m.mu.Unlock()
	if last != nil && last.equal(n) {
		return last, nil
	}
	absent, err := n.derive()
	if err != nil {
		return nil, err
	}
	if absent != nil {
		missing.add(false, absent.Error())
		return nil, nil
	}
	m.mu.Lock()
	m.needs[r.Ref] = n
	m.mu.Unlock()
	return n, nil
}

// borrowed adds the containers whose namespaces are shared, and the secrets; unknown
// means that one of those is not there.
func (m *Reconciler) borrowed(ctx context.Context, d *Desired, out *needs, missing *absent) (unknown bool, err error) {
	if len(d.Spec.Uses.Workspaces) > 0 {
		out.Containers = map[string]string{}
	}
	for _, title := range d.Spec.Uses.Workspaces {
		c, err := m.o.Engine.ContainerInspect(ctx, title)
		switch {
		case dockerapi.NotFound(err):
			missing.add(true, "container "+title)
		case err != nil:
			return false, err
		case d.Spec.Workspace.Bridged() && !convert.Run(&c).Up(): // engines link to what runs alone
			missing.add(true, "container "+title+", which does not run")
		default:
			out.Containers[title] = c.ID
		}
	}
	for _, name := range d.Spec.Workspace.Secrets() {
		if out.Secrets == nil {
			out.Secrets, out.Variables = map[string]string{}, map[string]string{}
		}
		v, err := m.secret(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing.add(false, "secret "+name)
			unknown = true
		case err != nil:
			return false, err
		default:
			out.Secrets[name], out.Variables[name] = m.o.Digest(string(v)), m.o.Digest(secret.Variable(v))
		}
	}
	return unknown, nil
}

func (m *Reconciler) secret(name string) ([]byte, error) {
	if m.o.Secrets == nil {
		return nil, fmt.Errorf("secret %s: this host has no secret store: %w", name, fs.ErrNotExist)
	}
	v, err := m.o.Secrets.Get(name)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	return v, nil
}
