package network

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of routes.
const (
	CodeRouteMissing engine.Code = "route-missing"
	CodeRouteDiffers engine.Code = "route-differs"
	CodeRefused      engine.Code = "route-refused"
	CodeRemoving     engine.Code = "removing-route"
	// CodeCertificate: the route stands, and is not served over TLS.
	CodeCertificate engine.Code = "certificate-unusable"
)

// Router takes whole tables. Changed, when set, is notified of each: it reads
// certificates again and writes exports.
type Router interface {
	Table() router.Table
	Swap(router.Table)
}

// RouteOptions are what the reconciler needs.
type RouteOptions struct {
	Router  Router
	Changed func(router.Table) error
	// Certificate reports why a certificate cannot be served; nil checks none.
	Certificate func(name string) error
}

// Routes keeps routes as declared.
type Routes struct {
	o  RouteOptions
	mu sync.Mutex // one change of the table at a time
}

// DesiredRoute is what is asked of a route.
type DesiredRoute = spec.Desired[spec.Route]

// NewRoutes makes the reconciler.
func NewRoutes(o RouteOptions) *Routes {
	if o.Changed == nil {
		o.Changed = func(router.Table) error { return nil }
	}
	return &Routes{o: o}
}

// RoutePolicy is the policy of routes.
func RoutePolicy() engine.Policy {
	return engine.Policy{
		Retry:   engine.RetryPolicy{Max: 3, Base: time.Second, Cap: 15 * time.Second},
		OnDrift: engine.Enforce, Resync: time.Minute, Revive: 5 * time.Minute, History: engine.History{Keep: 20},
	}
}

// RouteObserved is the route as the router has it.
type RouteObserved struct {
	Set   bool
	Route router.Route
	// Wanted is the declared route in the router's normal form; Problem reports why
	// it has none.
	Wanted  router.Route
	Problem string
	// Uncertified reports why its certificate cannot be served.
	Uncertified string
}

// Set puts the route into the table; Remove takes it out.
type (
	SetRoute    struct{}
	RemoveRoute struct{}
)

// ActionName names the actions.
func (SetRoute) ActionName() string    { return "set" }
func (RemoveRoute) ActionName() string { return "remove" }

// Observe reads the router's table.
func (m *Routes) Observe(_ context.Context, r engine.Resource[DesiredRoute]) (RouteObserved, error) {
	var o RouteObserved
	for _, have := range m.o.Router.Table().Routes() {
		if have.Name == r.Ref.ID {
			o.Set, o.Route = true, have
		}
	}
	if r.Delete || r.Desired.Suspended {
		return o, nil
	}
	t, problems := router.BuildTable([]router.Route{Entry(r.Desired.Spec)})
	if len(problems) > 0 {
		o.Problem = problems[0].Error()
		return o, nil
	}
	o.Wanted = t.Routes()[0]
	if o.Wanted.TLS != "" && m.o.Certificate != nil {
		if err := m.o.Certificate(o.Wanted.TLS); err != nil {
			o.Uncertified = err.Error()
		}
	}
	return o, nil
}

// Entry is a declared route as the router takes it.
func Entry(r spec.Route) router.Route {
	return router.Route{
		Name: r.Name, Host: r.Host, Path: r.Path, StripPath: r.StripPath, TLS: r.TLS, RedirectHTTP: r.RedirectHTTP,
		Upstream: r.Workspace, Port: r.Port, MaxBody: r.MaxBody, ForwardAuth: r.ForwardAuth,
		Timeouts: router.Timeouts{Header: r.HeaderWait},
	}
}

// routeAgain is when a certificate that cannot be served is checked again.
const routeAgain = 30 * time.Second

// Decide sets what is missing or differs, and removes what is not wanted.
func (m *Routes) Decide(v engine.View[DesiredRoute, RouteObserved]) engine.Decision {
	o := v.Observed
	switch {
	case v.Resource.Delete || v.Resource.Desired.Suspended:
		if o.Set {
			return engine.Do(RemoveRoute{}, engine.NewReason(CodeRemoving, ""))
		}
		return engine.IsConverged(engine.Reason{})
	case o.Problem != "":
		return engine.Fail(engine.NewReason(CodeRefused, o.Problem))
	case !o.Set:
		return engine.Do(SetRoute{}, engine.NewReason(CodeRouteMissing, ""))
	case !equal(o.Route, o.Wanted):
		return engine.Do(SetRoute{}, engine.NewReason(CodeRouteDiffers, ""))
	case o.Uncertified != "":
		return engine.WaitUntil(v.Now.Add(routeAgain), engine.NewReason(CodeCertificate, o.Uncertified))
	}
	return engine.IsConverged(engine.Reason{})
}

func equal(a, b router.Route) bool { return len(between(a, b)) == 0 }

// Differences lists the fields that are not as declared.
func (o RouteObserved) Differences() []diff.Difference {
	if !o.Set || o.Problem != "" {
		return nil
	}
	return between(o.Wanted, o.Route)
}

// between compares two routes in the router's normal form. All of a route is
// changed in place.
func between(want, seen router.Route) []diff.Difference {
	return diff.Compare(formOf(want), formOf(seen), nil, routeRules{})
}

func formOf(r router.Route) diff.Form {
	raw, err := json.Marshal(r)
	if err != nil {
		panic("route: a table's route did not encode: " + err.Error())
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		panic("route: a table's route is no object: " + err.Error())
	}
	out := diff.Form{}
	for k, v := range fields {
		out[k] = string(v)
	}
	return out
}

type routeRules struct{}

func (routeRules) Class(string, string, string) (diff.Class, string) {
	return diff.InPlace, "the table is swapped"
}
func (routeRules) OwnsExtra(string) bool { return true }
func (routeRules) Default(string) string { return "" }

// Act swaps the table. Requests that run keep the one that they began with.
func (m *Routes) Act(_ context.Context, r engine.Resource[DesiredRoute], a engine.Action) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	routes := slices.DeleteFunc(slices.Clone(m.o.Router.Table().Routes()), func(have router.Route) bool { return have.Name == r.Ref.ID })
	if _, set := a.(SetRoute); set {
		routes = append(routes, Entry(r.Desired.Spec))
	}
	slices.SortFunc(routes, func(x, y router.Route) int { return strings.Compare(x.Name, y.Name) })
	t, problems := router.BuildTable(routes)
	if len(problems) > 0 {
		if p := problems[0]; p.Route != r.Ref.ID {
			// Two routes for one place: the other one keeps it.
			return reconcile.Terminal(CodeRefused, fmt.Errorf("it replaces another route: %w", p))
		}
		return reconcile.Terminal(CodeRefused, problems[0])
	}
	m.o.Router.Swap(t)
	return m.o.Changed(t)
}
