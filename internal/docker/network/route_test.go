package network

import (
	"errors"
	"testing"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func resource(s spec.Route) engine.Resource[DesiredRoute] {
	return engine.Resource[DesiredRoute]{Ref: engine.Ref{Kind: spec.KindRoute, ID: s.Name}, Desired: DesiredRoute{Spec: s, Run: "r"}}
}

// turn observes, decides and acts once, and returns the decision.
func turn(t *testing.T, m *Routes, r engine.Resource[DesiredRoute]) (engine.Decision, error) {
	t.Helper()
	o := testkit.Value(m.Observe(t.Context(), r))(t)
	d := m.Decide(engine.View[DesiredRoute, RouteObserved]{Resource: r, Observed: o})
	if d.Action() == nil {
		return d, nil
	}
	return d, m.Act(t.Context(), r, d.Action())
}

func TestRoutesAreKeptInTheRouter(t *testing.T) {
	rt := router.New(router.Config{})
	defer rt.Close()
	told := 0
	m := NewRoutes(RouteOptions{Router: rt, Changed: func(router.Table) error { told++; return nil }})
	web := resource(spec.Route{Name: "web", Host: "Example.org", Workspace: "web", Port: 80})
	api := resource(spec.Route{Name: "api", Host: "example.org", Path: "/api", Workspace: "api", Port: 8080})
	for _, r := range []engine.Resource[DesiredRoute]{web, api} {
		if d, err := turn(t, m, r); err != nil || d.Reason().Code != CodeRouteMissing {
			t.Fatalf("%s: %s %v", r.Ref, d.Reason(), err)
		}
		if d, err := turn(t, m, r); err != nil || d.Action() != nil { // S36: nothing to do, nothing done
			t.Fatalf("%s again: %s %v", r.Ref, d.Reason(), err)
		}
	}
	if i := rt.Table().Match("example.org", "/api/x"); i < 0 || rt.Table().Route(i).Upstream != "api" {
		t.Fatalf("the table is %+v", rt.Table().Routes())
	}
	// Somebody emptied the router: it comes back, and others stay.
	rt.Swap(router.Table{})
	if _, err := turn(t, m, web); err != nil || rt.Table().Len() != 1 {
		t.Fatalf("%v, %d routes", err, rt.Table().Len())
	}
	web.Desired.Spec.Port = 81
	if d, err := turn(t, m, web); err != nil || d.Reason().Code != CodeRouteDiffers || rt.Table().Route(0).Port != 81 {
		t.Fatalf("%s %v %+v", d.Reason(), err, rt.Table().Routes())
	}
	web.Delete = true
	if _, err := turn(t, m, web); err != nil || rt.Table().Len() != 0 {
		t.Fatalf("%v, %d routes", err, rt.Table().Len())
	}
	if told != 5 {
		t.Fatalf("told of %d tables", told)
	}
}

func TestTwoRoutesForOnePlace(t *testing.T) {
	rt := router.New(router.Config{})
	defer rt.Close()
	m := NewRoutes(RouteOptions{Router: rt})
	testkit.Value(turn(t, m, resource(spec.Route{Name: "a", Host: "h.example", Workspace: "a", Port: 80})))(t)
	_, err := turn(t, m, resource(spec.Route{Name: "b", Host: "h.example.", Workspace: "b", Port: 80}))
	if err == nil || rt.Table().Len() != 1 || rt.Table().Route(0).Upstream != "a" {
		t.Fatalf("%v, table %+v", err, rt.Table().Routes())
	}
	d, err := turn(t, m, resource(spec.Route{Name: "c", Host: "h..example", Workspace: "c", Port: 80}))
	if err != nil || d.Name() != "fail" || d.Reason().Code != CodeRefused {
		t.Fatalf("%s %v", d.Reason(), err)
	}
}

// TestRouteWithoutCertificate: it stands, and says what is missing until it is
// there.
func TestRouteWithoutCertificate(t *testing.T) {
	rt := router.New(router.Config{})
	defer rt.Close()
	missing := errors.New("certificate shop: no such file")
	m := NewRoutes(RouteOptions{Router: rt, Certificate: func(string) error { return missing }})
	r := resource(spec.Route{Name: "shop", Host: "shop.example", Workspace: "shop", Port: 80, TLS: "shop"})
	if d, err := turn(t, m, r); err != nil || d.Reason().Code != CodeRouteMissing {
		t.Fatalf("%s %v", d.Reason(), err)
	}
	if d, err := turn(t, m, r); err != nil || d.Name() != "wait" || d.Reason().Code != CodeCertificate || d.Reason().Message != missing.Error() {
		t.Fatalf("%s: %s %v", d.Name(), d.Reason(), err)
	}
	missing = nil
	if d, err := turn(t, m, r); err != nil || d.Name() != "converged" {
		t.Fatalf("%s: %s %v", d.Name(), d.Reason(), err)
	}
}
