package compose

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// steadyKey is the extension for what Compose cannot express.
const steadyKey = "x-steady"

// The tags doc are what the reference says.
type topSteady struct {
	Routes    map[string]routeDecl    `json:"routes" doc:"routes by name; each names its service"`
	Snapshots map[string]snapshotDecl `json:"snapshots" doc:"snapshots by name; each names its service"`
	Images    map[string]imageDecl    `json:"images" doc:"archives of images in the bundle, by name"`
}

type serviceSteady struct {
	State      spec.RunState `json:"state" doc:"running (default), stopped, or once: it runs to its end"`
	ReportOnly bool          `json:"report_only" doc:"changes from outside are reported and left alone; default false"`
	Update     struct {
		Order      spec.Order         `json:"order" doc:"start-first or stop-first: whether the new container starts before the old one stops; default start-first, unless a fixed port, a writable volume or a missing health check forbids it"`
		Monitor    fleet.DurationText `json:"monitor" doc:"how long a new container without a health check must run before the old one goes; default 5s"`
		HealthWait fleet.DurationText `json:"health_wait" doc:"how long a health check may take to pass; default 2m"`
	} `json:"update" doc:"how a container is replaced"`
	Route     *routeDecl        `json:"route" doc:"what the router of the host sends to the service"`
	Routes    []routeDecl       `json:"routes" doc:"several of them"`
	Snapshot  *snapshotDecl     `json:"snapshot" doc:"an image made of the container"`
	Secrets   map[string]string `json:"secrets" doc:"environment from the host's own store: variable to the name of a secret"`
	Workspace string            `json:"workspace" doc:"the name of the workspace that the service is; default its own. A service that is renamed and has its former name here keeps its container, which is renamed"`
	// FromSnapshot takes the place of image.
	FromSnapshot string `json:"from_snapshot" doc:"the name of a snapshot that the service runs from, instead of image and build"`
}

type routeDecl struct {
	Host         string             `json:"host" doc:"name of the host that requests are for; default any"`
	Path         string             `json:"path" doc:"how paths begin; default /"`
	StripPath    bool               `json:"strip_path" doc:"the service gets the rest of the path alone; default false"`
	Service      string             `json:"service" doc:"the service that answers; default the one that has the route"`
	Port         int                `json:"port" doc:"that it listens on; default the only one that it exposes"`
	TLS          string             `json:"tls" doc:"a certificate in the host's own store; default plain HTTP"`
	RedirectHTTP bool               `json:"redirect_http" doc:"plain HTTP is sent to HTTPS; default false"`
	MaxBody      types.UnitBytes    `json:"max_body" doc:"the largest request, such as 10m; default no limit"`
	HeaderWait   fleet.DurationText `json:"header_wait" doc:"how long the service may take to begin its answer, at most 24h; default 1m"`
	ForwardAuth  string             `json:"forward_auth" doc:"URL of the service that is asked about each request; default none"`
}

type snapshotDecl struct {
	Service string   `json:"service" doc:"the service whose container is captured; default the one that has the snapshot"`
	Ref     string   `json:"ref" doc:"the name of the image"`
	Take    int64    `json:"take" doc:"a number that is raised to have the image taken again; default 0"`
	Live    bool     `json:"live" doc:"the container is not paused meanwhile; default false"`
	Keep    []string `json:"keep" doc:"environment names that are kept although they may hold secrets"`
}

type imageDecl struct {
	Load string `json:"load" doc:"an archive of docker save, in the folder of the bundle"`
	Ref  string `json:"ref" doc:"the name of the image in it"`
}

// readSteady decodes the extension at the top, and gives services that run from
// a snapshot the image that the library asks for.
func (l *load) readSteady() bool {
	l.former = map[string]string{}
	if v, ok := l.model[steadyKey]; ok && !l.decode(v, []string{steadyKey}, &l.steady) {
		return false
	}
	services, _ := l.model["services"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(services)) {
		service, _ := services[name].(map[string]any)
		at := []string{"services", name, steadyKey}
		var s serviceSteady
		if v, ok := service[steadyKey]; !ok || !l.decode(v, at, &s) {
			continue
		}
		if s.Workspace != "" {
			l.former[name] = s.Workspace
		}
		if s.FromSnapshot == "" {
			continue
		}
		if service["image"] != nil || service["build"] != nil {
			l.addf(at, "from_snapshot together with image or build: expected one of them")
		}
		service["image"] = "scratch" // never used: imageOf takes the snapshot
	}
	return !l.fatal()
}

func (l *load) decode(v any, at []string, into any) bool {
	raw, err := json.Marshal(v)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		err = d.Decode(into)
	}
	if err == nil {
		return true
	}
	words := strings.TrimPrefix(err.Error(), "json: ")
	if key, ok := strings.CutPrefix(words, "unknown field "); ok {
		words = "unknown key " + key
		at = find(v, at, strings.Trim(key, `"`))
	}
	l.addf(at, "%s: %s: expected what the description of %s lists", steadyKey, words, steadyKey)
	return false
}

