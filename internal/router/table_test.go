package router_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/testkit"
)

func build(t interface {
	Helper()
	Fatalf(string, ...any)
}, routes ...router.Route) router.Table {
	t.Helper()
	tab, problems := router.BuildTable(routes)
	if len(problems) > 0 {
		t.Fatalf("valid routes are refused: %v", problems)
	}
	return tab
}

func route(name, host, path string) router.Route {
	return router.Route{Name: name, Host: host, Path: path, Upstream: "web", Port: 80}
}

// naive compares every route with the request, segment by segment.
func naive(routes []router.Route, host, path string) string {
	best, bestRank := "", -1
	split := func(p string) []string {
		return strings.FieldsFunc(p, func(c rune) bool { return c == '/' })
	}
	have := split(path)
	for _, r := range routes {
		want := split(r.Path)
		if (r.Host != "" && r.Host != host) || len(want) > len(have) || !cmp.Equal(want, have[:len(want)]) {
			if len(want) > 0 || (r.Host != "" && r.Host != host) {
				continue
			}
		}
		rank := len(want)
		if r.Host != "" {
			rank += 1000
		}
		if rank > bestRank {
			best, bestRank = r.Name, rank
		}
	}
	return best
}

func TestMatchIsTheNaiveMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.Custom(func(t *rapid.T) string {
			parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "a.b"}), 0, 4).Draw(t, "parts")
			return "/" + strings.Join(parts, "/")
		})
		host := rapid.SampledFrom([]string{"", "x.example", "y.example", "example"})
		var routes []router.Route
		for i := range rapid.IntRange(0, 12).Draw(t, "routes") {
			routes = append(routes, route(fmt.Sprintf("r%d", i), host.Draw(t, "host"), path.Draw(t, "path")))
		}
		tab, _ := router.BuildTable(routes) // duplicates are left out; Routes has the rest
		for range 20 {
			h, p := host.Draw(t, "request host"), path.Draw(t, "request path")
			if rapid.Bool().Draw(t, "slash") {
				p += "/"
			}
			clean, err := router.CleanPath(p)
			if err != nil {
				t.Fatalf("%s is refused: %v", p, err)
			}
			got := ""
			if i := tab.Match(h, clean); i >= 0 {
				got = tab.Route(i).Name
			}
			if want := naive(tab.Routes(), h, p); got != want {
				t.Fatalf("%s%s goes to %q, expected %q of %v", h, p, got, want, tab.Routes())
			}
		}
	})
}

func TestMatchEndsAtSegments(t *testing.T) {
	tab := build(t, route("root", "", "/"), route("api", "a.example", "/api/"), route("v2", "a.example", "/api/v2"))
	for target, want := range map[string]string{
		"a.example/api": "api", "a.example/api/": "api", "a.example/apix": "root", "a.example/api/v2/x": "v2",
		"a.example/api/v22": "api", "b.example/api": "root", "a.example//api//v2": "v2", "a.example/": "root",
	} {
		host, path, _ := strings.Cut(target, "/")
		clean := testkit.Value(router.CleanPath("/" + path))(t)
		if i := tab.Match(host, clean); i < 0 || tab.Route(i).Name != want {
			t.Errorf("%s goes to route %d, expected %s", target, i, want)
		}
	}
}

