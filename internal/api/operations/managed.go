package operations

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/wire"
)

// ResourcePath is embedded in inputs, which takes an exported name.
type ResourcePath struct {
	Host string `path:"host" maxLength:"63"`
	Kind string `path:"kind" enum:"image,network,route,snapshot,volume,workspace"`
	Name string `path:"name" maxLength:"63"`
}

type setIn struct {
	ResourcePath
	Body operator.SetResource
}

type removeIn struct {
	ResourcePath
	Reason          string `query:"reason" maxLength:"1000" doc:"Why, for the log"`
	AllowMassChange bool   `query:"allowMassChange" doc:"Consent to removing many at once"`
}

type requestIn struct {
	ResourcePath
	Verb string `path:"verb" enum:"build,cancel,redeploy,restart,retry,start,stop"`
	Body struct {
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why, for the log"`
	}
}

// managing registers the routes of the managed layer.
func (h *Handler) managing() {
	op := func(id, method, path, summary string) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: "/hosts/{host}" + path, Summary: summary, MaxBodyBytes: 256 << 10}
	}
	add(h, op("set-resource", http.MethodPut, "/{kind}/{name}", "Set a resource of a host's managed layer"), operating, h.setResource)
	do(h, op("remove-resource", http.MethodDelete, "/{kind}/{name}", "Remove a resource from a host's managed layer"), operating, h.removeResource)
	add(h, op("show-resource", http.MethodGet, "/{kind}/{name}", "Show a resource of a host's managed layer"), viewing, h.managedResource)
	add(h, op("ask-resource", http.MethodPost, "/{kind}/{name}/{verb}", "Ask once for something of a resource"), operating, h.request)
	add(h, op("list-resources", http.MethodGet, "/resources", "List the resources of a host"), viewing, h.resources)
	add(h, op("tune-host", http.MethodPatch, "/settings", "Change a host's settings"), operating, h.tune)
	do(h, op("retry-host", http.MethodPost, "/retry", "Have a host try again what it gave up"), operating, h.retry)
	add(h, op("host-metrics", http.MethodGet, "/metrics", "Show what a host last reported"), viewing, h.hostMetrics)
	add(h, op("plan-resource", http.MethodPost, "/plan", "Ask a host what setting a resource would do"), operating, h.plan)
}

func (h *Handler) setResource(ctx context.Context, in *setIn) (operator.Changed, error) {
	changed, err := h.c.SetManaged(ctx, in.Host, managed.Input{Kind: in.Kind, Name: in.Name, Spec: in.Body.Spec,
		NotAfter: in.Body.NotAfter, Envelope: in.Body.Envelope}, in.Body.Reason, actor(ctx))
	if err != nil {
		return operator.Changed{}, err
	}
	return h.changed(ctx, in.ResourcePath, operator.Changed{Changed: changed})
}

func (h *Handler) changed(ctx context.Context, of ResourcePath, out operator.Changed) (operator.Changed, error) {
	err := h.c.ManagedHost(ctx, of.Host, func(m *managed.Host) {
		if m != nil {
			out.Version, out.Resource = m.Version, m.Changed(of.Kind, of.Name)
		}
	})
	return out, err
}

func (h *Handler) removeResource(ctx context.Context, in *removeIn) error {
	return h.c.RemoveManaged(ctx, in.Host, in.Kind, in.Name, in.AllowMassChange, in.Reason, actor(ctx))
}

func (h *Handler) request(ctx context.Context, in *requestIn) (operator.Changed, error) {
	nonce, err := h.c.RequestManaged(ctx, in.Host, in.Kind, in.Name, in.Verb, in.Body.Reason, actor(ctx))
	if err != nil {
		return operator.Changed{}, err
	}
	return h.changed(ctx, in.ResourcePath, operator.Changed{Changed: true, Nonce: nonce})
}

func (h *Handler) managedResource(ctx context.Context, in *ResourcePath) (operator.ManagedResource, error) {
	var out operator.ManagedResource
	found := false
	err := h.c.ManagedHost(ctx, in.Host, func(m *managed.Host) {
		for _, i := range m.Items() {
			if i.Kind == in.Kind && i.Name == in.Name && len(i.Spec) > 0 {
				found = true
				out = operator.ManagedResource{Kind: i.Kind, Name: i.Name, Spec: slices.Clone(i.Spec), NotAfter: i.NotAfter, Signed: len(i.Envelope) > 0,
					Verb: i.Verb, Nonce: i.Nonce, SetAt: i.At, Actor: i.Actor, Reason: i.Reason}
			}
		}
	})
	if err == nil && !found {
		err = notManaged(in.Host, in.Kind, in.Name)
	}
	return out, err
}

