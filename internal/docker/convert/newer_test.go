package convert_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/testkit"
)

// newer is a container of an engine with API 1.48 on cgroup v2. The document is
// not taken from an engine: it is written from the documented shape of the API,
// as Debian's engine, which the other tests run, ends at 1.41 and cgroup v1.
func newer(t *testing.T) (*spec.Deployment, convert.Inputs, *container.InspectResponse) {
	t.Helper()
	raw := testkit.Value(os.ReadFile("testdata/inspect-1.48.json"))(t)
	var c container.InspectResponse
	testkit.Must(t, json.Unmarshal(raw, &c))
	d := &spec.Deployment{
		Workspace: spec.Workspace{Name: "web", Image: "app", Command: []string{"serve"}, Env: []spec.Env{{Name: "A", Value: "1"}},
			Restart: spec.Restart{Policy: "always"}, Annotation: map[string]string{"com.example.a": "1"},
			Health: &spec.Health{Test: []string{"CMD", "/app", "check"}, Interval: 30 * clock.Second, StartPeriod: 20 * clock.Second, StartInterval: clock.Second},
			Ports:  []spec.Port{{HostPort: 8080, Port: 80, Protocol: "tcp"}},
			Mounts: []spec.Mount{{Type: spec.MountVolume, Source: "data", Target: "/data"},
				{Type: spec.MountBind, Source: "/etc/zones", Target: "/zones", ReadOnly: true, Recursive: "readonly", Propagation: "rprivate"}},
			Networks: []spec.Attachment{{Network: "front", Aliases: []string{"www"}, IPv4: "10.5.0.9", Priority: 3, GatewayPriority: 3}}, MAC: "02:42:0A:05:00:09",
			Limits: spec.Limits{Memory: 128 << 20}, Security: spec.Security{CapAdd: []string{"NET_ADMIN"}}},
		Uses: spec.Uses{Image: "app:1", Networks: map[string]string{"front": "edge-1.front"}, Volumes: map[string]string{"data": "edge-1.data"}},
	}
	in := convert.Inputs{Name: "edge-1.web", API: "1.48", Digest: key, Networks: map[string]string{"edge-1.front": "aa11"},
		Image: &image.InspectResponse{}}
	config := `{"Id": "` + c.Image + `", "Config": {"Env": ["PATH=/usr/bin:/bin"], "Entrypoint": ["/app"], "Cmd": ["help"]}}`
	testkit.Must(t, json.Unmarshal([]byte(config), in.Image))
	return d, in, &c
}

func newerRules(api string) diff.WorkspaceRules { return diff.WorkspaceRules{API: api} }

func TestS36NewerEngineAndCgroup2(t *testing.T) {
	d, in, c := newer(t)
	ds := testkit.Value(convert.Compare(d, in, c, nil, newerRules("1.48")))(t)
	same(t, "no baseline", ds)
	refused, err := convert.Refused(d, in, newerRules("1.48"))
	if err != nil || len(refused) != 0 {
		t.Errorf("refused are %v, %v", refused, err)
	}
	r := convert.Run(c)
	if r.State != convert.Running || r.Health != "healthy" || r.Restarts != 2 || !r.FinishedAt.IsZero() {
		t.Errorf("runs as %+v", r)
	}
	// API 1.44 still adds the start of the ID to the aliases.
	e := c.NetworkSettings.Networks["edge-1.front"]
	e.Aliases = append(e.Aliases, c.ID[:12])
	ds, err = convert.Compare(d, in, c, nil, newerRules("1.48"))
	testkit.Must(t, err)
	same(t, "API 1.44", ds)
}

