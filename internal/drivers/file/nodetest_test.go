package file

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/nodesdk"
	"github.com/steadyfleet/steady/nodesdk/nodetest"
)

// TestConformance runs the suite on each format. The device is the file; a person edits it
// with the same functions that the driver has, but without its care.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"f.json": "{\n  \"flows\": {},\n  \"version\": 1\n}\n", "f.yaml": "# of a device\nversion: 1\nflows: {}\n", "f.toml": "version = 1\n\n[flows]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodetest.Run(t, nodetest.Harness{
				Start: func(t *testing.T) *nodetest.Device { return device(t, name, text) },
				Examples: []nodetest.Example{
					{Kind: "flow", ID: "camera-1", Config: json.RawMessage(`{"port":5001,"auth":{"user":"u","password":"p4ss-w0rd"},"tags":["a","b"]}`),
						Edited: json.RawMessage(`{"port":5002,"auth":{"user":"u","password":"p4ss-w0rd"},"tags":["b"]}`), Secret: "auth/password"},
					{Kind: "flow", ID: "camera 2/b", Config: json.RawMessage(`{"port":6001.5,"on":true}`), Edited: json.RawMessage(`{"port":6001.5,"on":false}`)},
				},
				Many: func(n int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"port":%d}`, 10000+n)) },
			})
		})
	}
}

func device(t *testing.T, name, text string) *nodetest.Device {
	d := driver(t, name, text, Config{At: "flows"})
	path := d.o.Path
	return &nodetest.Device{
		Driver:      d,
		Collections: []nodesdk.Collection{{Kind: "flow", Secrets: []string{"auth/password"}, Ports: []string{"port"}}},
		EditByFile: func(_, id string, config json.RawMessage) error {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			var to map[string]any
			if config != nil {
				if err := json.Unmarshal(config, &to); err != nil {
					return err
				}
				for k, v := range to {
					if f, is := v.(float64); is {
						to[k] = json.Number(fmt.Sprint(f))
					}
				}
			}
			if raw, err = d.format.edit(raw, d.at, "", id, to); err != nil {
				return err
			}
			return os.WriteFile(path, raw, 0o600)
		},
		// A program that reads its file keeps what the file has.
		Restart: func() error {
			again, err := New(d.o)
			if err == nil {
				*d = *again
			}
			return err
		},
		RestartEmpty: func() error { return os.WriteFile(path, []byte(text), 0o600) },
		Break: func() (func() error, error) {
			away := filepath.Join(filepath.Dir(path), "away")
			return func() error { return os.Rename(away, path) }, os.Rename(path, away)
		},
	}
}
