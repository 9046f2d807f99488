// Package operations serves the operator API (see package operator): routes with
// a permission each, a bearer token or a login's cookie on every request, and their
// description in OpenAPI 3.1.
package operations

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/steadyfleet/steady/internal/api/live"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/wire"
)

// Permission says who may use a route. The zero Permission admits nobody: a
// route without one is refused.
type Permission struct {
	Roles []operator.Role // any of them; admin always may
	// Anyone needs no token.
	Anyone bool
	// Local admits a caller on this machine without a token.
	Local bool
	// Signed needs no token: the route itself checks a signature over the body.
	Signed bool
	// Lasting refuses logins: it needs the token itself.
	Lasting bool
	// Why names what the other roles are kept from.
	Why string
}

var (
	viewing   = Permission{Roles: []operator.Role{operator.Viewer, operator.Operator, operator.Releaser}}
	operating = Permission{Roles: []operator.Role{operator.Operator}}
	streaming = Permission{Roles: operating.Roles, Why: "what programs print may hold secrets, and a stream reaches into a host; it takes the role operator"}
	releasing = Permission{Roles: []operator.Role{operator.Releaser}}
	admin     = Permission{Roles: []operator.Role{operator.Admin}}
	anyone    = Permission{Anyone: true}
	signed    = Permission{Signed: true}
	measuring = Permission{Roles: viewing.Roles, Local: true}
	lasting   = Permission{Roles: viewing.Roles, Lasting: true}
)

// Admits reports whether a role may use the route.
func (p Permission) Admits(r operator.Role) bool {
	return p.Anyone || len(p.Roles) > 0 && (r == operator.Admin || slices.Contains(p.Roles, r))
}

// Who names the roles that may use the route, in words.
func (p Permission) Who() string {
	switch {
	case p.Anyone:
		return "anybody"
	case p.Signed:
		return "whoever signs the body, or has the token that the route names"
	case len(p.Roles) == 0:
		return "nobody"
	}
	var may []string
	for _, r := range []operator.Role{operator.Viewer, operator.Operator, operator.Releaser, operator.Admin} {
		if p.Admits(r) {
			may = append(may, string(r))
		}
	}
	words := strings.Join(may, ", ")
	switch {
	case p.Local:
		words += "; without a token from this machine"
	case p.Lasting:
		words += "; with the token itself, not a login"
	}
	return words
}

// describe makes the description name who may use the route.
func (p Permission) describe(op *huma.Operation) {
	op.Description = "For " + p.Who() + "."
	if p.Anyone || p.Signed {
		op.Security = []map[string][]string{}
	}
}

// Handler serves the operator API.
type Handler struct {
	c        *control.Control
	log      *slog.Logger
	serverCA []byte
	mux      *http.ServeMux
	api      huma.API
	routes   []Route
	streams  chan struct{} // that are open
	hooks    chan struct{} // requests whose body is being read
	origins  *http.CrossOriginProtection
	live     *live.Hub
	workers  *workers
	devices  Devices               // nil: nobody is asked
	topics   map[string]Permission // of the patterns of routes that streams follow
}

// maxStreams bounds the streams of events that are open at a time: each costs a
// connection's memory and a reader of the log.
const maxStreams = 512

// Route is one route with the id of its operation and its permission.
type Route struct {
	ID, Method, Path string
	Permission       Permission
}

// New returns the handler. ServerCA is the PEM of the authority behind the
// server's certificate, for new hosts.
func New(c *control.Control, serverCA []byte, log *slog.Logger) *Handler {
	h := described(c)
	h.log, h.serverCA = log, serverCA
	h.live = live.New(live.Config{Head: func() uint64 { return c.Head().Seq }, Now: c.Now, Answer: h.answer, Stopping: c.Stopping()})
	h.workers = newWorkers(c.Stopping(), func(id string) { h.live.Moved("/forecasts/" + id) })
	return h
}

// Description is the description of the operator API in OpenAPI, as a server of this version serves it.
// No route of its handler is ever called: nothing is behind it.
func Description() ([]byte, error) { return json.Marshal(described(&control.Control{}).api.OpenAPI()) }

