package router

import (
	"fmt"
	"net/url"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Limits and defaults of a route.
const (
	MaxRoutes      = 4096
	DefaultMaxBody = 1 << 30
	Unlimited      = -1

	DefaultHeaderTimeout = 60 * clock.Second
	DefaultIdleTimeout   = 15 * clock.Minute
	MaxTimeout           = clock.Day

	maxPath = 1024
)

// Route leads requests for one host name and path to one port of a workspace.
type Route struct {
	Name string `json:"name"`
	// Host is an exact host name or address, without a port; "" is any host. A
	// name outside ASCII is kept in its xn-- form.
	Host string `json:"host,omitempty"`
	// Path is a prefix that ends at a segment: /api takes /api and /api/x, not
	// /apix. "" is "/".
	Path string `json:"path"`
	// StripPath takes Path off before the workspace sees the request, which
	// then has X-Forwarded-Prefix.
	StripPath bool `json:"stripPath,omitempty"`
	// TLS names a certificate; "" serves plain HTTP only. With a name the route
	// is served on both, unless RedirectHTTP sends plain HTTP to HTTPS.
	TLS          string `json:"tls,omitempty"`
	RedirectHTTP bool   `json:"redirectHTTP,omitempty"`
	// Upstream is the key of Router.SetUpstream, usually the workspace's name.
	Upstream string `json:"upstream"`
	Port     int    `json:"port"`
	// MaxBody is the longest request body in bytes; 0 is DefaultMaxBody.
	MaxBody  int64    `json:"maxBody,omitempty"`
	Timeouts Timeouts `json:"timeouts"`
	// ForwardAuth is an http or https address that is asked about each request:
	// 2xx lets it pass, any other answer goes to the client as it is. No header of
	// an answer that lets pass is copied, and what the client itself says of who it
	// is reaches neither the one asked nor the workspace.
	ForwardAuth string `json:"forwardAuth,omitempty"`
}

// Timeouts of a route in milliseconds; 0 is the default.
type Timeouts struct {
	// Header is the longest wait for the response header after the request was
	// sent, and for the answer of ForwardAuth.
	Header clock.Duration `json:"headerMs"`
	// Idle is the longest silence in both directions of a request, a stream or
	// an upgraded connection.
	Idle clock.Duration `json:"idleMs"`
}

// Problem is one reason why a route is not in the table.
type Problem struct {
	Route string // name, or its index in brackets when the name is wrong
	Field string
	Text  string // cause and next step
}

func (p Problem) Error() string {
	return fmt.Sprintf("route %s: %s: %s", p.Route, p.Field, p.Text)
}

// normal returns the route in its one written form, with every default filled
// in, and what is wrong with it.
func normal(i int, r Route) (Route, []Problem) {
	var out []Problem
	name := r.Name
	if !validName(name) {
		name = fmt.Sprintf("[%d]", i)
	}
	add := func(field, format string, args ...any) {
		out = append(out, Problem{Route: name, Field: field, Text: fmt.Sprintf(format, args...)})
	}
	if !validName(r.Name) {
		add("name", "%q is not a name: use lower-case letters, digits, '.', '_' and '-', at most 63", r.Name)
	}
	var err error
	if r.Host != "" {
		if r.Host, err = routeHost(r.Host); err != nil {
			add("host", "%v", err)
		}
	}
	if r.Path, err = routePath(r.Path); err != nil {
		add("path", "%v", err)
	}
	if r.TLS != "" && !validName(r.TLS) {
		add("tls", "%q cannot name a certificate: use the name of its .crt and .key file", r.TLS)
	}
	if r.RedirectHTTP && r.TLS == "" {
		add("redirectHTTP", "leads to HTTPS, which has no certificate here: set tls")
	}
	if !validName(r.Upstream) {
		add("upstream", "%q is not the name of a workspace", r.Upstream)
	}
	if r.Port < 1 || r.Port > 65535 {
		add("port", "%d is not a port: use 1 to 65535", r.Port)
	}
	if r.MaxBody == 0 {
		r.MaxBody = DefaultMaxBody
	}
	if r.MaxBody < Unlimited {
		add("maxBody", "%d is not a size: use bytes, or -1 for no limit", r.MaxBody)
	}
	r.Timeouts.Header = timeout(r.Timeouts.Header, DefaultHeaderTimeout, "timeouts.header", add)
	r.Timeouts.Idle = timeout(r.Timeouts.Idle, DefaultIdleTimeout, "timeouts.idle", add)
	r.checkAuth(add)
	return r, out
}

type report func(field, format string, args ...any)

func timeout(d, byDefault clock.Duration, field string, add report) clock.Duration {
	if d == 0 {
		return byDefault
	}
	if d < 0 || d > MaxTimeout {
		add(field, "%v is out of bounds: use more than 0 and at most %v", d, MaxTimeout)
	}
	return d
}

func (r *Route) checkAuth(add report) {
	if r.ForwardAuth == "" {
		return
	}
	u, err := url.Parse(r.ForwardAuth)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.Fragment != "" {
		add("forwardAuth", "%q is not an address to ask: use http://HOST:PORT/PATH without user or fragment", r.ForwardAuth)
	}
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func validName(s string) bool {
	for i, c := range []byte(s) {
		lower := '0' <= c && c <= '9' || 'a' <= c && c <= 'z'
		if !lower && (i == 0 || (c != '.' && c != '_' && c != '-')) {
			return false
		}
	}
	return s != "" && len(s) <= 63
}
