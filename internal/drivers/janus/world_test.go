package janus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

const (
	install  = "apt-get install janus"
	adminKey = "k3y-of-the-admin"
	general  = "general: {\n\tadmin_key = \"" + adminKey + "\" # of the plugin\n}\n"
	modules  = "/usr/lib/x86_64-linux-gnu/janus"
)

// gateway is a Janus of a test, with a folder and ports of its own.
type gateway struct {
	t     *testing.T
	dir   string
	port  int
	cmd   *exec.Cmd
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
	testkit.Command(t, "janus", install)
	g := &gateway{t: t, dir: t.TempDir(), port: testkit.Ports(t, "tcp", 1)[0]}
	plugins, transports := filepath.Join(g.dir, "plugins"), filepath.Join(g.dir, "transports")
	// Folders with the two modules that are needed: others take time, and ports.
	for folder, name := range map[string]string{plugins: "plugins/libjanus_streaming.so", transports: "transports/libjanus_http.so"} {
		found, _ := filepath.Glob(strings.Replace(modules, "x86_64-linux-gnu", "*", 1) + "/" + name)
		if len(found) != 1 {
			testkit.Missing(t, "Janus has no "+name+": "+install)
		}
		if err := errors.Join(os.Mkdir(folder, 0o755), os.Symlink(found[0], filepath.Join(folder, filepath.Base(name)))); err != nil {
			t.Fatal(err)
		}
	}
	g.write("janus.jcfg", fmt.Sprintf("general: {\n configs_folder = %q\n plugins_folder = %q\n transports_folder = %q\n events_folder = \"/nonexistent\"\n loggers_folder = \"/nonexistent\"\n debug_level = 3\n api_secret = \"of-the-api\"\n}\n", g.dir, plugins, transports))
	g.write("janus.transport.http.jcfg", fmt.Sprintf("general: {\n json = \"compact\"\n base_path = \"/janus\"\n http = true\n port = %d\n ip = \"127.0.0.1\"\n https = false\n}\nadmin: { admin_http = false }\n", g.port))
	g.write(plugin+".jcfg", general)
	target := &url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(g.port)}
	g.front = newFront(target)
	t.Cleanup(g.front.Close)
	var err error
	if g.raw, err = newClient(target.String()+"/janus", func() string { return "of-the-api" }, func() {}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.stop)
	g.run()
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

func (g *gateway) write(name, text string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gateway) run() {
	g.t.Helper()
	g.cmd = exec.Command("janus", "-F", g.dir)
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	log, err := os.OpenFile(filepath.Join(g.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		g.t.Fatal(err)
	}
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	_ = log.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range time.Tick(5 * time.Millisecond) {
		if _, err := g.raw.request(ctx, map[string]any{"request": "list"}); err == nil {
			return
		}
		if ctx.Err() != nil {
			all, _ := os.ReadFile(filepath.Join(g.dir, "log"))
			g.t.Fatalf("Janus does not start:\n%s", all)
		}
	}
}

func (g *gateway) stop() {
	if g.cmd != nil && g.cmd.Process != nil {
		_ = g.cmd.Process.Kill()
		_ = g.cmd.Wait()
	}
}

func (g *gateway) restart() error {
	g.stop()
	g.run()
	return nil
}

func (g *gateway) driver() *Driver {
	g.t.Helper()
	d, err := New(Options{URL: g.front.URL + "/janus", ConfigDir: g.dir})
	if err != nil {
		g.t.Fatal(err)
	}
	return d
}

// setByAPI is a person with the mountpoint's secret.
func (g *gateway) setByAPI(id string, config json.RawMessage) error {
	ctx := context.Background()
	c, err := (&configFile{path: filepath.Join(g.dir, plugin+".jcfg")}).read(ctx)
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
	maps.Copy(req, map[string]any{"request": "create", "name": id, "id": key, "permanent": true, "admin_key": adminKey})
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
	path := filepath.Join(g.dir, plugin+".jcfg")
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
