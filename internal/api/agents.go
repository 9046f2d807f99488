package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// Bounds that are not of the protocol.
const (
	bodyTimeout   = 30 * time.Second
	answerTimeout = 30 * time.Second
	slowest       = 64 << 10 // bytes a second that a reader must take
)

// AgentRoutes serves the agent API.
type AgentRoutes struct {
	c      *control.Control
	log    *slog.Logger
	mux    *http.ServeMux
	routes []Route
	enrols chan struct{} // enrolments under way
	queue  chan struct{} // those and the ones that wait
}

// Route is one route. Peer says that it is for hosts with a certificate; the
// others prove themselves with a token in the body.
type Route struct {
	Method, Path string // Path as http.ServeMux takes it
	Peer         bool
}

// NewAgentRoutes serves hosts.
func NewAgentRoutes(c *control.Control, log *slog.Logger) *AgentRoutes {
	h := &AgentRoutes{c: c, log: log, mux: http.NewServeMux(),
		enrols: make(chan struct{}, maxEnrols), queue: make(chan struct{}, maxEnrolQueue)}
	h.peer("GET", wire.RouteDispatch, h.dispatch)
	h.peer("POST", wire.RouteClaim, asks(h.c.Claim))
	h.peer("POST", wire.RouteEvents, h.events)
	h.peer("POST", wire.RouteHeartbeat, h.heartbeat)
	h.peer("GET", wire.RouteManaged, h.managed)
	h.peer("GET", wire.RouteSecrets, h.secrets)
	h.peer("POST", wire.RouteStreams+"{id}", h.stream)
	h.peer("POST", wire.RouteRenew, asks(h.c.Renew))
	h.peer("GET", wire.RouteRollouts+"{rollout}", h.rollout)
	h.peer("GET", wire.RouteBundles+"{digest}", h.content)
	h.peer("GET", wire.RouteBlobs+"{digest}", h.content)
	h.peer("GET", wire.RouteNars+"{digest}", h.nar)
	h.open("GET", wire.RouteTrust+"{file}", h.trustFile) // a new host needs the root before it has a certificate
	h.open("POST", wire.RouteEnrol, joins(h, h.enrol))
	h.open("POST", wire.RouteBootstrapReport, joins(h, h.bootstrapReport))
	return h
}

// Routes lists every route.
func (h *AgentRoutes) Routes() []Route { return h.routes }

// ServeHTTP implements http.Handler.
func (h *AgentRoutes) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.mux.ServeHTTP(w, r) }

type peerFunc func(http.ResponseWriter, *http.Request, *control.Peer) error

func (h *AgentRoutes) peer(method, path string, f peerFunc) {
	h.route(Route{method, path, true}, func(w http.ResponseWriter, r *http.Request) error {
		p, err := h.identify(r)
		if err != nil {
			return err
		}
		end, ok := p.Begin()
		if !ok {
			return &statusError{http.StatusTooManyRequests, "too many requests of host " + p.Name + " at a time"}
		}
		defer end()
		return f(w, r, p)
	})
}

func (h *AgentRoutes) open(method, path string, f func(http.ResponseWriter, *http.Request) error) {
	h.route(Route{method, path, false}, f)
}

func (h *AgentRoutes) route(route Route, f func(http.ResponseWriter, *http.Request) error) {
	h.routes = append(h.routes, route)
	h.mux.HandleFunc(route.Method+" "+route.Path, func(w http.ResponseWriter, r *http.Request) {
		err := accept(w, r)
		if err == nil {
			err = h.c.Admits()
		}
		if err == nil {
			deadlines(w, 0)
			err = f(&answers{w, h.c.Served}, r)
		}
		if err != nil {
			h.refuse(w, r, err)
		}
	})
}

// answers tells with the first byte of an answer for how long the server has served, which is
// not what it was when a long-poll began.
type answers struct {
	http.ResponseWriter
	served func() time.Duration
}