// resources joins what is declared of a host with what it reported.
func (h *Handler) resources(ctx context.Context, in *hostPath) (out operator.HostResources, err error) {
	t, err := h.c.Target(ctx, in.Host)
	if err != nil {
		return out, err
	}
	out.Host, out.Delegation = in.Host, t.Delegation
	rows := map[string]operator.Resource{}
	if err := h.declared(ctx, t, rows); err != nil {
		return out, err
	}
	known := t.Declared
	err = h.c.ViewHost(ctx, in.Host, func(s control.HostState) {
		if m := s.Managed; m != nil {
			known = true
			out.Version, out.Settings = m.Version, operator.HostSettings(m.Settings)
			for id, e := range m.Entries {
				if _, clash := rows[id]; !clash {
					rows[id] = operator.Resource{Kind: e.Kind, Name: e.Name, Layer: event.LayerManaged, Declared: true}
				}
			}
		}
		if s.Health == nil {
			return
		}
		known = true
		out.Dropped = s.Health.Dropped
		for id, reported := range s.Health.Resources {
			r, ok := rows[id]
			if !ok {
				r.Kind, r.Name, _ = strings.Cut(id, "/")
				r.Layer = reported.Layer
			}
			rows[id] = withStatus(r, &reported)
		}
	})
	if err == nil && !known {
		err = unknownHost(in.Host)
	}
	out.Resources = make([]operator.Resource, 0, len(rows))
	for _, r := range rows {
		out.Resources = append(out.Resources, r)
	}
	slices.SortFunc(out.Resources, func(a, b operator.Resource) int {
		return strings.Compare(managed.ID(a.Kind, a.Name), managed.ID(b.Kind, b.Name))
	})
	return out, err
}

// withStatus adds what a host reported of a resource.
func withStatus(r operator.Resource, s *health.Resource) operator.Resource {
	r.State, r.Phase, r.Reason, r.Message = s.State, s.Phase, s.Reason, s.Message
	r.Since, r.Attempts, r.NextAttempt, r.Version = s.Since, s.Attempts, s.NextAttempt, s.Version
	r.Differences = slices.Clone(s.Differences)
	return r
}

// declared adds what the bundle declares that a host runs, and what the one does that
// it is to run next. A bundle that failed on it is none of them, and one that a signed
// removal takes away.
func (h *Handler) declared(ctx context.Context, t *managed.Target, rows map[string]operator.Resource) error {
	var m host.State
	emptied := false
	err := h.c.ViewHost(ctx, t.Host, func(s control.HostState) {
		if s.Plan != nil {
			m.Phase, m.Current, m.Target = s.Plan.Machine.Phase, s.Plan.Machine.Current, s.Plan.Machine.Target
			emptied = s.Plan.Leaving != nil && s.Plan.Leaving.Workloads != fleet.Keep
		}
	})
	if err != nil || emptied {
		return err
	}
	failed := (m.Phase == host.Failed || m.Phase == host.Reverted) && m.Target == t.BundleDigest
	if t.BundleDigest != "" && t.BundleDigest != m.Current && !failed {
		if err := h.contents(ctx, t.BundleDigest, rows, operator.Resource{Layer: event.LayerBundle, Next: true}); err != nil {
			return err
		}
	}
	if m.Current == "" {
		return nil
	}
	return h.contents(ctx, m.Current, rows, operator.Resource{Layer: event.LayerBundle, Declared: true})
}

// contents makes a row like that given for each resource of a bundle.
func (h *Handler) contents(ctx context.Context, d digest.Digest, rows map[string]operator.Resource, like operator.Resource) error {
	b, err := h.c.Bundle(ctx, d)
	if err != nil {
		return err
	}
	for _, id := range b.Resources() {
		like.Kind, like.Name = id.Kind, id.Name
		rows[id.String()] = like
	}
	return nil
}

func (h *Handler) retry(ctx context.Context, in *hostIn[operator.RetryRequest]) error {
	return h.c.RetryHost(ctx, in.Host, in.Body.Resource, in.Body.Reason, actor(ctx))
}

func (h *Handler) tune(ctx context.Context, in *hostIn[operator.SettingsPatch]) (operator.HostSettings, error) {
	s, err := h.c.Tune(ctx, in.Host, in.Body.Edit, in.Body.Reason, actor(ctx))
	return operator.HostSettings(s), err
}

func (h *Handler) hostMetrics(ctx context.Context, in *hostPath) (operator.HostMetrics, error) {
	out := operator.HostMetrics{Host: in.Host}
	if _, err := h.host(ctx, in); err != nil {
		return out, err
	}
	if s := h.c.Sample(in.Host); s != nil {
		out = operator.HostMetrics{Host: in.Host, At: s.At, AgentVersion: s.AgentVersion, Uptime: s.Uptime, Runtimes: s.Runtimes,
			Engine: s.Engine, Capabilities: s.Capabilities, Metrics: s.Metrics}
	}
	return out, nil
}

func (h *Handler) plan(ctx context.Context, in *hostIn[operator.PlanRequest]) (wire.PlanAnswer, error) {
	return h.c.Plan(ctx, in.Host, managed.Input{Kind: in.Body.Kind, Name: in.Body.Name, Spec: in.Body.Spec}, actor(ctx))
}
