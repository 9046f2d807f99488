package operations

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
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
	add(h, get("page-resources", "/resource-list", "List a page of the resources of all hosts that filters leave, sorted"), viewing, h.resourceList)
	add(h, get("show-schema", "/schema/{kind}", "The JSON Schema of a kind of resource"), viewing, h.schema)
	add(h, huma.Operation{OperationID: "convert-yaml", Method: http.MethodPost, Path: "/yaml", Summary: "Read YAML as JSON, or write JSON as YAML", MaxBodyBytes: maxYAML}, viewing, h.convertYAML)
	add(h, op("plan-resource", http.MethodPost, "/plan", "Ask a host what setting a resource would do"), operating, h.plan)
}

// operators is a change by who asks, for the operators.
func operators(ctx context.Context, reason string) managed.Change {
	return managed.Change{Owner: spec.Operators, Actor: actor(ctx), Reason: reason}
}

func (h *Handler) setResource(ctx context.Context, in *setIn) (operator.Changed, error) {
	changed, err := h.c.SetManaged(ctx, in.Host, managed.Input{Kind: in.Kind, Name: in.Name, Spec: in.Body.Spec,
		NotAfter: in.Body.NotAfter, Envelope: in.Body.Envelope, Version: in.Body.Version, Create: in.Body.Create}, operators(ctx, in.Body.Reason))
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
	return h.c.RemoveManaged(ctx, in.Host, in.Kind, in.Name, in.AllowMassChange, operators(ctx, in.Reason))
}

func (h *Handler) request(ctx context.Context, in *requestIn) (operator.Changed, error) {
	nonce, err := h.c.RequestManaged(ctx, in.Host, in.Kind, in.Name, in.Verb, operators(ctx, in.Body.Reason))
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
				out = operator.ManagedResource{Kind: i.Kind, Name: i.Name, Spec: slices.Clone(i.Spec), NotAfter: i.NotAfter, Version: i.Version, Signed: len(i.Envelope) > 0, Owner: i.Owner,
					Verb: i.Verb, Nonce: i.Nonce, SetAt: i.At, Actor: i.Actor, Reason: i.Reason}
			}
		}
	})
	if err == nil && !found {
		err = notManaged(in.Host, in.Kind, in.Name)
	}
	return out, err
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
		for _, l := range h.c.Loads(in.Host) {
			out.History = append(out.History, operator.Load(l))
		}
	}
	return out, nil
}

func (h *Handler) plan(ctx context.Context, in *hostIn[operator.PlanRequest]) (wire.PlanAnswer, error) {
	return h.c.Plan(ctx, in.Host, managed.Input{Kind: in.Body.Kind, Name: in.Body.Name, Spec: in.Body.Spec}, actor(ctx))
}
