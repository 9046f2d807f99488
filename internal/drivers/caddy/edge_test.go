package caddy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// op is a change of a server as it is.
func op(t *testing.T, d *Driver, id string, config json.RawMessage) nodesdk.Op {
	t.Helper()
	op := nodesdk.Op{Kind: "flow", ID: id, Config: config, Delete: config == nil}
	it, there, err := d.Read(t.Context(), "flow", id)
	must(t, err)
	if there {
		op.Was = &it
	}
	return op
}

func do(t *testing.T, d *Driver, id string, config json.RawMessage) error {
	t.Helper()
	return d.Apply(t.Context(), op(t, d, id, config))
}

func names(t *testing.T, d *Driver) (out []string) {
	t.Helper()
	s, err := d.Snapshot(t.Context())
	must(t, err)
	for _, it := range s.Items {
		out = append(out, it.ID)
	}
	return out
}

func body(t *testing.T, port int) string {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(raw)
}

// TestETags: what moved between reading and applying is not overwritten, deleted or created again.
func TestETags(t *testing.T) {
	t.Parallel()
	s := start(t)
	d := s.driver()
	p := testkit.Ports(t, "tcp", 2)
	must(t, do(t, d, "a", site(p[0], "one", "")))
	if got := body(t, p[0]); got != "one" {
		t.Errorf("the site answers %q", got)
	}
	for what, config := range map[string]json.RawMessage{"replacement": site(p[0], "two", ""), "deletion": nil} {
		stale := op(t, d, "a", config)
		must(t, s.setByAPI("a", site(p[0], what, "")))
		if err := d.Apply(t.Context(), stale); !errors.Is(err, nodesdk.ErrConflict) || body(t, p[0]) != what {
			t.Errorf("a %s is answered with %v, and the site with %q", what, err, body(t, p[0]))
		}
	}
	create := op(t, d, "b", site(p[1], "mine", ""))
	must(t, s.setByAPI("b", site(p[1], "theirs", "")))
	if err := d.Apply(t.Context(), create); !errors.Is(err, nodesdk.ErrConflict) || body(t, p[1]) != "theirs" {
		t.Errorf("a creation is answered with %v", err)
	}
}

// TestFirstServer: what leads to the servers is made with the first one, and nothing else changes.
func TestFirstServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	d := s.driver()
	p := testkit.Ports(t, "tcp", 1)[0]
	admin := fmt.Sprintf(`"admin":{"listen":%q}`, strings.TrimPrefix(s.URL, "http://"))
	for _, before := range []string{`{` + admin + `}`, `{` + admin + `,"apps":null}`, `{` + admin + `,"apps":{"tls":{}}}`, `{` + admin + `,"apps":{"http":{"http_port":8080}}}`, `{` + admin + `,"apps":{"http":{"servers":null}}}`} {
		must(t, s.raw.change(t.Context(), http.MethodPost, "/load", "", json.RawMessage(before)))
		if got := names(t, d); len(got) != 0 {
			t.Errorf("with %s it has %v", before, got)
		}
		must(t, do(t, d, "a", nil))
		must(t, do(t, d, "a", site(p, "first", "")))
		whole, _, err := s.raw.get(t.Context(), root)
		must(t, err)
		want, err := with(json.RawMessage(before), nodesdk.Item{ID: "a", Config: site(p, "first", "")})
		must(t, err)
		if !same(whole, want) || body(t, p) != "first" {
			t.Errorf("with %s it has then %s", before, whole)
		}
	}
}

// TestRefusals name the field, and leave what runs as it is; the dry run says the same, but
// for ports that other programs have.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s := start(t)
	d := s.driver()
	p := testkit.Ports(t, "tcp", 2)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer busy.Close()
	must(t, do(t, d, "a", site(p[0], "one", "")))
	whole, _, err := s.raw.get(t.Context(), root)
	must(t, err)
	for what, c := range map[string]struct {
		id, config, code, field string
		unseen                  bool // by the dry run
	}{
		"a busy port":         {"b", string(site(busy.Addr().(*net.TCPAddr).Port, "", "")), "port-in-use", "listen", true},
		"an edit to one":      {"a", string(site(busy.Addr().(*net.TCPAddr).Port, "", "")), "port-in-use", "listen", true},
		"another site's port": {"b", string(site(p[0], "", "")), "port-in-use", "listen", false},
		"an unknown field":    {"a", `{"lisen":[":1"]}`, "invalid", "lisen", false},
		"one that is deep":    {"b", strings.Replace(string(site(p[1], "", "")), `"body"`, `"bdy"`, 1), "invalid", "routes/0/handle/0/bdy", false},
		"an unknown handler":  {"b", strings.Replace(string(site(p[1], "", "")), "static_response", "static", 1), "invalid", "routes/0/handle/0", false},
		"another type":        {"b", `{"listen":7}`, "invalid", "", false},
		"a slash":             {"b/listen", string(site(p[1], "", "")), "invalid", "", false},
	} {
		var invalid *nodesdk.InvalidError
		err := do(t, d, c.id, json.RawMessage(c.config))
		if !errors.As(err, &invalid) || invalid.Code != c.code || invalid.Problems[0].Field != c.field {
			t.Errorf("%s is answered with %#v", what, err)
		}
		problems, err := d.Validate(t.Context(), nodesdk.Item{Kind: "flow", ID: c.id, Config: json.RawMessage(c.config)})
		if err != nil || len(problems) == 0 != c.unseen || !c.unseen && problems[0].Field != c.field {
			t.Errorf("%s is validated with %+v, %v", what, problems, err)
		}
		if now, _, err := s.raw.get(t.Context(), root); err != nil || !same(now, whole) || body(t, p[0]) != "one" {
			t.Errorf("after %s it has %s, and answers %q: %v", what, now, body(t, p[0]), err)
		}
	}
}

