package table_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/router/table"
)

func exportTable(t *testing.T) table.Table {
	return build(t,
		table.Route{Name: "any", Upstream: "gone", Port: 80, MaxBody: table.Unlimited},
		table.Route{Name: "web", Host: "a.example", Path: "/app", StripPath: true, TLS: "main", RedirectHTTP: true, Upstream: "web", Port: 8080, H2C: true,
			MaxBody: 5, Timeouts: table.Timeouts{Header: 3 * clock.Second}, ForwardAuth: "https://auth.example/verify?x={1}", AuthHeaders: []string{"Remote-User"},
			Headers: map[string]string{"X-A": "{b}"}})
}

func where(key string) []netip.AddrPort {
	if key != "web" {
		return nil
	}
	return []netip.AddrPort{netip.MustParseAddrPort("10.0.0.2:0"), netip.MustParseAddrPort("127.0.0.1:32768")}
}

// at reads one value of a document by its path.
func at(t *testing.T, doc []byte, path string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		t.Fatalf("not JSON: %v", err)
	}
	for step := range strings.SplitSeq(path, " ") {
		switch n := v.(type) {
		case map[string]any:
			v = n[step]
		case []any:
			i := int(step[0] - '0')
			if i >= len(n) {
				t.Fatalf("%s: no element %s", path, step)
			}
			v = n[i]
		default:
			t.Fatalf("%s: nothing at %s", path, step)
		}
	}
	return v
}

func expect(t *testing.T, doc []byte, want map[string]any) {
	t.Helper()
	for path, v := range want {
		if diff := cmp.Diff(v, at(t, doc, path)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

func TestExportIsComplete(t *testing.T) {
	out, err := exportTable(t).Export(where)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, out.JSON, map[string]any{"version": 1.0, "routes 0 name": "any", "routes 0 addresses": []any{},
		"routes 1 addresses": []any{"10.0.0.2:8080", "127.0.0.1:32768"}, "routes 1 timeouts headerMs": 3000.0})
	var doc struct{ Routes []table.Route }
	if err := json.Unmarshal(out.JSON, &doc); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(exportTable(t).Routes(), doc.Routes); diff != "" {
		t.Errorf("the routes do not survive: %s", diff)
	}
}

func TestTraefikShape(t *testing.T) {
	out, err := exportTable(t).Traefik(where, table.TraefikOptions{Folder: "/certs"})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, out.JSON, map[string]any{
		"http routers web rule":           "Host(`a.example`) && (Path(`/app`) || PathPrefix(`/app/`))",
		"http routers web middlewares":    []any{"web-redirect"},
		"http routers webTLS tls":         map[string]any{},
		"http routers webTLS entryPoints": []any{"websecure"},
		"http routers webTLS middlewares": []any{"web-body", "web-auth", "web-headers", "web-strip"},
		"http routers any rule":           "PathPrefix(`/`)",
		"http services web loadBalancer servers": []any{
			map[string]any{"url": "h2c://10.0.0.2:8080"}, map[string]any{"url": "h2c://127.0.0.1:32768"}},
		"http services any loadBalancer servers":                              []any{},
		"http middlewares web-strip stripPrefix prefixes":                     []any{"/app"},
		"http middlewares web-auth forwardAuth authResponseHeaders":           []any{"Remote-User"},
		"http middlewares web-body buffering maxRequestBodyBytes":             5.0,
		"http middlewares web-headers headers customRequestHeaders":           map[string]any{"X-A": "{b}"},
		"http middlewares web-redirect redirectScheme scheme":                 "https",
		"http serversTransports web forwardingTimeouts responseHeaderTimeout": "3000ms",
		"tls certificates 0 certFile":                                         "/certs/main.crt",
	})
	if at(t, out.JSON, "http routers webTLS priority").(float64) <= at(t, out.JSON, "http routers any priority").(float64) {
		t.Error("the route of any host goes before the one of a host")
	}
	var fields []string
	for _, n := range out.Notes {
		fields = append(fields, n.Route+" "+n.Field)
	}
	if diff := cmp.Diff([]string{"any timeouts.idle", "web timeouts.idle", "web maxBody"}, fields); diff != "" {
		t.Error(diff)
	}
	empty, err := table.Table{}.Traefik(where, table.TraefikOptions{})
	if err != nil || string(empty.JSON) != "{}\n" {
		t.Errorf("Traefik refuses empty elements: %s, %v", empty.JSON, err)
	}
}

func TestCaddyShape(t *testing.T) {
	out, err := exportTable(t).Caddy(where, table.CaddyOptions{Folder: "/certs"})
	if err != nil {
		t.Fatal(err)
	}
	plain, secure := "apps http servers steady_http routes ", "apps http servers steady_https "
	expect(t, out.JSON, map[string]any{
		plain + "0 match 0":                                  map[string]any{"host": []any{"a.example"}, "path": []any{"/app", "/app/*"}},
		plain + "0 handle 0 status_code":                     308.0,
		plain + "1 match 0":                                  map[string]any{"path": []any{"/*"}},
		plain + "1 handle 0 status_code":                     503.0,
		secure + "routes 0 handle 0 max_size":                5.0,
		secure + "routes 0 handle 1 request delete":          []any{"Remote-User"},
		secure + "routes 0 handle 2 upstreams 0 dial":        "auth.example:443",
		secure + "routes 0 handle 2 rewrite uri":             `/verify?x=\{1}`,
		secure + "routes 0 handle 3 strip_path_prefix":       "/app",
		secure + "routes 0 handle 4 flush_interval":          -1.0,
		secure + "routes 0 handle 4 upstreams":               []any{map[string]any{"dial": "10.0.0.2:8080"}, map[string]any{"dial": "127.0.0.1:32768"}},
		secure + "routes 0 handle 4 headers request set X-A": []any{`\{b}`},
		secure + "routes 0 handle 4 transport versions":      []any{"h2c"},
		secure + "tls_connection_policies 0 match sni":       []any{"a.example"},
		"apps tls certificates load_files 0":                 map[string]any{"certificate": "/certs/main.crt", "key": "/certs/main.key", "tags": []any{"main"}},
	})
}
