package e2e

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
)

// keeper is a device that keeps secrets.
type keeper struct {
	driver  string
	options []string
	only    string // the document that is all that it has; empty for flows
	fields  []string
	// config has a secret in each of the fields, as the device has it, or as a reference. A
	// broken one the device refuses.
	config func(id string, secret func(field string) any, broken bool) map[string]any
	byHand func(id string, config map[string]any) // nil deletes
}

// keepers has a row for each driver whose devices keep secrets. Toxiproxy has none.
var keepers = map[string]func(t *testing.T) *keeper{"file": fileKeeper, "janus": janusKeeper, "caddy": caddyKeeper, "netconf": netconfKeeper, "kea": keaKeeper}

// fileKeeper has a validate command that repeats all that it is given.
func fileKeeper(t *testing.T) *keeper {
	dir := testkit.Folder(t, map[string]string{"flows.json": "{}", "validate": "#!/bin/sh\nif grep -q broken $1; then cat $1 >&2; base64 -w0 $1 >&2; exit 1; fi\n"})
	path := filepath.Join(dir, "flows.json")
	return &keeper{driver: "file", fields: []string{"pin", "auth/key", "auth/list"},
		options: []string{"path=" + path, "secrets=pin,auth", "validate=" + filepath.Join(dir, "validate") + " {}"},
		config: func(_ string, secret func(string) any, broken bool) map[string]any {
			c := map[string]any{"input": "x", "pin": secret("pin"), "auth": map[string]any{"key": secret("auth/key"), "list": []any{secret("auth/list")}}}
			if broken {
				c["input"] = "broken"
			}
			return c
		},
		byHand: func(id string, config map[string]any) {
			all := map[string]any{}
			testkit.Must(t, json.Unmarshal(testkit.Value(os.ReadFile(path))(t), &all))
			all[id] = config
			if config == nil {
				delete(all, id)
			}
			testkit.Must(t, os.WriteFile(path+".new", testkit.Value(json.Marshal(all))(t), 0o600))
			testkit.Must(t, os.Rename(path+".new", path))
		}}
}

func janusKeeper(t *testing.T) *keeper {
	j := testkit.StartJanus(t)
	ports, known := testkit.Ports(t, "udp", 4), map[string]int{"kept": 0, "made": 1, "found": 2, "broken": 3}
	secrets := map[string]any{} // of mountpoints
	return &keeper{driver: "janus", options: []string{"url=" + j.URL, "config-dir=" + j.Dir}, fields: []string{"secret", "pin", "srtpcrypto", "rtsp_pwd"},
		config: func(id string, secret func(string) any, broken bool) map[string]any {
			if broken { // nothing answers there
				return map[string]any{"type": "rtsp", "url": "rtsp://127.0.0.1:1/x", "rtsp_user": "u", "rtsp_pwd": secret("rtsp_pwd"), "secret": secret("secret"), "pin": secret("pin"), "video": true}
			}
			return map[string]any{"type": "rtp", "secret": secret("secret"), "pin": secret("pin"), "srtpsuite": 80, "srtpcrypto": secret("srtpcrypto"),
				"media": []any{map[string]any{"mid": "v", "type": "video", "port": ports[known[id]], "pt": 100, "codec": "vp8"}}}
		},
		byHand: func(id string, config map[string]any) {
			data := testkit.Value(j.Request(map[string]any{"request": "list"}))(t)
			all, _ := data["list"].([]any)
			for _, s := range all {
				key := s.(map[string]any)["id"]
				for _, known := range []any{secrets[id], secretIn(j.File(), id)} {
					info, err := j.Request(map[string]any{"request": "info", "id": key, "secret": known})
					if err == nil && info["info"].(map[string]any)["name"] == id {
						_, _ = j.Request(map[string]any{"request": "destroy", "id": key, "secret": known, "permanent": true}) // with one of the two it goes
					}
				}
			}
			if config == nil {
				return
			}
			req := maps.Clone(config)
			maps.Copy(req, map[string]any{"request": "create", "name": id, "id": 9000 + known[id], "permanent": true, "admin_key": testkit.JanusAdminKey})
			testkit.Value(j.Request(req))(t)
			secrets[id] = config["secret"]
		}}
}

