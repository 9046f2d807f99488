// Package route is the manager of routes: it keeps the host's router in step
// with what is declared. A route is set before its workspace answers; it is then
// refused with 503, and works as soon as the workspace is good.
package route

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/steadyfleet/steady/internal/core/clock"
	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/router/table"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of routes.
const (
	CodeMissing  engine.Code = "route_missing"
	CodeDiffers  engine.Code = "route_differs"
	CodeRefused  engine.Code = "route_refused"
	CodeRemoving engine.Code = "removing_route"
	// CodeCertificate: the route stands, and is not served over TLS.
	CodeCertificate engine.Code = "certificate_unusable"
)

// Router takes whole tables. Changed, when set, is told of each: it reads
// certificates again and writes exports.
type Router interface {
	Table() table.Table
	Swap(table.Table)
}

// Options are what the manager needs.
type Options struct {
	Router  Router
	Changed func(table.Table) error
	// Certificate says why a certificate cannot be served; nil looks at none.
	Certificate func(name string) error
}

// Manager keeps routes as declared.
type Manager struct {
	o  Options
	mu sync.Mutex // one change of the table at a time
}

// Desired is what is asked of a route.
type Desired = spec.Desired[spec.Route]

// New makes the manager.
func New(o Options) *Manager {
	if o.Changed == nil {
		o.Changed = func(table.Table) error { return nil }
	}
	return &Manager{o: o}
}

// Policy is the policy of routes.
func Policy() engine.Policy {
	return engine.Policy{
		Retry:   engine.RetryPolicy{Max: 3, Base: clock.Second, Cap: 15 * clock.Second},
		OnDrift: engine.Enforce, Resync: clock.Minute, Revive: 5 * clock.Minute, History: engine.History{Keep: 20},
	}
}

// Observed is the route as the router has it.
type Observed struct {
	Set   bool
	Route table.Route
	// Wanted is the declared route in the router's normal form; Problem says why
	// it has none.
	Wanted  table.Route
	Problem string
	// Uncertified says why its certificate cannot be served.
	Uncertified string
}

// Set puts the route into the table; Remove takes it out.
type (
	Set    struct{}
	Remove struct{}
)

// ActionName names the actions.
func (Set) ActionName() string    { return "set" }
func (Remove) ActionName() string { return "remove" }

// Observe reads the router's table.
func (m *Manager) Observe(_ context.Context, r engine.Resource[Desired]) (Observed, error) {
	var o Observed
	for _, have := range m.o.Router.Table().Routes() {
		if have.Name == r.Ref.ID {
			o.Set, o.Route = true, have
		}
	}
	if r.Retire || r.Desired.Parked {
		return o, nil
	}
	t, problems := table.Build([]table.Route{entry(r.Desired.Spec)})
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

// entry is a declared route as the router takes it.
func entry(r spec.Route) table.Route {
	return table.Route{
		Name: r.Name, Host: r.Host, Path: r.Path, StripPath: r.StripPath, TLS: r.TLS, RedirectHTTP: r.RedirectHTTP,
		Upstream: r.Workspace, Port: r.Port, MaxBody: r.MaxBody, ForwardAuth: r.ForwardAuth,
		Timeouts: table.Timeouts{Header: r.HeaderWait},
	}
}

// again is when a certificate that cannot be served is looked at again.
const again = 30 * clock.Second

// Decide sets what is missing or differs, and removes what is not wanted.
func (m *Manager) Decide(v engine.View[Desired, Observed]) engine.Decision {
	o := v.Observed
	switch {
	case v.Resource.Retire || v.Resource.Desired.Parked:
		if o.Set {
			return engine.Do(Remove{}, engine.Because(CodeRemoving, ""))
		}
		return engine.IsConverged(engine.Reason{})
	case o.Problem != "":
		return engine.Fail(engine.Because(CodeRefused, o.Problem))
	case !o.Set:
		return engine.Do(Set{}, engine.Because(CodeMissing, ""))
	case !equal(o.Route, o.Wanted):
		return engine.Do(Set{}, engine.Because(CodeDiffers, ""))
	case o.Uncertified != "":
		return engine.Wait(v.Now.Add(again), engine.Because(CodeCertificate, o.Uncertified))
	}
	return engine.IsConverged(engine.Reason{})
}

func equal(a, b table.Route) bool { return len(between(a, b)) == 0 }

// Differences lists the fields that are not as declared.
func (o Observed) Differences() []diff.Difference {
	if !o.Set || o.Problem != "" {
		return nil
	}
	return between(o.Wanted, o.Route)
}

// between compares two routes in the router's normal form. All of a route is
// changed in place.
func between(want, seen table.Route) []diff.Difference {
	return diff.Compare(formOf(want), formOf(seen), nil, rules{})
}

func formOf(r table.Route) diff.Form {
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

type rules struct{}

func (rules) Class(string, string, string) (diff.Class, string) {
	return diff.InPlace, "the table is swapped"
}
func (rules) OwnsExtra(string) bool { return true }
func (rules) Default(string) string { return "" }

// Act swaps the table. Requests that run keep the one that they began with.
func (m *Manager) Act(_ context.Context, r engine.Resource[Desired], a engine.Action) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	routes := slices.DeleteFunc(slices.Clone(m.o.Router.Table().Routes()), func(have table.Route) bool { return have.Name == r.Ref.ID })
	if _, set := a.(Set); set {
		routes = append(routes, entry(r.Desired.Spec))
	}
	slices.SortFunc(routes, func(x, y table.Route) int { return strings.Compare(x.Name, y.Name) })
	t, problems := table.Build(routes)
	if len(problems) > 0 {
		if p := problems[0]; p.Route != r.Ref.ID {
			// Two routes for one place: the other one keeps it.
			return reconcile.Terminal(CodeRefused, fmt.Errorf("it takes the place of another route: %w", p))
		}
		return reconcile.Terminal(CodeRefused, problems[0])
	}
	m.o.Router.Swap(t)
	return m.o.Changed(t)
}
