package kea

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

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

// set is another program that has Kea run something else, and does not write it.
func (w *world) set(change func(config map[string]any)) {
	w.t.Helper()
	config := testkit.Value(w.Config())(w.t)
	change(config)
	testkit.Must(w.t, w.open().command(w.t.Context(), "config-set", map[string]any{root: config}, nil))
}

// TestReadAndThenSet: a file that Kea has read stays one when another program has it run something else
// at once; an edit that it has not read stays one too.
func TestReadAndThenSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open()
	lifetime := 100.0
	edits := map[string]func(text string) string{
		"a value":                            func(s string) string { return strings.Replace(s, "192.0.2.100", "192.0.2.99", 1) },
		"a member that is gone":              func(s string) string { return strings.Replace(s, `"authoritative":true,`, "", 1) },
		"the order of what is tried in turn": func(s string) string { return strings.Replace(s, `"a"},{"name":"b"}`, `"b"},{"name":"a"}`, 1) },
	}
	apply := func() error {
		lifetime++
		was := testkit.Value(d.Snapshot(t.Context()))(t).Items[0]
		edited := strings.Replace(string(was.Config), `"subnet4":`, fmt.Sprintf(`"renew-timer":%g,"subnet4":`, lifetime), 1)
		return d.Apply(t.Context(), document(edited, &was))
	}
	_, machine, _ := strings.Cut(w.First, `"Dhcp4": {`)
	machine = machine[:strings.LastIndex(machine, "}}")]
	written := `{"Dhcp4": {"authoritative":true,"client-classes":[{"name":"a"},{"name":"b"}],` + machine + `, ` + strings.TrimPrefix(fmt.Sprintf(byHand, 100), "{") + `}`
	for what, edit := range edits {
		testkit.Must(t, os.WriteFile(w.File, []byte(written), 0o644))
		testkit.Must(t, d.command(t.Context(), "config-reload", nil, nil))
		testkit.Value(d.Snapshot(t.Context()))(t)
		w.set(func(config map[string]any) { config["valid-lifetime"] = lifetime + 1000 })
		if err := apply(); err != nil {
			t.Errorf("after a file was read: %v", err)
		}
		testkit.Must(t, os.WriteFile(w.File, []byte(written), 0o644))
		testkit.Must(t, d.command(t.Context(), "config-reload", nil, nil))
		testkit.Value(d.Snapshot(t.Context()))(t)
		old := w.File + ".old" // as a backup is put back, with its time
		testkit.Must(t, os.WriteFile(old, []byte(edit(written)), 0o644))
		testkit.Must(t, os.Chtimes(old, time.Unix(1e9, 0), time.Unix(1e9, 0)))
		info := testkit.Value(os.Stat(w.File))(t).Sys().(*syscall.Stat_t)
		testkit.Must(t, os.Chown(old, int(info.Uid), int(info.Gid)))
		testkit.Must(t, os.Rename(old, w.File))
		w.set(func(config map[string]any) { config["calculate-tee-times"] = true })
		for _, by := range []*Driver{d, w.open()} { // one that was there, and one that is new
			d, by = by, d
			if err := apply(); err == nil || !strings.Contains(err.Error(), "has not read") {
				t.Errorf("an edit of %s, and then another program's, is answered with %v", what, err)
			}
			d = by
		}
		testkit.Must(t, d.command(t.Context(), "config-reload", nil, nil))
		if err := apply(); err != nil {
			t.Errorf("after the edit was read: %v", err)
		}
	}
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

