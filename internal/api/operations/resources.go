package operations

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	corefleet "github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
)

// kept is what the server itself knows of a host's resources of a kind, or of every kind: what
// bundles declare is beside the state.
type kept struct {
	known    bool
	phase    host.Phase
	current  digest.Digest // the bundle that it runs
	target   digest.Digest
	emptied  bool // by a signed removal
	set      map[spec.ID]spec.Owner
	reported map[spec.ID]health.Resource
}

// keep copies from a host's state; an empty kind is every one.
func keep(s control.HostState, kind string) *kept {
	k := &kept{set: map[spec.ID]spec.Owner{}, reported: map[spec.ID]health.Resource{}}
	if p := s.Plan; p != nil {
		k.phase, k.current, k.target = p.Machine.Phase, p.Machine.Current, p.Machine.Target
		k.emptied = p.Leaving != nil && p.Leaving.Workloads != corefleet.Keep
	}
	if m := s.Managed; m != nil {
		k.known = true
		for _, e := range m.Entries { // order-free: it fills a map
			if kind == "" || e.Kind == kind {
				k.set[spec.ID{Kind: e.Kind, Name: e.Name}] = e.Owner
			}
		}
	}
	if s.Health != nil {
		k.known = true
		for id, r := range s.Health.Resources { // order-free: it fills a map
			if of, name, _ := strings.Cut(id, "/"); kind == "" || of == kind {
				k.reported[spec.ID{Kind: of, Name: name}] = r
			}
		}
	}
	return k
}

// rows joins what bundles declare with what is kept of a host. Contents lists what is in a
// bundle; to is the bundle that the newest release gives the host. A bundle that failed on it
// declares nothing, and neither does one that a signed removal takes away.
func (k *kept) rows(to digest.Digest, contents func(digest.Digest) ([]spec.ID, error)) (map[spec.ID]operator.Resource, error) {
	rows := map[spec.ID]operator.Resource{}
	declare := func(d digest.Digest, like operator.Resource) error {
		ids, err := contents(d)
		for _, id := range ids {
			like.Kind, like.Name = id.Kind, id.Name
			rows[id] = like
		}
		return err
	}
	failed := (k.phase == host.Failed || k.phase == host.Reverted) && k.target == to
	if to != "" && to != k.current && !failed && !k.emptied {
		if err := declare(to, operator.Resource{Layer: event.LayerBundle, Next: true}); err != nil {
			return nil, err
		}
	}
	if k.current != "" && !k.emptied {
		if err := declare(k.current, operator.Resource{Layer: event.LayerBundle, Declared: true}); err != nil {
			return nil, err
		}
	}
	for id, owner := range k.set { // order-free: each row by itself
		if _, clash := rows[id]; !clash {
			rows[id] = operator.Resource{Kind: id.Kind, Name: id.Name, Layer: event.LayerManaged, Owner: owner, Declared: true}
		}
	}
	for id, s := range k.reported { // order-free: each row by itself
		r, ok := rows[id]
		if !ok {
			r.Kind, r.Name, r.Layer = id.Kind, id.Name, s.Layer
		}
		r.State, r.Phase, r.Reason, r.Message = s.State, s.Phase, s.Reason, s.Message
		r.Since, r.Attempts, r.NextAttempt, r.Version = s.Since, s.Attempts, s.NextAttempt, s.Version
		r.Differences = s.Differences
		rows[id] = r
	}
	return rows, nil
}

// contents lists what bundles have of a kind, or of every kind, and reads each bundle once.
func (h *Handler) contents(ctx context.Context, kind string) func(digest.Digest) ([]spec.ID, error) {
	read := map[digest.Digest][]spec.ID{}
	return func(d digest.Digest) ([]spec.ID, error) {
		if ids, ok := read[d]; ok {
			return ids, nil
		}
		b, err := h.c.Bundle(ctx, d)
		if err != nil {
			return nil, err
		}
		read[d] = slices.DeleteFunc(b.Resources(), func(id spec.ID) bool { return kind != "" && id.Kind != kind })
		return read[d], nil
	}
}

// resources are those of one host, with what it leaves to the server.
func (h *Handler) resources(ctx context.Context, in *hostPath) (out operator.HostResources, err error) {
	r, declared := h.c.Roster()[in.Host]
	out = operator.HostResources{Host: in.Host, Delegation: r.Delegation, Resources: []operator.Resource{}}
	target, err := h.c.Target(ctx, in.Host)
	if err != nil {
		return out, err
	}
	var k *kept
	layer := managed.New()
	err = h.c.ViewHost(ctx, in.Host, func(s control.HostState) {
		k = keep(s, "")
		for id, r := range k.reported { // order-free: each by itself
			r.Differences = slices.Clone(r.Differences)
			k.reported[id] = r
		}
		if m := s.Managed; m != nil {
			out.Version, out.Settings = m.Version, operator.HostSettings(m.Settings)
			layer.Hosts[in.Host] = &managed.Host{Entries: maps.Clone(m.Entries)}
		}
		if s.Health != nil {
			out.Dropped = s.Health.Dropped
		}
	})
	if err != nil {
		return out, err
	}
	if !declared && !k.known {
		return out, unknownHost(in.Host)
	}
	rows, err := k.rows(r.Bundle, h.contents(ctx, ""))
	out.Resources = slices.AppendSeq(out.Resources, maps.Values(rows))
	for i := range out.Resources {
		r := &out.Resources[i]
		r.Verbs = managed.VerbsOf(layer, target, r.Kind, r.Name, r.State)
	}
	slices.SortFunc(out.Resources, func(a, b operator.Resource) int {
		return strings.Compare(managed.ID(a.Kind, a.Name), managed.ID(b.Kind, b.Name))
	})
	return out, err
}

