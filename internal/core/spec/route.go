package spec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Route leads requests of a host name and path to a workspace's port through
// the agent's own router.
type Route struct {
	Name         string         `json:"name"`
	Host         string         `json:"host,omitempty" example:"app.example.org" doc:"name of the host that requests are for; by default any"`
	Path         string         `json:"path,omitempty" example:"/api" doc:"how paths begin; by default /"`
	StripPath    bool           `json:"stripPath,omitempty"`
	Workspace    string         `json:"workspace" required:"true" example:"web" doc:"the workspace that answers"`
	Port         int            `json:"port" required:"true" example:"8080" doc:"that it listens on"`
	TLS          string         `json:"tls,omitempty" doc:"a certificate in the host's own store; by default plain HTTP"`
	RedirectHTTP bool           `json:"redirectHTTP,omitempty"`
	MaxBody      int64          `json:"maxBody,omitempty" doc:"bytes; 0: no limit"`
	HeaderWait   clock.Duration `json:"headerWait,omitempty"`
	ForwardAuth  string         `json:"forwardAuth,omitempty" doc:"URL of the service that is asked about each request"`
}

func (r *Route) Named() *string { return &r.Name }

func (r *Route) Normalize() {
	r.Host = strings.ToLower(strings.TrimSuffix(r.Host, "."))
	if r.Path == "/" {
		r.Path = ""
	}
}

func (r *Route) Needs() []Need {
	return []Need{{ID{KindWorkspace, r.Workspace}, Started, true}}
}

func (r *Route) Blobs() []Blob   { return nil }
func (r *Route) Confine(*Bounds) {}
func (r *Route) Unique() string  { return "" }

func (r *Route) Claims(NameMapper) []Claim {
	x := *r
	x.Normalize()
	return []Claim{{What: fmt.Sprintf("host name %q of routes", x.Host)}}
}

func (r *Route) Check(c Checker) {
	checkName(c.In("workspace"), r.Workspace)
	if r.Port < 1 || r.Port > 65535 {
		c.In("port").Addf("port %d: expected 1 to 65535", r.Port)
	}
	if !validHost(r.Host) {
		c.In("host").Addf("host %q: expected a host name such as app.example.org, or nothing for any", r.Host)
	}
	if r.Path != "" && (!strings.HasPrefix(r.Path, "/") || strings.ContainsAny(r.Path, "?#\x00 \t\r\n") || len(r.Path) > 1024) {
		c.In("path").Addf("path %q: expected a prefix that begins with /", r.Path)
	}
	checkText(c, r.TLS, r.ForwardAuth)
	if r.ForwardAuth != "" && !strings.HasPrefix(r.ForwardAuth, "http://") && !strings.HasPrefix(r.ForwardAuth, "https://") {
		c.In("forwardAuth").Addf("%q: expected an http or https URL", r.ForwardAuth)
	}
	if r.RedirectHTTP && r.TLS == "" {
		c.In("redirectHTTP").Addf("there is no certificate to redirect to: expected tls as well")
	}
	checkSize(c, "maxBody", r.MaxBody)
	checkSize(c, "headerWait", int64(r.HeaderWait))
}

func validHost(h string) bool {
	if h == "" {
		return true
	}
	h = strings.TrimSuffix(h, ".")
	if len(h) > 253 {
		return false
	}
	for label := range strings.SplitSeq(strings.ToLower(h), ".") {
		ok := label != "" && len(label) <= 63 && label[0] != '-' && label[len(label)-1] != '-'
		for i := range len(label) {
			b := label[i]
			ok = ok && (b >= 'a' && b <= 'z' || b >= '0' && b <= '9' || b == '-' || b == '_')
		}
		if !ok {
			return false
		}
	}
	return true
}

func (r *Route) CheckBounds(b *Bounds, c Checker) {
	if r.ForwardAuth != "" {
		c.In("forwardAuth").Addf("the agent would send requests to %q from inside the host's network: expected none in the managed layer", r.ForwardAuth)
	}
	var may RouteBounds
	if b.Routes != nil {
		may = *b.Routes
	}
	if !slices.ContainsFunc(may.Hosts, func(allowed string) bool { return serves(allowed, r.Host) }) {
		c.In("host").Addf("a route for host name %q is not allowed here: expected one of %q (bounds.routes.hosts)", r.Host, may.Hosts)
	}
	if r.TLS != "" && !slices.Contains(may.Certificates, r.TLS) {
		c.In("tls").Addf("certificate %q of the host is not allowed here: expected one of %q (bounds.routes.certificates)", r.TLS, may.Certificates)
	}
}

func serves(allowed, name string) bool {
	if below, ok := strings.CutPrefix(allowed, "*."); ok {
		first, rest, found := strings.Cut(name, ".")
		return found && first != "" && strings.EqualFold(rest, below)
	}
	return allowed == "*" || name != "" && strings.EqualFold(allowed, name)
}