// secretIn is that of a mountpoint in Janus' file.
func secretIn(path, id string) string {
	raw, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut(string(raw), "\n"+id+" : ")
	_, rest, _ = strings.Cut(rest, "\n  secret = \"")
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

func caddyKeeper(t *testing.T) *keeper {
	c := testkit.StartCaddy(t)
	ports, known := testkit.Ports(t, "tcp", 4), map[string]int{"kept": 0, "made": 1, "found": 2, "broken": 3}
	return &keeper{driver: "caddy", options: []string{"url=" + c.URL}, fields: []string{"password", "salt", "Authorization", "Cookie"},
		config: func(id string, secret func(string) any, broken bool) map[string]any {
			account := map[string]any{"username": "u", "password": secret("password"), "salt": secret("salt")}
			hash := "scrypt"
			if broken {
				hash = "no-such"
			}
			return map[string]any{"automatic_https": map[string]any{"disable": true}, "listen": []any{fmt.Sprintf("127.0.0.1:%d", ports[known[id]])},
				"routes": []any{map[string]any{"handle": []any{
					map[string]any{"handler": "authentication", "providers": map[string]any{"http_basic": map[string]any{"accounts": []any{account}, "hash": map[string]any{"algorithm": hash}}}},
					map[string]any{"handler": "headers", "request": map[string]any{"set": map[string]any{"Authorization": []any{secret("Authorization")}, "Cookie": []any{secret("Cookie")}}}},
				}}}}
		},
		byHand: func(id string, config map[string]any) {
			at := "/config/apps/http/servers/" + id
			if config == nil {
				testkit.Value(c.Do(http.MethodDelete, at, nil))(t)
				return
			}
			testkit.Value(c.Do(http.MethodPost, at, testkit.Value(json.Marshal(config))(t)))(t)
		}}
}

func netconfKeeper(t *testing.T) *keeper {
	w := testkit.StartNetconf(t)
	hand := newNetconfHand(t, w)
	known := map[string]int{"kept": 1, "made": 2, "found": 3, "broken": 70_000} // which is no port
	return &keeper{driver: "netconf", options: pairs(w.Options()), fields: []string{"auth/password"},
		config: func(id string, secret func(string) any, _ bool) map[string]any {
			return map[string]any{"port": known[id], "auth": map[string]any{"user": "u", "password": secret("auth/password")}}
		},
		byHand: func(id string, config map[string]any) {
			if config == nil {
				hand.edit(id, nil)
				return
			}
			hand.edit(id, testkit.Value(json.Marshal(config))(t))
		}}
}

func keaKeeper(t *testing.T) *keeper {
	k := testkit.StartKea(t)
	return &keeper{driver: "kea", only: "Dhcp4", options: []string{"url=" + k.URL, "file=" + k.File, "local=" + testkit.KeaLocal},
		fields: []string{"user-context/password", "subnet4/0/user-context/token"},
		config: func(_ string, secret func(string) any, broken bool) map[string]any {
			lifetime := any(3600)
			if broken {
				lifetime = "x"
			}
			return map[string]any{"valid-lifetime": lifetime, "user-context": map[string]any{"password": secret("user-context/password")},
				"subnet4": []any{map[string]any{"id": 7, "subnet": "192.0.2.0/24", "user-context": map[string]any{"token": secret("subnet4/0/user-context/token")}}}}
		},
		byHand: func(_ string, config map[string]any) { k.Edit(config) }}
}

// canaries are values that must not leave a node.
type canaries struct {
	mu  sync.Mutex
	all map[string]string // where each was planted
}

func (c *canaries) plant(t *testing.T, where string) string {
	raw := make([]byte, 30)
	testkit.Value(rand.Read(raw))(t)
	v := base64.StdEncoding.EncodeToString(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[v] = where
	return v
}

// of are the fields of a driver in which there are some, and the ways in which they came there.
func (c *canaries) of(driver string) (fields, ways map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fields, ways = map[string]bool{}, map[string]bool{}
	for _, where := range c.all {
		if at := strings.Fields(where); at[0] == driver {
			fields[at[1]], ways[at[2]] = true, true
		}
	}
	return fields, ways
}

// hiding is one device whose secrets are planted.
type hiding struct {
	*plant
	*keeper
	t    *testing.T
	node *nodeRun
	c    *canaries
	seen *tap
}

// hand has an object be by hand, with new secrets.
func (h *hiding) hand(id, how string) {
	h.byHand(id, h.config(id, func(field string) any { return h.c.plant(h.t, h.driver+" "+field+" "+how) }, false))
}

// want has an operator want an object, with new secrets that are stored on the node.
func (h *hiding) want(id, how string, broken bool) {
	h.t.Helper()
	config := h.config(id, func(field string) any {
		name := strings.ReplaceAll(field, "/", "-") + "-" + how
		h.node.secret(name, h.c.plant(h.t, h.driver+" "+field+" "+how))
		return map[string]string{"$secret": name}
	}, broken)
	d := nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: h.kind(), Node: h.node.name, ID: id, Config: testkit.Value(json.Marshal(config))(h.t)}}}
	testkit.Value(h.client.SetObject(context.Background(), h.kind(), h.name(id), operator.SetObject{Definition: d, Reason: "trial"}))(h.t)
}

