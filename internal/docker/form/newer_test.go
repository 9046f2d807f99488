package form_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"

	"github.com/steadyfleet/steady/internal/core/clock"
	core "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/docker/form"
)

// newer is a container of an engine with API 1.48 on cgroup v2. The document is
// not taken from an engine: it is written from the documented shape of the API,
// as Debian's engine, which the other tests run, ends at 1.41 and cgroup v1.
func newer(t *testing.T) (*core.Deployment, form.Inputs, *container.InspectResponse) {
	t.Helper()
	raw, err := os.ReadFile("testdata/inspect-1.48.json")
	if err != nil {
		t.Fatal(err)
	}
	var c container.InspectResponse
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	d := &core.Deployment{
		Workspace: core.Workspace{Name: "web", Image: "app", Command: []string{"serve"}, Env: []core.Env{{Name: "A", Value: "1"}},
			Restart: core.Restart{Policy: "always"}, Annotation: map[string]string{"com.example.a": "1"},
			Health: &core.Health{Test: []string{"CMD", "/app", "check"}, Interval: 30 * clock.Second, StartPeriod: 20 * clock.Second, StartInterval: clock.Second},
			Ports:  []core.Port{{HostPort: 8080, Port: 80, Protocol: "tcp"}},
			Mounts: []core.Mount{{Type: core.MountVolume, Source: "data", Target: "/data"},
				{Type: core.MountBind, Source: "/etc/zones", Target: "/zones", ReadOnly: true, Recursive: "readonly", Propagation: "rprivate"}},
			Networks: []core.Attachment{{Network: "front", Aliases: []string{"www"}, IPv4: "10.5.0.9", Priority: 3, GatewayPriority: 3}}, MAC: "02:42:0A:05:00:09",
			Limits: core.Limits{Memory: 128 << 20}, Security: core.Security{CapAdd: []string{"NET_ADMIN"}}},
		Uses: core.Uses{Image: "app:1", Networks: map[string]string{"front": "edge-1.front"}, Volumes: map[string]string{"data": "edge-1.data"}},
	}
	in := form.Inputs{Name: "edge-1.web", API: "1.48", Digest: key, Networks: map[string]string{"edge-1.front": "aa11"},
		Image: &image.InspectResponse{}}
	config := `{"Id": "` + c.Image + `", "Config": {"Env": ["PATH=/usr/bin:/bin"], "Entrypoint": ["/app"], "Cmd": ["help"]}}`
	if err := json.Unmarshal([]byte(config), in.Image); err != nil {
		t.Fatal(err)
	}
	return d, in, &c
}

func newerRules(api string) diff.WorkspaceRules { return diff.WorkspaceRules{API: api} }

func TestS36NewerEngineAndCgroup2(t *testing.T) {
	d, in, c := newer(t)
	ds, err := form.Compare(d, in, c, nil, newerRules("1.48"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "no baseline", ds)
	refused, err := form.Refused(d, in, newerRules("1.48"))
	if err != nil || len(refused) != 0 {
		t.Errorf("refused are %v, %v", refused, err)
	}
	r := form.Run(c)
	if r.State != form.Running || r.Health != "healthy" || r.Restarts != 2 || !r.FinishedAt.IsZero() {
		t.Errorf("runs as %+v", r)
	}
	// API 1.44 still adds the start of the ID to the aliases.
	e := c.NetworkSettings.Networks["edge-1.front"]
	e.Aliases = append(e.Aliases, c.ID[:12])
	ds, err = form.Compare(d, in, c, nil, newerRules("1.48"))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "API 1.44", ds)
}

// TestTrap07_MACByEndpoint is that of API 1.44 and later: the address belongs to
// the endpoint.
func TestTrap07_MACByEndpoint(t *testing.T) {
	d, in, c := newer(t)
	r, err := form.Create(d, form.CreateInputs{Inputs: in})
	if err != nil || r.First.Settings.MacAddress.String() != "02:42:0a:05:00:09" || r.First.Settings.GwPriority != 3 {
		t.Errorf("asked for is %+v, %v", r, err)
	}
	e := c.NetworkSettings.Networks["edge-1.front"]
	e.MacAddress = network.HardwareAddr{2, 0, 0, 0, 0, 1}
	ds, err := form.Compare(d, in, c, nil, newerRules("1.48"))
	if err != nil {
		t.Fatal(err)
	}
	wantFields(t, ds, classes{"network/edge-1.front/mac": diff.InPlace})
	e.MacAddress = nil // of a stopped container
	if ds, err = form.Compare(d, in, c, nil, newerRules("1.48")); err != nil || len(ds) != 0 {
		t.Errorf("stopped: %v, %v", ds, err)
	}
	d.Workspace.MAC = "" // one that the engine chose
	e.MacAddress = network.HardwareAddr{2, 0, 0, 0, 0, 1}
	if ds, err = form.Compare(d, in, c, nil, newerRules("1.48")); err != nil || len(ds) != 0 {
		t.Errorf("not asked for: %v, %v", ds, err)
	}
}

// TestOlderEnginesRefuseNewerFields: what API 1.41 would drop in silence is
// refused by name.
func TestOlderEnginesRefuseNewerFields(t *testing.T) {
	d, in, _ := newer(t)
	in.API = "1.41"
	d.Workspace.Limits.CPUCount, d.Workspace.Limits.CPUPerMille = 1, 100 // of Windows
	refused, err := form.Refused(d, in, newerRules("1.41"))
	if err != nil {
		t.Fatal(err)
	}
	wantFields(t, refused, classes{"annotation/com.example.a": diff.Blocked, "health/start-interval": diff.Blocked,
		"network/edge-1.front/gateway-priority": diff.Blocked, "mount//zones": diff.Blocked,
		"limit/cpu-count": diff.Blocked, "limit/cpu-percent": diff.Blocked})
	d.Workspace.Limits.CPUPerMille = 101
	if _, err := form.Refused(d, in, newerRules("1.41")); err == nil {
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
		want  form.RunState
	}{
		"none":       {nil, form.Dead},
		"dead":       {&container.State{Status: "dead", Dead: true}, form.Dead},
		"removing":   {&container.State{Status: "removing"}, form.Removing},
		"restarting": {&container.State{Status: "restarting", Restarting: true, Running: true, ExitCode: 1}, form.Restarting},
		"paused":     {&container.State{Status: "paused", Running: true, Paused: true}, form.Paused},
		"exited":     {&container.State{Status: "exited", ExitCode: 3, OOMKilled: true}, form.Exited},
		"created":    {&container.State{Status: "created"}, form.Created},
		"failed":     {&container.State{Status: "created", ExitCode: 128, Error: "port is already allocated"}, form.FailedStart},
	} {
		if x.state != nil {
			x.state.StartedAt, x.state.FinishedAt = zero, ""
		}
		r := form.Run(&container.InspectResponse{State: x.state})
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
	ds, err := form.Compare(d, in, c, nil, newerRules("1.48"))
	if err != nil {
		t.Fatal(err)
	}
	wantFields(t, ds, classes{"limit/memory-swap": diff.InPlace})
	in.NoSwap = true
	if ds, err = form.Compare(d, in, c, nil, newerRules("1.48")); err != nil || len(ds) != 0 {
		t.Errorf("%v, %v", ds, err)
	}
}