// described is a handler whose routes are registered.
func described(c *control.Control) *Handler {
	h := &Handler{c: c, mux: http.NewServeMux(), streams: make(chan struct{}, maxStreams), hooks: make(chan struct{}, maxHooks),
		origins: http.NewCrossOriginProtection(), topics: map[string]Permission{}}
	conf := huma.DefaultConfig("Steady operator API", "1")
	conf.CreateHooks = nil // no links to schemas in answers
	conf.OpenAPIPath, conf.DocsPath, conf.SchemasPath = "", "", ""
	conf.RejectUnknownQueryParameters = true
	conf.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	conf.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"},
		"login": {Type: "apiKey", In: "cookie", Name: operator.LoginCookie}}
	conf.Security = []map[string][]string{{"token": {}}, {"login": {}}}
	h.api = humago.New(h.mux, conf)
	h.api.UseMiddleware(h.authorize)
	h.reading()
	h.changing()
	h.logins()
	h.managing()
	h.splicing()
	h.following()
	h.forecasting()
	h.nodes()
	h.sessions()
	h.attending()
	h.bin()
	h.raw("send-content", http.MethodPut, operator.RouteContent+"/{digest}", "Send the archive of a store path, or the rest of it", releasing, h.receiveContent)
	h.raw("push-release", http.MethodPost, operator.RoutePush, "Push a packed release (tar)", releasing, h.push)
	h.raw("newest-release", http.MethodGet, operator.RouteNewest, "The newest accepted release with all of its files, packed (tar)", releasing, h.newest)
	h.raw("hook-release", http.MethodPost, operator.RouteHook, "Look at the sources of releases now; signed as GitHub, Gitea and Forgejo sign webhooks", signed, h.hook)
	h.raw("stream-events", http.MethodGet, operator.RouteStream, "Follow the log as server-sent events", viewing, h.stream)
	h.raw("read-history", http.MethodGet, operator.RouteHistory, "The whole log with the signed documents that it names, as JSON lines", viewing, h.history)
	h.raw("metrics", http.MethodGet, operator.RouteMetrics, "Prometheus metrics", measuring, h.metrics)
	h.raw("health", http.MethodGet, operator.RouteHealth, "Whether the process is alive and able; 503 says why not", anyone, h.health)
	h.raw("readiness", http.MethodGet, operator.RouteReady, "Whether the server can take in and grant anything; 503 says why not", anyone, h.ready)
	h.raw("openapi", http.MethodGet, operator.RouteOpenAPI, "This description", anyone, h.openAPI)
	return h
}

// schemaName tells what sessions and gates call as others do, such as Phase and Remedy, apart.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if strings.HasSuffix(t.PkgPath(), "/core/session") || strings.HasSuffix(t.PkgPath(), "/core/place") {
		return "Session" + name
	}
	if strings.HasSuffix(t.PkgPath(), "/core/gate") && t.Name() == "Remedy" {
		return "Gate" + name
	}
	return name
}

// Routes lists every route with its permission.
func (h *Handler) Routes() []Route { return h.routes }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")               // a browser keeps nothing of what a login shows
	if _, err := url.ParseQuery(r.URL.RawQuery); err != nil { // Query leaves out what it cannot read
		h.problem(w, refused(http.StatusUnprocessableEntity, "the query cannot be read: "+err.Error()))
		return
	}
	h.mux.ServeHTTP(w, r)
}

const permissionKey = "permission"

type actorKey struct{}

// body is an answer, none is no answer.
type (
	body[T any] struct{ Body T }
	none        struct{}
)

// add registers a described route that answers with a T. One without a permission is
// registered too and refuses everybody.
func add[I, T any](h *Handler, op huma.Operation, p Permission, f func(context.Context, *I) (T, error)) {
	register(h, op, p, func(ctx context.Context, in *I) (*body[T], error) {
		out, err := f(ctx, in)
		return &body[T]{out}, err
	})
}

// do registers a described route that only does something.
func do[I any](h *Handler, op huma.Operation, p Permission, f func(context.Context, *I) error) {
	op.DefaultStatus = http.StatusNoContent
	register(h, op, p, func(ctx context.Context, in *I) (*none, error) { return &none{}, f(ctx, in) })
}

// verb registers what an operator may decide about rollouts, bundles and hosts: what it
// makes of the state is committed and planned at once. Errors are *plan.VerbError.
func verb[I any](h *Handler, id, path, summary string, decide func(s *plan.State, in *I, actor string, now clock.Instant) ([]event.Entry, error)) {
	do(h, post(id, path, summary), operating, func(ctx context.Context, in *I) error {
		return h.c.Operate(ctx, func(s *plan.State, now clock.Instant) ([]event.Entry, error) { return decide(s, in, actor(ctx), now) })
	})
}

// get and post describe routes, the latter of a small message.
func get(id, path, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary}
}

func post(id, path, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, MaxBodyBytes: 64 << 10}
}

