package kea

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
	"github.com/steadyfleet/steady/nodesdk/nodetest"
)

// world is a Kea of this test alone.
type world struct {
	*testkit.Kea
	t *testing.T
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{testkit.StartKea(t), t}
}

func (w *world) open() *Driver {
	w.t.Helper()
	d, _, err := Open(map[string]string{"url": w.URL, "file": w.File, "local": testkit.KeaLocal})
	testkit.Must(w.t, err)
	return d.(*Driver)
}

// edit changes what the machine keeps as a person does with an editor.
func (w *world) edit(config json.RawMessage) error {
	raw, err := os.ReadFile(w.File)
	if err != nil {
		return err
	}
	all, err := parseFile(raw)
	if err != nil {
		return err
	}
	to := map[string]any{}
	if config != nil {
		if err := json.Unmarshal(config, &to); err != nil {
			return err
		}
	}
	for _, name := range strings.Split(testkit.KeaLocal, ",") {
		to[name] = all[name]
	}
	out, err := json.MarshalIndent(map[string]any{root: to}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(w.File, append([]byte("// edited by hand\n"), out...), 0o644)
}

const subnet = `{"id":7,"subnet":"192.0.2.0/24","pools":[{"pool":"192.0.2.10 - 192.0.2.20"}],"reservations":[{"hw-address":"1a:1b:1c:1d:1e:1f","ip-address":"192.0.2.201"}]}`

func TestConformance(t *testing.T) {
	t.Parallel()
	nodetest.Run(t, nodetest.Harness{
		Start: func(t *testing.T) *nodetest.Device {
			w := newWorld(t)
			_, collections, err := Open(map[string]string{"url": w.URL})
			testkit.Must(t, err)
			d, hand := w.open(), w.open()
			return &nodetest.Device{
				Driver: d, Collections: collections,
				EditByFile: func(_, _ string, config json.RawMessage) error {
					return errors.Join(w.edit(config), hand.command(t.Context(), "config-reload", nil, nil))
				},
				EditByAPI: func(_, id string, config json.RawMessage) error {
					now, _, err := hand.get(t.Context())
					if err != nil {
						return err
					}
					to, err := hand.target(nodesdk.Op{ID: id, Config: config, Delete: config == nil}, now)
					if err != nil {
						return err
					}
					return hand.command(t.Context(), "config-set", to, nil)
				},
				Restart:      func() error { w.Restart(false); return nil },
				RestartEmpty: func() error { w.Restart(true); return nil },
				Break: func() (func() error, error) {
					w.Kill()
					return func() error { w.Restart(false); return nil }, nil
				},
				// Kea sets what it then cannot write.
				Partial: func() error { return os.Chmod(w.File, 0o444) },
			}
		},
		Single: true,
		Examples: []nodetest.Example{{Kind: "document", ID: root, Secret: "user-context/password",
			Config: json.RawMessage(`{"valid-lifetime":3600,"subnet4":[` + subnet + `],"user-context":{"password":"p4ss-w0rd"}}`),
			Edited: json.RawMessage(`{"valid-lifetime":3600,"subnet4":[` + subnet + `,{"id":8,"subnet":"198.51.100.0/24"}],"user-context":{"password":"p4ss-w0rd"}}`)}},
	})
}

func document(config string, was *nodesdk.Item) nodesdk.Op {
	return nodesdk.Op{Number: 1, Kind: "document", ID: root, Config: json.RawMessage(config), Delete: config == "", Was: was}
}

// TestProblemsHavePositions: Kea tells the column of its own spelling of the command, which is
// the field's here.
func TestProblemsHavePositions(t *testing.T) {
	t.Parallel()
	d := newWorld(t).open()
	for config, field := range map[string]string{
		`{"subnet4":[],"valid-lifetime":"x"}`:                                             "valid-lifetime",
		`{"zz":1,"authoritative":true,"server-tag":"<é\"\\>"}`:                            "zz",
		`{"subnet4":[{"id":1,"subnet":"10.0.0.0/24"},{"id":2,"subnet":"10.1.0.0/33"}]}`:   "subnet4/1",
		`{"option-data":[{"name":"routers","data":"10.0.0.1"},{"name":"no","data":"1"}]}`: "option-data/1",
		`{"control-socket":{}}`: "control-socket",
	} {
		problems := testkit.Value(d.Validate(t.Context(), nodesdk.Item{Kind: "document", ID: root, Config: json.RawMessage(config)}))(t)
		if len(problems) != 1 || !strings.HasPrefix(problems[0].Field, field) {
			t.Errorf("%s is answered with %+v", config, problems)
		}
		var invalid *nodesdk.InvalidError
		if err := d.Apply(t.Context(), document(config, nil)); !errors.As(err, &invalid) {
			t.Errorf("applying %s ends with %v", config, err)
		}
	}
	if p := testkit.Value(d.Validate(t.Context(), nodesdk.Item{Kind: "document", ID: root, Config: json.RawMessage(`{"valid-lifetime":60}`)}))(t); len(p) != 0 {
		t.Errorf("a good one is answered with %+v", p)
	}
	if s := testkit.Value(d.Snapshot(t.Context()))(t); len(s.Items) != 0 {
		t.Errorf("then it has %+v", s.Items)
	}
}

// TestUnreadFile: an edit that Kea has not read is not overwritten, in what the document has
// and in what belongs to the machine.
func TestUnreadFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open()
	testkit.Must(t, d.Apply(t.Context(), document(`{"valid-lifetime":60}`, nil)))
	was := &testkit.Value(d.Snapshot(t.Context()))(t).Items[0]
	for what, change := range map[string][2]string{"the document": {`"valid-lifetime": 60`, `"valid-lifetime": 61`}, "the machine": {`"severity": "WARN"`, `"severity": "INFO"`}} {
		raw := testkit.Value(os.ReadFile(w.File))(t)
		edited := strings.Replace(string(raw), change[0], change[1], 1)
		if edited == string(raw) {
			t.Fatalf("the file has no %s: %s", change[0], raw)
		}
		testkit.Must(t, os.WriteFile(w.File, []byte(edited), 0o644))
		if err := d.Apply(t.Context(), document(`{"valid-lifetime":62}`, was)); err == nil || !strings.Contains(err.Error(), "has not read") {
			t.Errorf("with an edit of %s it ends with %v", what, err)
		}
		if now := testkit.Value(os.ReadFile(w.File))(t); string(now) != edited {
			t.Errorf("the edit of %s was overwritten", what)
		}
		testkit.Must(t, os.WriteFile(w.File, raw, 0o644))
	}
	testkit.Must(t, d.Apply(t.Context(), document(`{"valid-lifetime":62}`, was)))
}