// find is where a key is below a value.
func find(v any, at []string, key string) []string {
	var found []string
	below(v, at, func(_ any, here []string) bool {
		if found == nil && here[len(here)-1] == key {
			found = here
		}
		return found == nil
	})
	if found == nil {
		return at
	}
	return found
}

func (l *load) steadyOf(s *types.ServiceConfig) serviceSteady {
	var out serviceSteady
	if v, ok := s.Extensions[steadyKey]; ok {
		l.decode(v, []string{"services", s.Name, steadyKey}, &out)
	}
	return out
}

func (l *load) applySteady(w *spec.Workspace, s *types.ServiceConfig, x *serviceSteady) {
	at := []string{"services", s.Name, steadyKey}
	if x.State != "" {
		w.State = x.State
	}
	w.ReportOnly = x.ReportOnly
	if x.Update.Order != "" {
		w.Update.Order = x.Update.Order
	}
	if x.Update.Monitor.Set {
		w.Update.Monitor = x.Update.Monitor.Duration
	}
	if x.Update.HealthWait.Set {
		w.Update.HealthWait = x.Update.HealthWait.Duration
	}
	for _, name := range slices.Sorted(maps.Keys(x.Secrets)) {
		i := slices.IndexFunc(w.Env, func(e spec.Env) bool { return e.Name == name })
		if i >= 0 {
			l.addf(append(at, "secrets", name), "variable %s is also under environment: expected it once", name)
			continue
		}
		w.Env = append(w.Env, spec.Env{Name: name, Secret: x.Secrets[name]})
	}
}

func (l *load) routesOf(s *types.ServiceConfig, names []string, x *serviceSteady) {
	at := []string{"services", s.Name, steadyKey}
	routes := x.Routes
	if x.Route != nil {
		routes = append([]routeDecl{*x.Route}, routes...)
	}
	if (len(routes) > 0 || x.Snapshot != nil) && len(names) != 1 {
		l.addf(at, "routes and snapshots of a service with %d replicas: expected one replica", len(names))
		return
	}
	for i, r := range routes {
		name := s.Name
		if i > 0 {
			name = fmt.Sprintf("%s-%d", s.Name, i+1)
		}
		if r.Service != "" && r.Service != s.Name {
			l.addf(at, "a route of service %q under %q: expected it there, or under %s at the top", r.Service, s.Name, steadyKey)
		}
		l.route(name, s.Name, r, at)
	}
	if x.Snapshot != nil {
		l.snapshot(s.Name, s.Name, *x.Snapshot)
	}
}

// route adds a route; a port may be left out where the service exposes one alone.
func (l *load) route(name, workspace string, r routeDecl, at []string) {
	if r.Port == 0 {
		r.Port = l.onlyPort(workspace)
		if r.Port == 0 {
			l.addf(at, "route %q has no port, and service %q has not exactly one: expected port", name, workspace)
		}
	}
	l.set.Routes = append(l.set.Routes, spec.Route{
		Name: name, Host: r.Host, Path: r.Path, StripPath: r.StripPath, Workspace: workspace, Port: r.Port, TLS: r.TLS,
		RedirectHTTP: r.RedirectHTTP, MaxBody: int64(r.MaxBody), HeaderWait: r.HeaderWait.Or(clock.Duration(0)), ForwardAuth: r.ForwardAuth,
	})
}

func (l *load) onlyPort(service string) int {
	s, ok := l.project.Services[service]
	if !ok {
		return 0
	}
	found := map[int]bool{}
	for _, p := range s.Ports {
		found[int(p.Target)] = true
	}
	for _, e := range s.Expose {
		var n int
		if _, err := fmt.Sscanf(e, "%d", &n); err == nil {
			found[n] = true
		}
	}
	if len(found) != 1 {
		return 0
	}
	return slices.Collect(maps.Keys(found))[0]
}

func (l *load) snapshot(name, workspace string, d snapshotDecl) {
	l.set.Snapshots = append(l.set.Snapshots, spec.Snapshot{
		Name: name, Workspace: workspace, Ref: d.Ref, Take: d.Take, Live: d.Live, Keep: d.Keep,
	})
}

func (l *load) topRoutes() {
	for _, name := range slices.Sorted(maps.Keys(l.steady.Routes)) {
		r, at := l.steady.Routes[name], []string{steadyKey, "routes", name}
		r.Service = l.names.of("services", r.Service)
		if _, ok := l.project.Services[r.Service]; !ok {
			l.addf(at, "route %q leads to service %q, which is not declared: expected service with the name of one", name, r.Service)
			continue
		}
		l.route(name, r.Service, r, at)
	}
	for _, name := range slices.Sorted(maps.Keys(l.steady.Snapshots)) {
		d, at := l.steady.Snapshots[name], []string{steadyKey, "snapshots", name}
		d.Service = l.names.of("services", d.Service)
		if _, ok := l.project.Services[d.Service]; !ok {
			l.addf(at, "snapshot %q is of service %q, which is not declared: expected service with the name of one", name, d.Service)
			continue
		}
		l.snapshot(name, d.Service, d)
	}
}