func register[I, O any](h *Handler, op huma.Operation, p Permission, f func(context.Context, *I) (*O, error)) {
	op.Metadata = map[string]any{permissionKey: p}
	op.Path = operator.Prefix + op.Path
	p.describe(&op)
	h.routes = append(h.routes, Route{op.OperationID, op.Method, op.Path, p})
	if op.Method == http.MethodGet && !slices.Contains(personal, op.OperationID) {
		h.topics[op.Method+" "+op.Path] = p
	}
	huma.Register(h.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := f(ctx, in)
		if err != nil {
			refused := h.refusal(err)
			if !isAnswer(ctx) {
				h.c.CountRefusal("operator", refused.Status)
			}
			if r := (*wire.Refusal)(nil); errors.As(err, &r) && r.After > 0 {
				return nil, huma.ErrorWithHeaders(refused, http.Header{"Retry-After": {strconv.FormatInt(int64((r.After+clock.Second-1)/clock.Second), 10)}})
			}
			return nil, refused
		}
		return out, nil
	})
}

// raw registers a route whose body is not JSON, and describes it.
func (h *Handler) raw(id, method, path, summary string, p Permission, f http.HandlerFunc) {
	op := huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary,
		Responses: map[string]*huma.Response{"200": {Description: "OK"}, "default": {Description: "Error"}}}
	p.describe(&op)
	h.routes = append(h.routes, Route{op.OperationID, op.Method, op.Path, p})
	h.api.OpenAPI().AddOperation(&op)
	h.mux.HandleFunc(op.Method+" "+op.Path, func(w http.ResponseWriter, r *http.Request) {
		actor, refused := h.admit(r, p)
		if refused != nil {
			h.problem(w, refused)
			return
		}
		f(w, r.WithContext(context.WithValue(r.Context(), actorKey{}, actor)))
	})
}

// authorize is the middleware of every described route.
func (h *Handler) authorize(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	p, _ := ctx.Operation().Metadata[permissionKey].(Permission)
	actor, refused := h.admit(r, p)
	if refused != nil {
		h.problem(w, refused)
		return
	}
	next(huma.WithValue(ctx, actorKey{}, actor))
}

// admit decides who the caller is and whether it may. What a browser sends for the page of
// another site is refused, whoever it is from.
func (h *Handler) admit(r *http.Request, p Permission) (control.Operator, *huma.ErrorModel) {
	if isAnswer(r.Context()) { // who looks at it was admitted
		return control.Operator{}, nil
	}
	if fromElsewhere(r) || h.origins.Check(r) != nil {
		return control.Operator{}, refused(http.StatusForbidden, otherSite)
	}
	if p.Anyone || p.Local && fromHere(r) {
		return control.Operator{}, nil
	}
	if err := h.c.Admits(); err != nil {
		return control.Operator{}, h.refusal(err)
	}
	if p.Signed {
		return control.Operator{}, nil
	}
	who, no := h.caller(r)
	switch {
	case no != nil:
		return control.Operator{}, no
	case !p.Admits(operator.Role(who.Role)):
		words := "token " + who.Name + " has role " + who.Role + ", which does not allow this"
		if p.Why != "" {
			words += ": " + p.Why
		}
		return control.Operator{}, refused(http.StatusForbidden, words)
	case p.Lasting && who.ByLogin():
		return control.Operator{}, refused(http.StatusForbidden, "a login does not allow this: it needs the token itself")
	}
	return who, nil
}

func fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && net.ParseIP(host).IsLoopback()
}

func actor(ctx context.Context) string {
	who, _ := ctx.Value(actorKey{}).(control.Operator)
	return who.Name + " (" + who.ID + ")"
}

func refused(status int, words string) *huma.ErrorModel {
	return &huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: words}
}

func (h *Handler) problem(w http.ResponseWriter, e *huma.ErrorModel) {
	h.c.CountRefusal("operator", e.Status)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(e) // the caller is gone
}

// refusal gives an error of the runtime its status.
func (h *Handler) refusal(err error) *huma.ErrorModel {
	var verb *plan.VerbError
	var worded *huma.ErrorModel
	status := http.StatusInternalServerError
	switch {
	case errors.As(err, &worded):
		return worded
	case errors.As(err, &verb) && verb.Unknown:
		status = http.StatusNotFound
	case errors.As(err, &verb), errors.Is(err, wire.ErrConflict):
		status = http.StatusConflict
	case errors.Is(err, wire.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, wire.ErrInvalid):
		status = http.StatusUnprocessableEntity
	case errors.Is(err, wire.ErrForbidden):
		status = http.StatusForbidden
	case errors.Is(err, wire.ErrTooMuch):
		status = http.StatusTooManyRequests
	case errors.Is(err, wire.ErrUnavailable):
		status = http.StatusServiceUnavailable
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		status = http.StatusServiceUnavailable
	default:
		h.log.Error("a request of an operator failed", "err", err)
		return refused(status, "the server failed; its log says why")
	}
	e := refused(status, err.Error())
	if r, ok := errors.AsType[*wire.Refusal](err); ok {
		for _, p := range r.Problems {
			e.Errors = append(e.Errors, &huma.ErrorDetail{Location: strings.Join(p.Path, "."), Message: p.Message})
		}
	}
	return e
}