// TestNormal: what Kea adds to a configuration is no part of it.
func TestNormal(t *testing.T) {
	t.Parallel()
	d := newWorld(t).open()
	for _, text := range []string{
		`{"valid-lifetime":3600,"subnet4":[` + subnet + `]}`, `{"subnet4":[{"id":1,"subnet":"10.0.0.0/8","valid-lifetime":60,"t1-percent":0.4}],"t1-percent":0.4}`,
		`{"shared-networks":[{"name":"f","valid-lifetime":100,"subnet4":[{"id":9,"subnet":"10.9.0.0/24"}]}],"dhcp-ddns":{"enable-updates":false,"server-port":53002}}`,
		`{"client-classes":[{"name":"voip","test":"member('KNOWN')"}],"option-data":[{"name":"routers","code":3,"data":"10.0.0.1"}]}`,
		`{"user-context":{"null":null,"float":1.0,"integer":9007199254740993,"object":{},"list":[],"text":""}}`,
	} {
		var was *nodesdk.Item
		if s := testkit.Value(d.Snapshot(t.Context()))(t); len(s.Items) > 0 {
			was = &s.Items[0]
		}
		testkit.Must(t, d.Apply(t.Context(), document(text, was)))
		want := d.Normalize(nodesdk.Item{ID: root, Config: json.RawMessage(text)})
		if got := testkit.Value(d.Snapshot(t.Context()))(t).Items[0]; string(got.Config) != string(want.Config) {
			t.Errorf("%s became\n%s, not\n%s", text, got.Config, want.Config)
		}
	}
}
