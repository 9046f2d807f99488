package router

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Table is a set of valid routes. The zero Table has none.
type Table struct {
	routes []Route
	index  map[target]int
	hosts  map[string]hostEntry
}

type target struct{ host, path string }

type hostEntry struct {
	depth int    // segments of the longest path
	cert  string // name of the certificate, "" for none
}

// BuildTable makes the table of all routes that have no problem, in the order given.
// Of two for the same host and path, or of one name, the first stays. Who needs
// all or nothing refuses the table when there are problems.
func BuildTable(routes []Route) (Table, []Problem) {
	t := Table{index: map[target]int{}, hosts: map[string]hostEntry{}}
	var problems []Problem
	names := map[string]bool{}
	for i, r := range routes {
		if i >= MaxRoutes {
			problems = append(problems, Problem{Route: fmt.Sprintf("[%d]", i), Field: "name",
				Text: fmt.Sprintf("is one of %d routes, a host has at most %d: move some to another host", len(routes), MaxRoutes)})
			break
		}
		r, found := normal(i, r)
		if len(found) == 0 {
			found = t.clashes(r, names)
		}
		if len(found) > 0 {
			problems = append(problems, found...)
			continue
		}
		names[r.Name] = true
		t.add(r)
	}
	return t, problems
}

func (t *Table) clashes(r Route, names map[string]bool) []Problem {
	var out []Problem
	add := func(field, format string, args ...any) {
		out = append(out, Problem{Route: r.Name, Field: field, Text: fmt.Sprintf(format, args...)})
	}
	if names[r.Name] {
		add("name", "is there twice: names are unique on a host")
	}
	if i, ok := t.index[target{r.Host, r.Path}]; ok {
		add("path", "%s%s already leads to route %s: change the host or the path", cmp.Or(r.Host, "any host"), r.Path, t.routes[i].Name)
	}
	if cert := t.hosts[r.Host].cert; cert != "" && r.TLS != "" && r.TLS != cert {
		add("tls", "%s already has certificate %s: one host name has one certificate, not %s as well", cmp.Or(r.Host, "any host"), cert, r.TLS)
	}
	return out
}

func (t *Table) add(r Route) {
	t.index[target{r.Host, r.Path}] = len(t.routes)
	e := t.hosts[r.Host]
	e.depth = max(e.depth, segments(r.Path))
	if r.TLS != "" {
		e.cert = r.TLS
	}
	t.hosts[r.Host] = e
	t.routes = append(t.routes, r)
}

func segments(path string) int {
	if path == "/" {
		return 0
	}
	return strings.Count(path, "/")
}

// Len is the number of routes.
func (t Table) Len() int { return len(t.routes) }

// Routes returns the routes in their normal form, in the order given.
func (t Table) Routes() []Route { return slices.Clone(t.routes) }

// Route returns route i of Routes. It is shared: do not change it.
func (t Table) Route(i int) *Route { return &t.routes[i] }

// Match returns the index of the route for a host in the form of RequestHost
// and a path in the form of CleanPath, or -1. A route for the host goes before
// one for any host, then the longest path.
func (t Table) Match(host, path string) int {
	if host != "" {
		if i := t.match(host, path); i >= 0 {
			return i
		}
	}
	return t.match("", path)
}

func (t Table) match(host, path string) int {
	e, ok := t.hosts[host]
	if !ok {
		return -1
	}
	// From the deepest path of the table upwards, whatever the request brings.
	end := 0
	for range e.depth {
		if end == len(path) {
			break
		}
		if i := strings.IndexByte(path[end+1:], '/'); i >= 0 {
			end += 1 + i
		} else {
			end = len(path)
		}
	}
	for end > 0 {
		if i, ok := t.index[target{host, path[:end]}]; ok {
			return i
		}
		end = strings.LastIndexByte(path[:end], '/')
	}
	if i, ok := t.index[target{host, "/"}]; ok {
		return i
	}
	return -1
}

// Certificate returns the name of the certificate for a server name as TLS
// gives it, which may be empty; "" if there is none.
func (t Table) Certificate(serverName string) string {
	if host, err := RequestHost(serverName); err == nil {
		if e, ok := t.hosts[host]; ok && e.cert != "" {
			return e.cert
		}
	}
	return t.hosts[""].cert
}

// Certificates returns the names of all certificates, sorted.
func (t Table) Certificates() []string {
	var out []string
	for _, r := range t.routes {
		if r.TLS != "" {
			out = append(out, r.TLS)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
