package janus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

// gateway is a Janus of a test, behind what may lose answers.
type gateway struct {
	*testkit.Janus
	t     *testing.T
	raw   *client // past the driver
	front *front
}

// front stands between driver and Janus, to lose answers.
type front struct {
	*httptest.Server
	broken   atomic.Bool
	loseNext atomic.Bool // the answer to the next change
}

func start(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{t: t, Janus: testkit.StartJanus(t)}
	target := testkit.Value(url.Parse(strings.TrimSuffix(g.URL, "/janus")))(t)
	g.front = newFront(target)
	t.Cleanup(g.front.Close)
	g.raw = testkit.Value(newClient(g.URL, func() string { return testkit.JanusAPISecret }, func() {}))(t)
	return g
}

func newFront(target *url.URL) *front {
	f := &front{}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.broken.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		changes := slices.ContainsFunc([]string{"create", "edit", "destroy"}, func(v string) bool {
			return bytes.Contains(raw, []byte(`"request":"`+v+`"`))
		})
		if changes && f.loseNext.CompareAndSwap(true, false) {
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusGatewayTimeout)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	return f
}

func (g *gateway) restart() error {
	g.Restart()
	return nil
}

func (g *gateway) driver() *Driver {
	g.t.Helper()
	d, err := New(Config{URL: g.front.URL + "/janus", ConfigDir: g.Dir})
	if err != nil {
		g.t.Fatal(err)
	}
	return d
}

// setByAPI is a person with the mountpoint's secret.
func (g *gateway) setByAPI(id string, config json.RawMessage) error {
	ctx := context.Background()
	c, err := (&configFile{path: g.File()}).read(ctx)
	if err != nil {
		return err
	}
	key := json.Number(numericID(id))
	_, err = g.raw.request(ctx, map[string]any{"request": "destroy", "id": key, "secret": c.secrets[string(key)], "permanent": true})
	if err != nil && !hasCode(err, noMountpoint) || config == nil {
		return err
	}
	v, err := nodeconfig.Decode(config)
	if err != nil {
		return err
	}
	req := maps.Clone(v.(map[string]any))
	maps.Copy(req, map[string]any{"request": "create", "name": id, "id": key, "permanent": true, "admin_key": testkit.JanusAdminKey})
	_, err = g.raw.request(ctx, req)
	return err
}

// setByFile is a person with an editor, who then restarts Janus.
func (g *gateway) setByFile(id string, config json.RawMessage) error {
	if err := g.editFile(id, config); err != nil {
		return err
	}
	return g.restart()
}

func (g *gateway) editFile(id string, config json.RawMessage) error {
	path := g.File()
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	all, err := parseJcfg(raw)
	if err != nil {
		return err
	}
	delete(all, id)
	if config != nil {
		v, err := nodeconfig.Decode(config)
		if err != nil {
			return err
		}
		entry := v.(map[string]any)
		entry["id"] = numericID(id) // quoted: Janus cuts numbers in its file to 32 bits
		all[id] = entry
	}
	return os.WriteFile(path, []byte("# by hand\n"+settings(all)), 0o600)
}

// settings writes libconfig.
func settings(m map[string]any) string {
	var out strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&out, "%s: %s\n", k, setting(m[k]))
	}
	return out.String()
}

func setting(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "{\n" + settings(v) + "}"
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, setting(e))
		}
		return "(" + strings.Join(all, ", ") + ")"
	case string:
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "\f", `\f`).Replace(v) + `"`
	}
	return fmt.Sprint(v)
}