// TestNames: every name that Caddy can address is one, and others are listed.
func TestNames(t *testing.T) {
	t.Parallel()
	s := start(t)
	d := s.driver()
	p := testkit.Ports(t, "tcp", 5)
	want := []string{"a%2Fb", "a?b#c", "ä.example:80"}
	for i, name := range want {
		must(t, do(t, d, name, site(p[i], name, "")))
	}
	if got := names(t, d); !slices.Equal(got, want) || body(t, p[0]) != want[0] {
		t.Errorf("it has %q", got)
	}
	whole, _, err := s.raw.get(t.Context(), root)
	must(t, err)
	for i, name := range []string{"x/y", "x y"} {
		whole, err = with(whole, nodesdk.Item{ID: name, Config: site(p[3+i], "", "")})
		must(t, err)
	}
	must(t, s.raw.change(t.Context(), http.MethodPost, "/load", "", whole))
	for _, name := range []string{"x/y", "x y"} {
		if _, there, err := d.Read(t.Context(), "flow", name); err != nil || !there {
			t.Errorf("%q is not read: %v", name, err)
		}
		if err := do(t, d, name, nil); !errors.As(err, new(*nodesdk.InvalidError)) || len(names(t, d)) != 5 {
			t.Errorf("the deletion of %q is answered with %v", name, err)
		}
	}
	for _, name := range want {
		must(t, do(t, d, name, nil))
	}
}

// TestWatchedFile: Caddy loads the whole file when it is edited: what was made by the API since is
// missing then, and what the file has besides is there.
func TestWatchedFile(t *testing.T) {
	t.Parallel()
	s := start(t)
	d := s.driver()
	p := testkit.Ports(t, "tcp", 3)
	must(t, s.setByFile("file", site(p[0], "file", "")))
	must(t, do(t, d, "api", site(p[1], "api", "")))
	next, err := with(s.Empty, nodesdk.Item{ID: "hand", Config: site(p[2], "hand", "")})
	must(t, err)
	s.Write(next)
	testkit.Eventually(t, "the edit is loaded", func() bool { return reflect.DeepEqual(names(t, d), []string{"hand"}) })
}

// TestSecretsAreHidden: canaries in every place of a site where secrets are known to stand.
func TestSecretsAreHidden(t *testing.T) {
	t.Parallel()
	d, err := New(Config{})
	must(t, err)
	const places = `{"listen":[":80"],"routes":[{"match":[{"header":{"X-Api-Key":["CANARY"]}}],"handle":[{"handler":"subroute","routes":[{"handle":[` +
		`{"handler":"authentication","providers":{"http_basic":{"accounts":[{"username":"u","password":"CANARY","salt":"CANARY"}]}}},` +
		`{"handler":"headers","request":{"set":{"Authorization":["CANARY"],"Cookie":["CANARY"]}},"response":{"set":{"Set-Cookie":["CANARY"]}}},` +
		`{"handler":"reverse_proxy","headers":{"request":{"add":{"X-Auth":["Bearer CANARY"],"x-upstream-token":["CANARY"]}}},"upstreams":[{"dial":"h:1"}]},` +
		`{"handler":"other","dsn":"postgres://u:CANARY@h/d","nested":{"client_secret":{"value":"CANARY"},"private_key":["CANARY"]}}]}]}]}]}`
	rapid.Check(t, func(t *rapid.T) {
		var canaries []string
		config := places
		for strings.Contains(config, "CANARY") {
			canaries = append(canaries, fmt.Sprintf("c4n%d%s", len(canaries), rapid.StringMatching(`[a-z0-9]{12}`).Draw(t, "canary")))
			config = strings.Replace(config, "CANARY", canaries[len(canaries)-1], 1)
		}
		digests := 0
		got := string(d.Redact(nodesdk.Item{ID: "a", Config: json.RawMessage(config)}, func(string) string { digests++; return "hmac:x" }).Config)
		for _, c := range canaries {
			if strings.Contains(got, c) {
				t.Fatalf("%s is in %s", c, got)
			}
		}
		if digests != len(canaries) || !strings.Contains(got, `"h:1"`) {
			t.Fatalf("%d of %d are hidden: %s", digests, len(canaries), got)
		}
	})
}

// TestWhatCaddyFolds: Caddy has one type of number and keeps null, and what it has after a push
// is what was asked in that form.
func TestWhatCaddyFolds(t *testing.T) {
	t.Parallel()
	d := start(t).driver()
	config := json.RawMessage(`{"listen":["127.0.0.1:0"],"idle_timeout":5000000000.0,"routes":null,"logs":{"logger_names":null}}`)
	must(t, do(t, d, "web", config))
	s, err := d.Snapshot(t.Context())
	must(t, err)
	want, err := nodeconfig.Canonical(d.Normalize(nodesdk.Item{Kind: "flow", ID: "web", Config: config}).Config)
	must(t, err)
	if got, err := nodeconfig.Canonical(d.Normalize(s.Items[0]).Config); err != nil || string(got) != string(want) {
		t.Errorf("it has %s after %s, %v", got, want, err)
	}
}
