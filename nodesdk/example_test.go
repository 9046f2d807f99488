package nodesdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/nodesdk"
	"github.com/steadyfleet/steady/nodesdk/nodetest"
)

// Mixer is a driver of a device with an HTTP API: GET /streams lists all, PUT and DELETE of
// /streams/NAME change one.
type Mixer struct{ URL string }

// Snapshot reads all streams. Whatever is no complete answer is an error.
func (m *Mixer) Snapshot(ctx context.Context) (nodesdk.State, error) {
	var streams map[string]json.RawMessage
	if err := m.do(ctx, http.MethodGet, "/streams", nil, &streams); err != nil {
		return nodesdk.State{}, err
	}
	state := nodesdk.State{Complete: true}
	for name, config := range streams {
		state.Items = append(state.Items, nodesdk.Item{Kind: "flow", ID: name, Config: config})
	}
	return state, nil
}

// Apply creates, replaces or deletes a stream.
func (m *Mixer) Apply(ctx context.Context, op nodesdk.Op) error {
	if op.Delete {
		return m.do(ctx, http.MethodDelete, "/streams/"+url.PathEscape(op.ID), nil, nil)
	}
	return m.do(ctx, http.MethodPut, "/streams/"+url.PathEscape(op.ID), op.Config, nil)
}

// Normalize takes defaults away, so that a config without them is no other one. What it does not
// know it keeps to the digit.
func (m *Mixer) Normalize(it nodesdk.Item) nodesdk.Item {
	var config map[string]json.RawMessage
	if json.Unmarshal(it.Config, &config) != nil {
		return it
	}
	if string(config["gain"]) == "0" {
		delete(config, "gain")
	}
	it.Config, _ = json.Marshal(config)
	return it
}

// do turns the device's answers into the errors that the package knows.
func (m *Mixer) do(ctx context.Context, method, path string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, m.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnprocessableEntity:
		return &nodesdk.InvalidError{Problems: []nodesdk.Problem{{Message: "the mixer refuses it"}}}
	case resp.StatusCode == http.StatusNotFound && method == http.MethodDelete:
		return nil // deleting what is not there succeeds
	case resp.StatusCode >= 300:
		return fmt.Errorf("the mixer answers %s", resp.Status)
	case into != nil:
		return json.NewDecoder(resp.Body).Decode(into)
	}
	return nil
}

func ExampleRun() {
	// The file that steady node token studio-1 wrote, and a folder of the node's own.
	node, err := nodesdk.Open("/etc/mixer-node/studio-1.token", "/var/lib/mixer-node")
	if err != nil {
		return // where there is no fleet
	}
	node.Driver, node.DriverName, node.Program = &Mixer{URL: "http://127.0.0.1:8080"}, "mixer", "mixer-node 1.0"
	node.Collections = []nodesdk.Collection{{Kind: "flow", Secrets: []string{"password"}, Ports: []string{"port udp"}}}
	err = nodesdk.Run(context.Background(), node)
	fmt.Println(err)
}

// mixer is the device of the example: a small server with an API.
type mixer struct{ *memory }

func (m mixer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/streams/")
	switch r.Method {
	case http.MethodGet:
		m.mu.Lock()
		defer m.mu.Unlock()
		_ = json.NewEncoder(w).Encode(m.items)
	case http.MethodPut:
		var config map[string]json.RawMessage
		if json.NewDecoder(r.Body).Decode(&config) != nil || config["port"] == nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		if config["gain"] == nil {
			config["gain"] = json.RawMessage("0") // a default that the device fills in
		}
		raw, _ := json.Marshal(config)
		m.set(name, string(raw))
	case http.MethodDelete:
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.items, name)
	}
}

// TestExample runs the suite on the example: its device fills in a default, and has no
// revisions, so that an edit in the instant between comparison and change is not found.
func TestExample(t *testing.T) {
	nodetest.Run(t, nodetest.Harness{
		Edits: 200, // the SDK itself, in every run
		Start: func(t *testing.T) *nodetest.Device {
			m := mixer{newMemory()}
			server := httptest.NewServer(m)
			t.Cleanup(server.Close)
			return &nodetest.Device{
				Driver:      &Mixer{URL: server.URL},
				Collections: []nodesdk.Collection{{Kind: "flow", Secrets: []string{"password"}}},
				EditByAPI: func(_, id string, config json.RawMessage) error {
					method := http.MethodPut
					if config == nil {
						method = http.MethodDelete
					}
					return (&Mixer{URL: server.URL}).do(context.Background(), method, "/streams/"+url.PathEscape(id), config, nil)
				},
				NoRevisions:  true,
				RestartEmpty: func() error { m.mu.Lock(); defer m.mu.Unlock(); clear(m.items); return nil },
			}
		},
		Examples: []nodetest.Example{
			{Kind: "flow", ID: "desk", Config: json.RawMessage(`{"port":5004,"password":"p4ss"}`), Edited: json.RawMessage(`{"port":5006,"password":"p4ss","gain":3}`), Secret: "password"},
			{Kind: "flow", ID: "booth", Config: json.RawMessage(`{"port":5008}`), Edited: json.RawMessage(`{"port":5010}`)},
		},
	})
}