// Unwrap is for http.ResponseController.
func (a *answers) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answers) WriteHeader(status int) {
	a.Header().Set(wire.Served, strconv.FormatInt(int64(a.served()/time.Second)+1, 10))
	a.ResponseWriter.WriteHeader(status)
}

// accept checks what is the same on every route.
func accept(w http.ResponseWriter, r *http.Request) error {
	version, err := wire.Known.Speak(r.Header.Get(wire.Protocol))
	if err != nil {
		return &statusError{http.StatusBadRequest, err.Error()}
	}
	w.Header().Set(wire.Protocol, strconv.Itoa(version))
	if r.Header.Get("Content-Encoding") != "" {
		return &statusError{http.StatusUnsupportedMediaType, "bodies are accepted only without Content-Encoding"}
	}
	return nil
}

// identify is the one check of who calls. Headers that proxies set are not read.
func (h *AgentRoutes) identify(r *http.Request) (*control.Peer, error) {
	if _, err := identity.PeerHost(r.TLS, h.c.Fleet()); err != nil {
		return nil, &statusError{http.StatusUnauthorized, err.Error()}
	}
	return h.c.Identify(r.Context(), r.TLS.PeerCertificates[0])
}

// deadlines bounds the exchange: the body must arrive and the answer of size
// bytes be taken in time.
func deadlines(w http.ResponseWriter, size int64) {
	rc, now := http.NewResponseController(w), time.Now()
	// A writer without deadlines, as in a test, goes without.
	_ = rc.SetReadDeadline(now.Add(bodyTimeout))
	_ = rc.SetWriteDeadline(now.Add(answerTimeout + time.Duration(size/slowest)*time.Second))
}

// read reads and decodes a body of at most limit bytes. Its text is a host's own, or of
// whoever wants to be one: it is cleaned here for all that show it. Events keep the
// bytes that the host signed, and are cleaned as they are decoded.
func read(r *http.Request, limit int64, into any) error {
	raw, err := wire.Read(r.Body, limit)
	if err == nil {
		if _, signed := into.(*wire.EventBatch); !signed {
			raw = prose.JSON(raw)
		}
		err = wire.Decode(raw, into)
	}
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return &statusError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than the %d bytes that this route accepts", limit)}
	case err != nil:
		return &statusError{http.StatusBadRequest, err.Error()}
	}
	return nil
}

// answer writes a JSON value.
func answer(w http.ResponseWriter, status int, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	send(w, status, "application/json", raw)
	return nil
}

func send(w http.ResponseWriter, status int, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller is gone: nobody is left to tell
}

// statusError is an error with its status.
type statusError struct {
	status  int
	message string
}

func (e *statusError) Error() string { return e.message }

// refuse answers with a problem.
func (h *AgentRoutes) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the caller is gone
	}
	status := statusOf(err)
	h.c.CountRefusal("agent", status)
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		after := clock.Second
		if r := (*wire.Refusal)(nil); errors.As(err, &r) {
			after = max(after, r.After+clock.Second-1)
		}
		w.Header().Set("Retry-After", strconv.FormatInt(int64(after/clock.Second), 10))
	}
	if status >= http.StatusInternalServerError {
		h.log.Warn("a request of an agent failed", "route", r.Pattern, "status", status, "err", err)
	}
	p := wire.Problem{Title: http.StatusText(status), Status: status, Detail: err.Error()}
	if status == http.StatusInternalServerError {
		p.Detail = "the server failed; its log says why"
	}
	raw, err := json.Marshal(p)
	if err != nil {
		raw = []byte("{}")
	}
	send(w, status, "application/problem+json", raw)
}

func statusOf(err error) int {
	var r *statusError
	switch {
	case errors.As(err, &r):
		return r.status
	case errors.Is(err, wire.ErrForbidden):
		return http.StatusForbidden
	case errors.Is(err, wire.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, wire.ErrConflict):
		return http.StatusConflict
	case errors.Is(err, wire.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, wire.ErrTooMuch):
		return http.StatusTooManyRequests
	case errors.Is(err, wire.ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
