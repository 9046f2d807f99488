package table

import (
	"path"
)

// TraefikOptions name what the table does not know of a Traefik.
type TraefikOptions struct {
	HTTP, HTTPS string // entry points; "web" and "websecure"
	Folder      string // of NAME.crt and NAME.key as Traefik sees it
}

// node is an object of a configuration; absent maps stay absent, because
// Traefik refuses empty ones.
type node = map[string]any

// Traefik writes the table for Traefik's file provider (version 3), as JSON,
// which is YAML as well: give the file a .yml name.
func (t Table) Traefik(where Addresses, o TraefikOptions) (Exported, error) {
	if o.HTTP == "" {
		o.HTTP = "web"
	}
	if o.HTTPS == "" {
		o.HTTPS = "websecure"
	}
	x := traefik{o: o, routers: node{}, services: node{}, middlewares: node{}, transports: node{}}
	for _, r := range t.withAddresses(where) {
		x.route(r)
	}
	http := node{}
	for name, part := range map[string]node{"routers": x.routers, "services": x.services, "middlewares": x.middlewares, "serversTransports": x.transports} {
		if len(part) > 0 {
			http[name] = part
		}
	}
	doc := node{}
	if len(http) > 0 {
		doc["http"] = http
	}
	var certs []node
	for _, name := range t.Certificates() {
		certs = append(certs, node{"certFile": path.Join(o.Folder, name+".crt"), "keyFile": path.Join(o.Folder, name+".key")})
	}
	if len(certs) > 0 {
		doc["tls"] = node{"certificates": certs}
	}
	return encode(doc, x.notes)
}

type traefik struct {
	o                                          TraefikOptions
	routers, services, middlewares, transports node
	notes                                      []Problem
}

func (x *traefik) note(r exportedRoute, field, text string) {
	x.notes = append(x.notes, Problem{Route: r.Name, Field: field, Text: text})
}

func (x *traefik) route(r exportedRoute) {
	name := r.Name
	scheme := "http://"
	if r.H2C {
		scheme = "h2c://"
	}
	servers := []node{}
	for _, a := range r.Addresses {
		servers = append(servers, node{"url": scheme + a})
	}
	x.services[name] = node{"loadBalancer": node{"servers": servers, "passHostHeader": true, "serversTransport": name,
		"responseForwarding": node{"flushInterval": "-1ms"}}}
	x.transports[name] = node{"forwardingTimeouts": node{"responseHeaderTimeout": millis(int64(r.Timeouts.Header)), "dialTimeout": "5s"}}
	x.note(r, "timeouts.idle", "Traefik has no idle timeout for one route: set respondingTimeouts of the entry point")

	uses := x.middle(r, name)
	router := func(entry string, uses []string) node {
		out := node{"rule": rule(r.Route), "service": name, "entryPoints": []string{entry}, "priority": priority(r.Route)}
		if len(uses) > 0 {
			out["middlewares"] = uses
		}
		return out
	}
	plain := uses
	if r.RedirectHTTP {
		x.middlewares[name+"-redirect"] = node{"redirectScheme": node{"scheme": "https", "permanent": true}}
		plain = []string{name + "-redirect"}
	}
	x.routers[name] = router(x.o.HTTP, plain)
	if r.TLS != "" {
		secure := router(x.o.HTTPS, uses)
		secure["tls"] = node{}
		x.routers[name+"TLS"] = secure // no name of a route has a capital
	}
}

// middle adds the route's middlewares and returns their names in order.
func (x *traefik) middle(r exportedRoute, name string) []string {
	var uses []string
	use := func(kind string, v node) {
		x.middlewares[name+"-"+kind] = v
		uses = append(uses, name+"-"+kind)
	}
	if r.MaxBody >= 0 {
		use("body", node{"buffering": node{"maxRequestBodyBytes": r.MaxBody, "memRequestBodyBytes": 1 << 20}})
		x.note(r, "maxBody", "Traefik bounds a body by reading all of it first: uploads are not streamed; set maxBody to -1 where they must be")
	}
	if r.ForwardAuth != "" {
		auth := node{"address": r.ForwardAuth, "trustForwardHeader": false}
		if len(r.AuthHeaders) > 0 {
			auth["authResponseHeaders"] = r.AuthHeaders
		}
		use("auth", node{"forwardAuth": auth})
	}
	if len(r.Headers) > 0 {
		use("headers", node{"headers": node{"customRequestHeaders": r.Headers}})
	}
	if r.StripPath && r.Path != "/" {
		use("strip", node{"stripPrefix": node{"prefixes": []string{r.Path}}})
	}
	return uses
}

// rule matches at the end of a segment, which PathPrefix alone does not. No
// host name or path of a table has a backtick.
func rule(r Route) string {
	path := "PathPrefix(`/`)"
	if r.Path != "/" {
		path = "(Path(`" + r.Path + "`) || PathPrefix(`" + r.Path + "/`))"
	}
	if r.Host == "" {
		return path
	}
	return "Host(`" + r.Host + "`) && " + path
}

// priority puts a route of a host before those of any host, then the longest
// path, as Match does; Traefik's own is the length of the rule.
func priority(r Route) int {
	p := len(r.Path)
	if r.Host != "" {
		p += 2 * maxPath
	}
	return p
}
