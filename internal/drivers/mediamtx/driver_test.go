package mediamtx

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
	"github.com/steadyfleet/steady/nodesdk/nodetest"
)

// TestConformance needs the real program, which is in no registry that CI uses.
func TestConformance(t *testing.T) {
	testkit.Needs(t, testkit.MediaMTX)
	nodetest.Run(t, nodetest.Harness{
		Start: device,
		Examples: []nodetest.Example{
			{Kind: "flow", ID: "hall/camera-1", Secret: "srtReadPassphrase",
				Config: json.RawMessage(`{"maxReaders":5,"srtReadPassphrase":"p4ss-w0rd-10"}`), Edited: json.RawMessage(`{"maxReaders":6,"srtReadPassphrase":"p4ss-w0rd-10"}`)},
			{Kind: "flow", ID: "camera-2", Config: json.RawMessage(`{"source":"rtsp://127.0.0.1:9/a","sourceOnDemand":true}`), Edited: json.RawMessage(`{"overridePublisher":false}`)},
		},
	})
}

func device(t *testing.T) *nodetest.Device {
	addr := testkit.FreeAddr(t)
	file := filepath.Join(t.TempDir(), "mediamtx.yml")
	text := "api: yes\napiAddress: " + addr + "\nauthInternalUsers: [{user: any, pass: '', ips: [], permissions: [{action: api}]}]\n"
	for _, server := range []string{"rtsp", "rtmp", "hls", "webrtc", "srt"} {
		text += server + ": no\n"
	}
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	driver, collections, err := Open(map[string]string{"url": "http://" + addr})
	testkit.Must(t, err)
	d := driver.(*Driver)
	var running *testkit.Process
	start := func() error {
		running = testkit.Start(t, exec.Command("mediamtx", file))
		testkit.Eventually(t, "MediaMTX answers", func() bool { _, err := d.list(t.Context()); return err == nil })
		return nil
	}
	testkit.Must(t, start())
	return &nodetest.Device{
		Driver: d, Collections: collections,
		EditByAPI: func(_, id string, config json.RawMessage) error {
			if config == nil {
				return d.api.Do(t.Context(), "DELETE", at("delete", id), nil, nil)
			}
			return d.api.Do(t.Context(), "POST", at("replace", id), config, nil)
		},
		RestartEmpty: func() error { running.Kill(); return start() },
	}
}

// described answers as the published description says: it tries what the driver reads, and
// nothing of MediaMTX.
type described struct {
	paths   []map[string]any
	status  int
	refusal string
	seen    []string
}

func (d *described) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.seen = append(d.seen, r.Method+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case d.status != 0 && r.Method != http.MethodGet:
		w.WriteHeader(d.status)
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "error": d.refusal})
	case r.URL.Path == "/v3/config/pathdefaults/get":
		_, _ = fmt.Fprint(w, `{"name":"","source":"publisher","maxReaders":0,"record":false}`)
	case r.URL.Path == "/v3/config/paths/list":
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		size, _ := strconv.Atoi(r.URL.Query().Get("itemsPerPage"))
		from, to := min(page*size, len(d.paths)), min((page+1)*size, len(d.paths))
		_ = json.NewEncoder(w).Encode(map[string]any{"itemCount": len(d.paths), "pageCount": (len(d.paths) + size - 1) / size, "items": append([]map[string]any{}, d.paths[from:to]...)})
	case r.URL.Path == "/v3/paths/get/a/b":
		_, _ = fmt.Fprint(w, `{"name":"a/b","ready":true}`)
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = fmt.Fprint(w, `{"status":"ok"}`)
	}
}

func describedDriver(t *testing.T, d *described, options ...string) *Driver {
	t.Helper()
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	o := map[string]string{"url": server.URL}
	for i := 0; i+1 < len(options); i += 2 {
		o[options[i]] = options[i+1]
	}
	driver, _, err := Open(o)
	testkit.Must(t, err)
	return driver.(*Driver)
}

func TestReadsPages(t *testing.T) {
	server := &described{}
	for n := range 2*pageSize + 1 {
		server.paths = append(server.paths, map[string]any{"name": fmt.Sprintf("p/%d", n), "source": "publisher", "maxReaders": n, "record": true, "fallback": nil})
	}
	d := describedDriver(t, server)
	s := testkit.Value(d.Snapshot(t.Context()))(t)
	if len(s.Items) != len(server.paths) || !s.Complete {
		t.Fatalf("%d of %d paths were read", len(s.Items), len(server.paths))
	}
	i := slices.IndexFunc(s.Items, func(it nodesdk.Item) bool { return it.ID == "p/7" })
	if got := string(s.Items[i].Config); got != `{"maxReaders":7,"record":true}` {
		t.Errorf("a path is %s", got)
	}
	for what, damage := range map[string]func(){
		"a path twice":        func() { server.paths[1] = server.paths[0] },
		"a path without name": func() { server.paths[1] = map[string]any{} },
	} {
		damage()
		if s, err := d.Snapshot(t.Context()); err == nil {
			t.Errorf("%s is read as %d paths", what, len(s.Items))
		}
	}
}

