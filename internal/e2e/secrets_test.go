package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

// tap keeps all that hosts send, as it is sent: addresses, headers and bodies.
type tap struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (c *tap) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said.Write(p)
}

func (c *tap) all() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.said.Bytes())
}

// between is for newOrigin.
func (c *tap) between(real http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(c, "\n"+r.Method+" "+r.URL.String()+"\n") // it takes everything
		_ = r.Header.Write(c)
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(r.Body, c), r.Body}
		real.ServeHTTP(w, r)
	})
}

// needles are the forms of a secret that nothing which leaves the host may hold: as
// it is, by its lines, and as programs encode them, wherever in a longer text.
func needles(value string) map[string]string {
	out := map[string]string{}
	for _, v := range append(strings.Split(strings.TrimSpace(value), "\n"), strings.TrimSpace(value)) {
		if len(v) < 12 {
			continue
		}
		quoted, _ := json.Marshal(v)
		out[v], out[hex.EncodeToString([]byte(v))], out[strings.ToUpper(hex.EncodeToString([]byte(v)))] = "as it is", "in hexadecimal", "in hexadecimal"
		out[url.QueryEscape(v)], out[strings.Trim(string(quoted), `"`)] = "with percents", "as in JSON"
		for skip := range 3 {
			part := v[skip:][:(len(v)-skip)/3*3]
			out[base64.StdEncoding.EncodeToString([]byte(part))] = "in base64"
			out[base64.URLEncoding.EncodeToString([]byte(part))] = "in base64"
		}
	}
	return out
}

func random(t testing.TB) string {
	raw := make([]byte, 24)
	testkit.Value(rand.Read(raw))(t)
	return base64.StdEncoding.EncodeToString(raw)
}

const secretFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  web-1: {channel: stable, tags: [web], bundle: web}
channels:
  stable: {rolloutPolicy: all, freshnessWindow: 24h}
rolloutPolicies:
  all:
    waves: [{name: all, selector: {all: true}}]
allowMovingTags: true # the image is imported on the engine, so no registry gave it a digest
bundles: {web: {path: bundles/web}}
`

const secretCompose = `services:
  app:
    image: steady.test/busybox:1
    pull_policy: never
    stop_grace_period: 0s
    command: [sh, -c, "TELL; exit 1"]
    secrets: [chain]
    x-steady: {secrets: {KEY: key}, update: {monitor: 1s}}
secrets: {chain: {external: true}}
`

// TestS39NoSecretLeavesAHost is S39 and T27 over every message: a host has secrets
// of containers, of registries and its own keys; a container tells its log all that
// it was given, in every encoding, and fails. No form of any of them is in what the
// host sends, in what the server stores, or in a log of the agent.
func TestS39NoSecretLeavesAHost(t *testing.T) {
	t.Parallel()
	d := dockertest.Engine(t)
	d.Busybox(t)
	sent, logged := &tap{}, &tap{}
	e := newEstate(t)
	o := newOrigin(t, e, sent.between).start()
	b := newBox(t, o, victim)
	b.log = slog.New(slog.NewJSONHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.hosting = hosting.Config{Engine: d.Socket(), Prefix: d.Namespace(t).Prefix}

	secrets := map[string]string{
		"key": random(t), "chain": "-----BEGIN THING-----\n" + random(t) + "\n" + random(t) + "\n",
		"registries/registry.test": `{"username":"ada","password":"` + random(t) + `"}`,
	}
	for name, value := range secrets {
		path := filepath.Join(b.state, "secrets", name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testkit.Must(t, os.WriteFile(path, []byte(value), 0o600))
	}
	tells := []string{`echo raw "$$KEY" $$(cat /run/secrets/chain)`, `echo twice "$$KEY" | base64 | tr -d '\n'; echo; echo "$$KEY" | base64`,
		`printf %s "$$KEY" | hexdump -ve '1/1 "%02x"'; echo; cat /run/secrets/chain`}
	compose := func(tell string) declare {
		return declare{"fleet.yaml": secretFleet, "bundles/web/bundle.yaml": "compose: compose.yaml\n",
			"bundles/web/compose.yaml": strings.Replace(secretCompose, "TELL", strings.ReplaceAll(tell, `"`, `\"`), 1)}
	}
	for i, tell := range tells {
		o.push(e.release([]string{"v1", "v2", "v3"}[i], compose(tell)))
		if i == 0 {
			b.start()
		}
		n := bytes.Count(sent.all(), []byte("[secret "))
		testkit.Eventually(t, "the host tells of the failure without the secret", func() bool { return bytes.Count(sent.all(), []byte("[secret ")) > n })
	}
	b.stop()
	o.stop()

	testkit.Must(t, filepath.WalkDir(b.state, func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() || !strings.Contains(f.Name(), "key") || strings.Contains(path, "secrets") {
			return err
		}
		raw := testkit.Value(os.ReadFile(path))(t)
		secrets[path] = string(raw)
		if block, _ := pem.Decode(raw); block != nil {
			secrets[path+" as bytes"] = string(block.Bytes)
		}
		return nil
	}))
	if len(secrets) < 6 {
		t.Errorf("only %d secrets are known: the host's own keys are not among them", len(secrets))
	}
	places := map[string][]byte{"what the host sent": sent.all(), "the agent's log": logged.all()}
	testkit.Must(t, filepath.WalkDir(filepath.Join(o.dir, "store"), func(path string, f fs.DirEntry, err error) error {
		if err == nil && f.Type().IsRegular() {
			places["the server's "+filepath.Base(path)] = testkit.Value(os.ReadFile(path))(t)
		}
		return err
	}))
	searched, forms := 0, 0
	for place, bytesOf := range places {
		searched += len(bytesOf)
		for name, value := range secrets {
			for form, how := range needles(value) {
				forms++
				if i := bytes.Index(bytesOf, []byte(form)); i >= 0 && !strings.HasPrefix(form, "-----") {
					t.Errorf("%s holds secret %s %s: …%q", place, name, how, bytesOf[max(0, i-200):i])
				}
			}
		}
	}
	t.Logf("%d bytes in %d places searched for %d forms of %d secrets", searched, len(places), forms, len(secrets))
}