type resourceListIn struct {
	Kind   string   `query:"kind" maxLength:"63"`
	Hosts  []string `query:"host,explode" maxItems:"200" doc:"Resources of any of these hosts"`
	Search string   `query:"search" maxLength:"127" doc:"A part of HOST/NAME"`
	States []string `query:"state,explode" maxItems:"32" doc:"Resources in any of these states"`
	Sort   string   `query:"sort" enum:"name,-name,host,-host,state,-state,since,-since" default:"host" doc:"state begins with the worst"`
	Cut
}

// Resolve reads lists as they were sent: huma passes over one whose first value is empty.
func (in *resourceListIn) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	in.Hosts, in.States = u.Query()["host"], u.Query()["state"]
	return nil
}

var _ huma.Resolver = (*resourceListIn)(nil)

// resourceList joins for every host what is picked, and adds the differences to its page alone.
func (h *Handler) resourceList(ctx context.Context, in *resourceListIn) (page operator.Page[operator.HostResource], err error) {
	roster := h.c.Roster()
	hosts := map[string]*kept{}
	err = h.c.ViewHosts(ctx, func(s *plan.State) []string { return in.hosts(s, roster) }, func(name string, s control.HostState) {
		k := keep(s, in.Kind)
		for id, r := range k.reported { // order-free: each by itself
			r.Differences = nil // long, and the state's own
			k.reported[id] = r
		}
		hosts[name] = k
	})
	if err != nil {
		return page, err
	}
	var all []operator.HostResource
	contents := h.contents(ctx, in.Kind)
	for name, k := range hosts { // order-free: sorted below
		if _, declared := roster[name]; len(in.Hosts) > 0 && !declared && !k.known {
			return page, unknownHost(name)
		}
		rows, err := k.rows(roster[name].Bundle, contents)
		if err != nil {
			return page, err
		}
		for _, r := range rows { // order-free: sorted below
			if in.picks(name, &r) {
				all = append(all, operator.HostResource{Host: name, Resource: r})
			}
		}
	}
	in.order(all)
	page = pageOf(in.Cut, all)
	return page, h.differences(ctx, page.Items)
}

// hosts are those whose resources are asked for.
func (in *resourceListIn) hosts(s *plan.State, roster map[string]corefleet.RosterHost) []string {
	if len(in.Hosts) > 0 {
		return in.Hosts
	}
	return slices.DeleteFunc(hostNames(s, roster), s.Gone)
}

func (in *resourceListIn) picks(host string, r *operator.Resource) bool {
	return strings.Contains(host+"/"+r.Name, in.Search) && (len(in.States) == 0 || slices.Contains(in.States, r.State))
}

// order sorts resources; those that are alike are by host, kind and name.
func (in *resourceListIn) order(list []operator.HostResource) {
	key, turned := strings.CutPrefix(in.Sort, "-")
	slices.SortFunc(list, func(a, b operator.HostResource) int {
		by := 0
		switch key {
		case "name":
			by = strings.Compare(a.Name, b.Name)
		case "host":
			by = strings.Compare(a.Host, b.Host)
		case "state":
			by = cmp.Or(cmp.Compare(rank(&a.Resource), rank(&b.Resource)), strings.Compare(a.State, b.State))
		case "since":
			by = cmp.Compare(a.Since, b.Since)
		}
		if turned {
			by = -by
		}
		return cmp.Or(by, strings.Compare(a.Host, b.Host), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
}

// rank is how urgent a resource's stage is, the worst first.
func rank(r *operator.Resource) int {
	s := spec.Stage{Kind: r.Kind, Phase: r.Phase, Code: r.Reason}
	switch {
	case s.Broken():
		return 0
	case !s.Good():
		return 1
	case len(r.State) == 0:
		return 2
	}
	return 3
}

// differences adds to rows what differs of each.
func (h *Handler) differences(ctx context.Context, rows []operator.HostResource) error {
	byHost := map[string][]*operator.Resource{}
	for i := range rows {
		byHost[rows[i].Host] = append(byHost[rows[i].Host], &rows[i].Resource)
	}
	return h.c.ViewHosts(ctx, func(*plan.State) []string { return slices.Collect(maps.Keys(byHost)) }, func(name string, s control.HostState) {
		for _, r := range byHost[name] {
			if s.Health != nil {
				r.Differences = slices.Clone(s.Health.Resources[managed.ID(r.Kind, r.Name)].Differences)
			}
		}
	})
}

type kindPath struct {
	Kind string `path:"kind" maxLength:"63"`
}

func (h *Handler) schema(_ context.Context, in *kindPath) (operator.Schema, error) {
	s := operator.SchemaOf(in.Kind)
	if s == nil {
		return operator.Schema{}, wire.Refuse(wire.ErrNotFound, "unknown kind %q: expected one of %s", in.Kind, strings.Join(spec.Known.Names(), ", "))
	}
	return *s, nil
}