func TestRequests(t *testing.T) {
	server := &described{paths: []map[string]any{{"name": "a/b", "source": "rtsp://u:p@h/x"}, {"name": "old", "readPass": "***"}}}
	d := describedDriver(t, server)
	was := testkit.Value(d.Snapshot(t.Context()))(t).Items[0]
	apply := func(id, config string, was *nodesdk.Item) (string, error) {
		server.seen = nil
		err := d.Apply(t.Context(), nodesdk.Op{Kind: "flow", ID: id, Config: json.RawMessage(config), Delete: config == "", Was: was})
		return strings.Join(server.seen[min(2, len(server.seen)):], " "), err
	}
	for _, c := range []struct {
		id, config string
		was        *nodesdk.Item
		want       string
	}{
		{"new/one", `{"source":"publisher"}`, nil, "POST /v3/config/paths/add/new/one"},
		{"a/b", `{"maxReaders":1}`, &was, "POST /v3/config/paths/replace/a/b"},
		{"a/b", "", &was, "DELETE /v3/config/paths/delete/a/b"},
	} {
		if got, err := apply(c.id, c.config, c.was); err != nil || got != c.want {
			t.Errorf("%s %s is %q, %v", c.id, c.config, got, err)
		}
	}
	if got, err := apply("a/b", "", nil); !errors.Is(err, nodesdk.ErrConflict) || got != "" {
		t.Errorf("what was not seen is deleted: %q, %v", got, err)
	}
	for config, field := range map[string]string{`{"maxReaders":"5"}`: "maxReaders", `{"readPass":"x"}`: "readPass", `{"runOnInit":"rm"}`: "runOnInit", `{"name":"other"}`: "name"} {
		var invalid *nodesdk.InvalidError
		if got, err := apply("new", config, nil); !errors.As(err, &invalid) || invalid.Problems[0].Field != field || got != "" {
			t.Errorf("%s is %q, %v", config, got, err)
		}
	}
	old := nodesdk.Item{Kind: "flow", ID: "old", Config: json.RawMessage(`{"readPass":"***"}`)}
	if got, err := apply("old", `{"maxReaders":1}`, &old); err == nil || got != "" {
		t.Errorf("a hidden password is overwritten: %q, %v", got, err)
	}
	server.status, server.refusal = http.StatusBadRequest, "invalid source"
	var invalid *nodesdk.InvalidError
	if _, err := apply("new", `{"source":"x"}`, nil); !errors.As(err, &invalid) || invalid.Problems[0].Message != "invalid source" {
		t.Errorf("a refusal is %v", err)
	}
	server.status = http.StatusUnauthorized
	if _, err := apply("new", `{"source":"publisher"}`, nil); err == nil || errors.As(err, &invalid) {
		t.Errorf("without permission it ends with %v", err)
	}
	if effect, _, err := d.Probe(t.Context(), was); err != nil || effect != nodesdk.InEffect {
		t.Errorf("a path with a stream is %s, %v", effect, err)
	}
	if effect, _, err := d.Probe(t.Context(), old); err != nil || effect != nodesdk.NotInEffect {
		t.Errorf("a path without one is %s, %v", effect, err)
	}
}

func TestCommandsArePermitted(t *testing.T) {
	server := &described{}
	d := describedDriver(t, server, "commands", "allow")
	testkit.Must(t, d.Apply(t.Context(), nodesdk.Op{Kind: "flow", ID: "a", Config: json.RawMessage(`{"runOnInit":"true"}`)}))
}

func TestPasswordsInAddresses(t *testing.T) {
	d := &Driver{}
	it := d.Redact(nodesdk.Item{Config: json.RawMessage(`{"source":"rtsp://u:p@h/x","a":"rtsp://u@h/x","forward":[{"dest":"srt://h:1?streamid=x&passphrase=y"}],"b":"a:b@c"}`)},
		func(string) string { return "digest" })
	if got := string(it.Config); got != `{"a":"rtsp://u@h/x","b":"a:b@c","forward":[{"dest":"digest"}],"source":"digest"}` {
		t.Errorf("it is %s", got)
	}
}