func (h *hiding) name(id string) string {
	if h.only != "" {
		return strings.ToLower(h.only)
	}
	return h.driver + "-" + id
}

func (h *hiding) kind() string {
	if h.only != "" {
		return nodeconfig.Document
	}
	return nodeconfig.Flow
}

func (h *hiding) run() {
	made, broken := "made", "broken"
	if h.only != "" {
		made, broken = h.only, h.only
	}
	h.hand(cmp.Or(h.only, "kept"), "had-before")
	h.node = h.plant.node("of-"+h.driver, h.driver, h.options...)
	h.node.start()
	h.untilNode(h.node.name, "asks what becomes of what it had", func(d drift.NodeDetail) bool { return d.Adoption != nil })
	h.look()
	testkit.Value(h.client.AdoptObjects(context.Background(), h.node.name, operator.Adopt{Reason: "trial"}))(h.t)
	h.want(made, "named", false)
	h.pushed(h.kind(), h.name(made))
	h.settled(h.node.name)
	h.want(made, "named-again", false)
	h.pushed(h.kind(), h.name(made))
	h.settled(h.node.name)

	h.hand(made, "by-hand")
	undo := h.resolve(h.episode(h.node.name, made, drift.Mismatched), drift.ActionRepush)
	h.settled(h.node.name)
	h.undo(undo)
	h.settled(h.node.name)

	h.node.stop() // both sides change it: a conflict
	h.hand(made, "conflict")
	h.want(made, "conflict-named", false)
	h.node.launch()
	e := h.episode(h.node.name, made, drift.Mismatched)
	h.look()
	undo = h.resolve(e, drift.ActionIngest)
	h.settled(h.node.name)
	h.undo(undo)
	h.resolve(h.episode(h.node.name, made, drift.Mismatched), drift.ActionRepush)
	h.settled(h.node.name)

	if h.only == "" {
		h.hand("found", "extraneous")
		undo = h.resolve(h.episode(h.node.name, "found", drift.Extraneous), drift.ActionDeleteNode)
		h.settled(h.node.name)
		h.undo(undo) // it comes back with its secrets, which the node alone has
		h.settled(h.node.name)
	}

	h.want(broken, "refused", true)
	testkit.Eventually(h.t, h.driver+" refuses an object", func() bool {
		o := h.object(h.kind(), h.name(broken))
		return o != nil && o.Status == drift.Failed
	})
	h.t.Log(h.object(h.kind(), h.name(broken)).Legs[0].Error)
	h.look()
	if fields, ways := h.c.of(h.driver); len(fields) != len(h.fields) || len(ways) < 7 {
		h.t.Errorf("%s: secrets were planted in the fields %v in the ways %v: expected %v, and seven ways at least", h.driver, fields, ways, h.fields)
	}
}