// TestTrap07_MACByEndpoint is that of API 1.44 and later: the address belongs to
// the endpoint.
func TestTrap07_MACByEndpoint(t *testing.T) {
	d, in, c := newer(t)
	r, err := convert.Create(d, convert.CreateInputs{Inputs: in})
	if err != nil || r.First.Settings.MacAddress.String() != "02:42:0a:05:00:09" || r.First.Settings.GwPriority != 3 {
		t.Errorf("asked for is %+v, %v", r, err)
	}
	e := c.NetworkSettings.Networks["edge-1.front"]
	e.MacAddress = network.HardwareAddr{2, 0, 0, 0, 0, 1}
	ds, err := convert.Compare(d, in, c, nil, newerRules("1.48"))
	testkit.Must(t, err)
	wantFields(t, ds, classes{"network/edge-1.front/mac": diff.InPlace})
	e.MacAddress = nil // of a stopped container
	if ds, err = convert.Compare(d, in, c, nil, newerRules("1.48")); err != nil || len(ds) != 0 {
		t.Errorf("stopped: %v, %v", ds, err)
	}
	d.Workspace.MAC = "" // one that the engine chose
	e.MacAddress = network.HardwareAddr{2, 0, 0, 0, 0, 1}
	if ds, err = convert.Compare(d, in, c, nil, newerRules("1.48")); err != nil || len(ds) != 0 {
		t.Errorf("not asked for: %v, %v", ds, err)
	}
}

// TestOlderEnginesRefuseNewerFields: what API 1.41 would drop in silence is
// refused by name.
func TestOlderEnginesRefuseNewerFields(t *testing.T) {
	d, in, _ := newer(t)
	in.API = "1.41"
	d.Workspace.Limits.CPUCount, d.Workspace.Limits.CPUPerMille = 1, 100 // of Windows
	refused := testkit.Value(convert.Refused(d, in, newerRules("1.41")))(t)
	wantFields(t, refused, classes{"annotation/com.example.a": diff.Blocked, "health/start-interval": diff.Blocked,
		"network/edge-1.front/gateway-priority": diff.Blocked, "mount//zones": diff.Blocked,
		"limit/cpu-count": diff.Blocked, "limit/cpu-percent": diff.Blocked})
	d.Workspace.Limits.CPUPerMille = 101
	if _, err := convert.Refused(d, in, newerRules("1.41")); err == nil {
		t.Error("a fraction of a percent is taken")
	}
	for _, x := range refused {
		if strings.HasPrefix(x.Field, "limit/") {
			continue
		}
		if !strings.Contains(x.Why, "1.41") || !strings.Contains(x.Why, "leave") {
			t.Errorf("says too little: %s", x.Show())
		}
	}
}

func TestRun(t *testing.T) {
	zero := "0001-01-01T00:00:00Z"
	for name, x := range map[string]struct {
		state *container.State
		want  convert.RunState
	}{
		"none":       {nil, convert.Dead},
		"dead":       {&container.State{Status: "dead", Dead: true}, convert.Dead},
		"removing":   {&container.State{Status: "removing"}, convert.Removing},
		"restarting": {&container.State{Status: "restarting", Restarting: true, Running: true, ExitCode: 1}, convert.Restarting},
		"paused":     {&container.State{Status: "paused", Running: true, Paused: true}, convert.Paused},
		"exited":     {&container.State{Status: "exited", ExitCode: 3, OOMKilled: true}, convert.Exited},
		"created":    {&container.State{Status: "created"}, convert.Created},
		"failed":     {&container.State{Status: "created", ExitCode: 128, Error: "port is already allocated"}, convert.FailedStart},
	} {
		if x.state != nil {
			x.state.StartedAt, x.state.FinishedAt = zero, ""
		}
		r := convert.Run(&container.InspectResponse{State: x.state})
		if r.State != x.want || !r.StartedAt.IsZero() || !r.FinishedAt.IsZero() || x.state != nil && (r.ExitCode != x.state.ExitCode || r.OOM != x.state.OOMKilled || r.Error != x.state.Error) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestTrap04_WithoutSwap is that of a kernel that cannot bound swap, where the
// engine stores no bound whatever was asked for.
func TestTrap04_WithoutSwap(t *testing.T) {
	d, in, c := newer(t)
	c.HostConfig.MemorySwap = -1
	ds, err := convert.Compare(d, in, c, nil, newerRules("1.48"))
	testkit.Must(t, err)
	wantFields(t, ds, classes{"limit/memory-swap": diff.InPlace})
	in.NoSwap = true
	if ds, err = convert.Compare(d, in, c, nil, newerRules("1.48")); err != nil || len(ds) != 0 {
		t.Errorf("%v, %v", ds, err)
	}
}