// TestDefaultsThatKeaDemands: whatever member of a section differs from its default, or none but a
// comment, what the driver takes for the document can be pushed.
func TestDefaultsThatKeaDemands(t *testing.T) {
	t.Parallel()
	d := newWorld(t).open()
	others := map[string]any{ // values that are no defaults, where the next number is none that Kea takes
		"enable-updates": false, "ncr-format": "JSON", "ncr-protocol": "UDP", "sender-ip": "127.0.0.1", "server-ip": "127.0.0.2", "queue-type": "kea-ring4",
		"enable-queue": true, "lease-checks": "fix", "enable-multi-threading": true,
	}
	sections := 0
	for section, members := range defaults {
		if _, alone := defaults[""][section]; alone || strings.Contains("client-classes option-data pools reservations shared-networks subnet4", section) {
			continue // lists of objects, and the whole
		}
		sections++
		for name, v := range members {
			other, there := others[name]
			if n, is := v.(json.Number); is && !there {
				i := testkit.Value(n.Int64())(t)
				other, there = i+1, true
			}
			if !there {
				t.Fatalf("name a value of %s/%s that is no default", section, name)
			}
			for what, m := range map[string]map[string]any{"the member": {name: other}, "a comment": {"user-context": map[string]any{"comment": "none"}, name: v}} {
				raw := testkit.Value(json.Marshal(map[string]any{section: m}))(t)
				it := d.Normalize(nodesdk.Item{Kind: "document", ID: root, Config: raw})
				if p := testkit.Value(d.Validate(t.Context(), it))(t); len(p) > 0 {
					t.Errorf("%s with %s of %s, which is %s, is refused: %+v", section, what, name, it.Config, p)
				}
			}
		}
	}
	if sections < 5 {
		t.Errorf("only %d sections were tried", sections)
	}
}

// TestEditBesideDemandedDefaults: a Kea whose file has such a section is adopted and edited, and the
// section stays as it was.
func TestEditBesideDemandedDefaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.open()
	for _, section := range []string{`{"comment":"none","enable-updates":false}`, `{"enable-updates":false,"max-queue-size":2048}`} {
		testkit.Must(t, w.edit(json.RawMessage(`{"dhcp-ddns":`+section+`}`)))
		w.Restart(false)
		testkit.Eventually(t, "Kea answers", func() bool { _, _, err := d.get(t.Context()); return err == nil })
		before, _, err := d.get(t.Context())
		testkit.Must(t, err)
		was := testkit.Value(d.Snapshot(t.Context()))(t).Items[0]
		var m map[string]any
		testkit.Must(t, json.Unmarshal(was.Config, &m))
		m["valid-lifetime"] = 4321
		testkit.Must(t, d.Apply(t.Context(), document(string(testkit.Value(json.Marshal(m))(t)), &was)))
		after, _, err := d.get(t.Context())
		testkit.Must(t, err)
		if !reflect.DeepEqual(after["dhcp-ddns"], before["dhcp-ddns"]) || after["valid-lifetime"] != json.Number("4321") {
			t.Errorf("dhcp-ddns was %v and is %v, and the lifetime %v", before["dhcp-ddns"], after["dhcp-ddns"], after["valid-lifetime"])
		}
	}
}

// byHand is a document as people write it, which Kea spells and orders in another way.
const byHand = `{"valid-lifetime":%d,
	"subnet4":[{"id":1,"subnet":"192.0.2.0/24","pools":[{"pool":"192.0.2.1 - 192.0.2.100"},],
	"reservations":[{"hw-address":"1A:1b:1c:1d:1e:1f","ip-address":"192.0.2.201"},{"client-id":"01:11:22:33:44:55:66","ip-address":"192.0.2.202"},{"duid":"01:02:03:04:05","ip-address":"192.0.2.203"}]}],}`

// TestFileWrittenAsKeaStarts: a file that was written right before Kea started is one that Kea has read.
// One that was edited right after is not.
func TestFileWrittenAsKeaStarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, machine, _ := strings.Cut(w.First, `"Dhcp4": {`)
	machine = machine[:strings.LastIndex(machine, "}}")]
	for lifetime := 100; lifetime < 105; lifetime++ {
		w.Kill()
		written := `{"Dhcp4": {` + machine + `, ` + strings.TrimPrefix(fmt.Sprintf(byHand, lifetime), "{") + `}`
		w.First = written
		w.Restart(true)
		d := w.open()
		testkit.Eventually(t, "Kea answers", func() bool { _, _, err := d.get(t.Context()); return err == nil })
		was := testkit.Value(d.Snapshot(t.Context()))(t).Items[0]
		edited := strings.Replace(string(was.Config), `"valid-lifetime":`, `"renew-timer":50,"valid-lifetime":`, 1)
		if lifetime%2 == 0 {
			testkit.Must(t, d.Apply(t.Context(), document(edited, &was)))
			continue
		}
		testkit.Must(t, os.WriteFile(w.File, []byte(strings.Replace(written, "192.0.2.100", "192.0.2.99", 1)), 0o644))
		if err := d.Apply(t.Context(), document(edited, &was)); err == nil || !strings.Contains(err.Error(), "has not read") {
			t.Errorf("an edit right after the start is answered with %v", err)
		}
	}
}