func TestRequestHost(t *testing.T) {
	for in, want := range map[string]string{
		"A.Example": "a.example", "a.example.": "a.example", "a.example:8080": "a.example", "a.example.:80": "a.example",
		"a.example:": "a.example", "[::1]:80": "[::1]", "[0:0::1]": "[::1]", "192.0.2.1:80": "192.0.2.1",
		"xn--bcher-kva.example": "xn--bcher-kva.example", "db_1": "db_1",
	} {
		if got, err := router.RequestHost(in); err != nil || got != want {
			t.Errorf("%q is read as %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", ".", "a..b", "a b", "a/b", "a@b", "-a", "a-.b", "a:b", "a:123456", "::1", "[::1", "[::1%eth0]", "[1.2.3.4]",
		"bücher.example", strings.Repeat("a", 64), strings.Repeat("a.", 130) + "a", "a\x00", "a,b", "*.example", "a:80:80", "a.example.."} {
		if got, err := router.RequestHost(in); err == nil {
			t.Errorf("%q was read as %q", in, got)
		}
	}
}

func TestRouteHostIsWhatRequestsCarry(t *testing.T) {
	for in, want := range map[string]string{
		"Bücher.example": "xn--bcher-kva.example", "MÜNCHEN.Example.": "xn--mnchen-3ya.example",
		"例え.テスト": "xn--r8jz45g.xn--zckzah", "пример.испытание": "xn--e1afmkfd.xn--80akhbyknj4f", "παράδειγμα.gr": "xn--hxajbheg2az3al.gr",
		"straße.example": "xn--strae-oqa.example", "ﬁ.example": "fi.example", "e\u0301.example": "xn--9ca.example", "ｆｕｌｌ.example": "full.example",
		"::1": "[::1]", "[0::1]": "[::1]", "Plain.Example": "plain.example",
	} {
		tab := build(t, route("r", in, ""))
		if got := tab.Route(0).Host; got != want {
			t.Errorf("%s is kept as %s, expected %s", in, got, want)
		}
		if back, err := router.RequestHost(want); err != nil || tab.Match(back, "/") != 0 {
			t.Errorf("a request for %s does not reach it: %v", want, err)
		}
	}
	for _, in := range []string{"*.example", "a.example:80", "a b", "a..b", "\u200b", "xn--a.example", "aא.example"} {
		if tab, problems := router.BuildTable([]router.Route{route("r", in, "")}); len(problems) == 0 {
			t.Errorf("%q was taken as %q", in, tab.Route(0).Host)
		}
	}
}

func TestBuildNamesEachProblem(t *testing.T) {
	ok := route("ok", "a.example", "/")
	with := func(change func(*router.Route)) router.Route {
		r := route("bad", "b.example", "/")
		change(&r)
		return r
	}
	for field, r := range map[string]router.Route{
		"name":            with(func(r *router.Route) { r.Name = "No" }),
		"host":            with(func(r *router.Route) { r.Host = "*.b" }),
		"path":            with(func(r *router.Route) { r.Path = "/a/../b" }),
		"tls":             with(func(r *router.Route) { r.TLS = "../key" }),
		"redirectHTTP":    with(func(r *router.Route) { r.RedirectHTTP = true }),
		"upstream":        with(func(r *router.Route) { r.Upstream = "" }),
		"port":            with(func(r *router.Route) { r.Port = 65536 }),
		"maxBody":         with(func(r *router.Route) { r.MaxBody = -2 }),
		"timeouts.header": with(func(r *router.Route) { r.Timeouts.Header = -1 }),
		"timeouts.idle":   with(func(r *router.Route) { r.Timeouts.Idle = 2 * clock.Day }),
		"forwardAuth":     with(func(r *router.Route) { r.ForwardAuth = "ftp://x" }),
	} {
		tab, problems := router.BuildTable([]router.Route{ok, r})
		if len(problems) != 1 || problems[0].Field != field || tab.Len() != 1 || tab.Route(0).Name != "ok" {
			t.Errorf("%s: %v with %d routes in the table", field, problems, tab.Len())
		}
	}
}

func TestBuildKeepsTheFirstOfTwo(t *testing.T) {
	secure := func(name, path, cert string) router.Route {
		r := route(name, "a.example", path)
		r.TLS = cert
		return r
	}
	tab, problems := router.BuildTable([]router.Route{
		secure("one", "/x", "cert"), route("two", "A.example.", "/x/"), secure("three", "/y", "other"), route("one", "", "/z"), secure("four", "/z", "cert"),
	})
	var names, fields []string
	for _, r := range tab.Routes() {
		names = append(names, r.Name)
	}
	for _, p := range problems {
		fields = append(fields, p.Route+" "+p.Field)
	}
	if diff := cmp.Diff([]string{"one", "four"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"two path", "three tls", "one name"}, fields); diff != "" {
		t.Error(diff)
	}
	if c := tab.Certificate("A.EXAMPLE"); c != "cert" || tab.Certificate("b.example") != "" {
		t.Errorf("certificate %q", c)
	}
}

func TestCleanPathRefusesWhatAWorkspaceWouldResolve(t *testing.T) {
	for _, p := range []string{"/a/../b", "/..", "/a/.", "/./a", "/a/..;x/b", `/a\..\b`, "a", "*", "/a/..\x00"} {
		if got, err := router.CleanPath(p); err == nil {
			t.Errorf("%q became %q", p, got)
		}
	}
	for p, want := range map[string]string{"": "/", "/": "/", "//": "/", "/a//b/": "/a/b/", "/.well-known/x": "/.well-known/x", "/a...b": "/a...b", "/...": "/..."} {
		if got, err := router.CleanPath(p); err != nil || got != want {
			t.Errorf("%q became %q, %v", p, got, err)
		}
	}
}

func TestStrip(t *testing.T) {
	r := build(t, route("r", "", "/a/b")).Route(0)
	for in, want := range map[string]string{"/a/b": "/", "/a/b/": "/", "/a/b/c%2Fd": "/c%2Fd", "//a//b///evil.example": "/evil.example", "/%61/b/c": "/c", "/a%2Fb/c": "/c"} {
		if got, err := r.Strip(in); err != nil || got != want {
			t.Errorf("%s is stripped to %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"/a/b%2Fc", "/a%2Fb%2Fc/d", "/a"} {
		if got, err := r.Strip(in); err == nil {
			t.Errorf("%s is stripped to %q", in, got)
		}
	}
}