// look reads all that the API has to say now.
func (h *hiding) look() {
	conn := readContext(h.t, h.where.Context)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(conn.CA))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer client.CloseIdleConnections()
	get := func(path string) []byte {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		if strings.HasSuffix(path, "/stream") || strings.Contains(path, "/live") { // they have no end
			ctx, cancel = context.WithTimeout(context.Background(), 300*time.Millisecond)
		}
		defer cancel()
		req := testkit.Value(http.NewRequestWithContext(ctx, http.MethodGet, h.where.Operator+path, nil))(h.t)
		req.Header.Set("Authorization", "Bearer "+conn.Token)
		res, err := client.Do(req)
		if err != nil {
			return nil
		}
		defer res.Body.Close()
		raw, _ := io.ReadAll(res.Body) // what came in time
		_, _ = fmt.Fprintf(h.seen, "\n%s %s\n%s", path, res.Status, raw)
		return raw
	}
	var api struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	testkit.Must(h.t, json.Unmarshal(get(operator.Prefix+"/openapi.json"), &api))
	with := map[string][]string{"node": {h.node.name}, "kind": {h.kind()}, "name": nil}
	for _, id := range []string{"kept", "made", "found", "broken"} {
		with["name"] = append(with["name"], h.name(id))
	}
	for _, e := range testkit.Value(h.client.Drift(context.Background(), operator.DriftQuery{}))(h.t) {
		with["id"] = append(with["id"], e.ID)
	}
	for path, verbs := range api.Paths {
		if verbs["get"] != nil {
			for _, p := range filled(path, with) {
				get(p)
			}
		}
	}
}

// filled is an address with every value in the places of its parameters.
func filled(path string, with map[string][]string) (out []string) {
	before, rest, is := strings.Cut(path, "{")
	if !is {
		return []string{path}
	}
	param, after, _ := strings.Cut(rest, "}")
	values := with[param]
	if values == nil {
		values = []string{"none"}
	}
	for _, v := range values {
		out = append(out, filled(before+v+after, with)...)
	}
	return out
}

// TestS39NoSecretLeavesANode: secrets are planted in every field of every driver that has
// some: those that a device had before, that the node keeps by name, that somebody edits by
// hand, that are in conflict, deleted and restored, and that the device repeats in an error.
// No form of any is in the server's data folder, in any answer of its API, in a log, or in the
// node's state but for the two files that keep them.
func TestS39NoSecretLeavesANode(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	c, seen := &canaries{all: map[string]string{}}, &tap{}
	places := map[string][]byte{}
	var all sync.WaitGroup
	for name, start := range keepers {
		all.Go(func() {
			t.Run(name, func(t *testing.T) { (&hiding{plant: p.of(t), keeper: start(t), t: t, c: c, seen: seen}).run() })
		})
	}
	all.Wait()
	p.whole()
	places["answers of the API"] = seen.all()
	kept := 0
	testkit.Must(t, filepath.WalkDir(p.dir, func(path string, f fs.DirEntry, err error) error {
		if err != nil || !f.Type().IsRegular() {
			return err
		}
		if name := f.Name(); name == "vault.json" || name == "secrets.json" {
			kept += bytes.Count(testkit.Value(os.ReadFile(path))(t), []byte(`"`))
			return nil
		}
		places[strings.TrimPrefix(path, p.dir)] = testkit.Value(os.ReadFile(path))(t)
		return nil
	}))
	searched, found := 0, 0
	for _, place := range slices.Sorted(maps.Keys(places)) {
		raw := places[place]
		searched += len(raw)
		for value, where := range c.all {
			for form, how := range needles(value) {
				if i := bytes.Index(raw, []byte(form)); i >= 0 {
					found++
					t.Errorf("%s holds the secret of %s %s: …%q", place, where, how, raw[max(0, i-200):i])
				}
			}
		}
	}
	if len(c.all) == 0 || kept == 0 || !bytes.Contains(places["answers of the API"], []byte("hmac:")) {
		t.Errorf("%d secrets were planted, and %d are kept on nodes: nothing was searched for", len(c.all), kept)
	}
	t.Logf("%d bytes in %d places searched for %d secrets", searched, len(places), len(c.all))
}
