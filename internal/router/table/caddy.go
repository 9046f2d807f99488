package table

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// CaddyOptions name what the table does not know of a Caddy.
type CaddyOptions struct {
	HTTP, HTTPS []string // listen addresses; ":80" and ":443"
	Folder      string   // of NAME.crt and NAME.key as Caddy sees it
}

// Caddy writes the table as a configuration of Caddy (version 2), with its own
// certificates switched off.
func (t Table) Caddy(where Addresses, o CaddyOptions) (Exported, error) {
	if len(o.HTTP) == 0 {
		o.HTTP = []string{":80"}
	}
	if len(o.HTTPS) == 0 {
		o.HTTPS = []string{":443"}
	}
	routes := t.withAddresses(where)
	// Caddy takes the first that matches.
	slices.SortStableFunc(routes, func(a, b exportedRoute) int { return priority(b.Route) - priority(a.Route) })
	var plain, secure []node
	var notes []Problem
	for _, r := range routes {
		match := node{"path": []string{"/*"}}
		if r.Path != "/" {
			match["path"] = []string{r.Path, r.Path + "/*"}
			notes = append(notes, Problem{Route: r.Name, Field: "path", Text: "Caddy compares paths without regard to case"})
		}
		if r.Host != "" {
			match["host"] = []string{r.Host}
		}
		serve := node{"match": []node{match}, "handle": caddyHandle(r), "terminal": true}
		if r.TLS != "" {
			secure = append(secure, serve)
		}
		if r.RedirectHTTP {
			serve = node{"match": []node{match}, "terminal": true, "handle": []node{{"handler": "static_response", "status_code": 308,
				"headers": node{"Location": []string{"https://{http.request.host}{http.request.uri}"}}}}}
		}
		plain = append(plain, serve)
	}
	servers := node{}
	if len(plain) > 0 {
		servers["steady_http"] = node{"listen": o.HTTP, "automatic_https": node{"disable": true}, "routes": plain}
	}
	if len(secure) > 0 {
		servers["steady_https"] = node{"listen": o.HTTPS, "automatic_https": node{"disable": true}, "routes": secure,
			"tls_connection_policies": t.caddyPolicies(), "strict_sni_host": true}
	}
	apps := node{"http": node{"servers": servers}}
	var files []node
	for _, name := range t.Certificates() {
		files = append(files, node{"certificate": path.Join(o.Folder, name+".crt"), "key": path.Join(o.Folder, name+".key"), "tags": []string{name}})
	}
	if len(files) > 0 {
		apps["tls"] = node{"certificates": node{"load_files": files}}
	}
	return encode(node{"apps": apps}, notes)
}

// caddyPolicies choose the certificate by server name.
func (t Table) caddyPolicies() []node {
	var out []node
	for _, host := range slices.Sorted(maps.Keys(t.hosts)) {
		if cert := t.hosts[host].cert; host != "" && cert != "" {
			out = append(out, node{"match": node{"sni": []string{host}}, "certificate_selection": node{"any_tag": []string{cert}}})
		}
	}
	if cert := t.hosts[""].cert; cert != "" {
		out = append(out, node{"certificate_selection": node{"any_tag": []string{cert}}})
	}
	return out
}

func caddyHandle(r exportedRoute) []node {
	var out []node
	if r.MaxBody >= 0 {
		out = append(out, node{"handler": "request_body", "max_size": r.MaxBody})
	}
	if len(r.AuthHeaders) > 0 {
		out = append(out, node{"handler": "headers", "request": node{"delete": r.AuthHeaders}})
	}
	if r.ForwardAuth != "" {
		out = append(out, caddyAuth(r.Route))
	}
	set := node{}
	for name, value := range r.Headers {
		set[name] = []string{caddyLiteral(value)}
	}
	if r.StripPath && r.Path != "/" {
		out = append(out, node{"handler": "rewrite", "strip_path_prefix": r.Path})
		set["X-Forwarded-Prefix"] = []string{r.Path}
	}
	if len(r.Addresses) == 0 {
		return append(out, node{"handler": "static_response", "status_code": 503, "body": "the workspace is not running\n"})
	}
	var dial []node
	for _, a := range r.Addresses {
		dial = append(dial, node{"dial": a})
	}
	transport := node{"protocol": "http", "dial_timeout": "5s", "response_header_timeout": millis(int64(r.Timeouts.Header)),
		"read_timeout": millis(int64(r.Timeouts.Idle)), "write_timeout": millis(int64(r.Timeouts.Idle))}
	if r.H2C {
		transport["versions"] = []string{"h2c"}
	}
	proxy := node{"handler": "reverse_proxy", "upstreams": dial, "flush_interval": -1, "transport": transport}
	if len(set) > 0 {
		proxy["headers"] = node{"request": node{"set": set}}
	}
	return append(out, proxy)
}

// caddyAuth is what Caddy's own forward_auth directive expands to.
func caddyAuth(r Route) node {
	u, err := url.Parse(r.ForwardAuth)
	if err != nil {
		u = &url.URL{} // Build refused it
	}
	port := u.Port()
	transport := node{"protocol": "http", "response_header_timeout": millis(int64(max(r.Timeouts.Header, clock.Millisecond)))}
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	if u.Scheme == "https" {
		transport["tls"] = node{}
	}
	set := node{}
	for _, name := range r.AuthHeaders {
		set[name] = []string{fmt.Sprintf("{http.reverse_proxy.header.%s}", name)}
	}
	pass := []node{{"handle": []node{{"handler": "vars"}}}}
	if len(set) > 0 {
		pass = append(pass, node{"handle": []node{{"handler": "headers", "request": node{"set": set}}}})
	}
	return node{
		"handler": "reverse_proxy", "upstreams": []node{{"dial": u.Hostname() + ":" + port}}, "transport": transport,
		"rewrite": node{"method": "GET", "uri": caddyLiteral(u.RequestURI())},
		"headers": node{"request": node{"set": node{
			"Host":               []string{u.Host},
			"X-Forwarded-Method": []string{"{http.request.method}"},
			"X-Forwarded-Uri":    []string{"{http.request.orig_uri}"},
		}}},
		"handle_response": []node{{"match": node{"status_code": []int{2}}, "routes": pass}},
	}
}

// caddyLiteral keeps Caddy from reading a brace as a placeholder.
func caddyLiteral(s string) string { return strings.ReplaceAll(s, "{", `\{`) }
