package fleet

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestDelegationTravelsWithTheLeaf(t *testing.T) {
	d := sample()
	d.Hosts["lab-1"] = HostDecl{Channel: "lab", Tags: []string{"web"}, Managed: []string{"workspace", "image"}, Allow: []string{"logs", "exec"},
		Bounds: spec.Bounds{Images: []string{"ghcr.io/acme", "docker.io/acme", "ghcr.io/acme"}, MaxWorkspaces: 3, Owners: []string{"session"}}}
	d.Hosts["web-2"] = HostDecl{Channel: "stable", Tags: []string{"web"}, Bundle: "web", Allow: []string{"disable"}}
	p := resolved(t, d, inputs(d))
	want := map[string]*Delegation{
		"lab-1": {Kinds: []string{"image", "workspace"}, Allow: []string{"exec", "logs"},
			Bounds: spec.Bounds{Kinds: []string{"image", "workspace"}, Images: []string{"docker.io/acme", "ghcr.io/acme"}, MaxWorkspaces: 3, Owners: []string{"session"}}},
		"web-2": {Kinds: []string{}, Allow: []string{"disable"}, Bounds: spec.Bounds{}},
	}
	for _, cp := range p.Channels {
		for i := range cp.Leaves {
			l := &cp.Leaves[i]
			raw := testkit.Value(json.Marshal(l))(t)
			var back Leaf
			testkit.Must(t, json.Unmarshal(raw, &back))
			plan := HostPlanOf(&cp.Header, "", &back)
			if diff := cmp.Diff(want[l.Host], plan.Delegation); diff != "" {
				t.Errorf("the plan of %s: %s", l.Host, diff)
			}
			if want[l.Host] == nil && strings.Contains(string(raw), "delegation") {
				t.Errorf("the leaf of %s, which delegates nothing, is %s", l.Host, raw)
			}
			if diff := cmp.Diff(l.Delegation, p.Roster[l.Host].Delegation); diff != "" {
				t.Errorf("roster and leaf of %s differ: %s", l.Host, diff)
			}
			if back.Delegation.Allows(AllowExec) != (l.Host == "lab-1") || back.Delegation.Allows(AllowDisable) != (l.Host == "web-2") || back.Delegation.Manages("image") != (l.Host == "lab-1") {
				t.Errorf("the delegation of %s is %+v", l.Host, back.Delegation)
			}
		}
	}
}

func TestBoundsAreChecked(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*HostDecl)
		path   string
		words  string
	}{
		"no layer":         {func(h *HostDecl) { h.Managed, h.Bounds.Devices = nil, true }, "hosts lab-1 bounds", "expected managed"},
		"an image":         {func(h *HostDecl) { h.Bounds.Images = []string{"*", "A B"} }, "hosts lab-1 bounds images 1", "no image"},
		"a path":           {func(h *HostDecl) { h.Bounds.HostMounts = []string{"/srv//x"} }, "hosts lab-1 bounds hostMounts 0", "absolute"},
		"ports":            {func(h *HostDecl) { h.Bounds.Ports = &spec.PortRange{From: 1, To: 70000} }, "hosts lab-1 bounds ports", "65535"},
		"a secret":         {func(h *HostDecl) { h.Bounds.Secrets = []string{"../x"} }, "hosts lab-1 bounds secrets 0", "not a name"},
		"an owner":         {func(h *HostDecl) { h.Bounds.Owners = []string{"session", "robot"} }, "hosts lab-1 bounds owners 1", "expected one of session"},
		"no layer for one": {func(h *HostDecl) { h.Managed, h.Bounds.Owners = nil, []string{"session"} }, "hosts lab-1 bounds", "expected managed"},
		"an owner twice":   {func(h *HostDecl) { h.Bounds.Owners = []string{"session", "session"} }, "hosts lab-1 bounds owners 1", "twice"},
		"one twice":        {func(h *HostDecl) { h.Allow = []string{"logs", "logs"} }, "hosts lab-1 allow 1", "twice"},
	} {
		d := sample()
		h := d.Hosts["lab-1"]
		c.change(&h)
		d.Hosts["lab-1"] = h
		fs := Validate(d)
		if len(fs) != 1 || fs[0].Severity != Error || strings.Join(fs[0].Path, " ") != c.path || !strings.Contains(fs[0].Message, c.words) {
			t.Errorf("%s: findings %+v", what, fs)
		}
	}
	d := sample()
	h := d.Hosts["lab-1"]
	h.Bounds = spec.Bounds{Images: []string{"*", "registry.example:5000", "localhost", "ghcr.io/acme/", "nginx:1"}, HostMounts: []string{"/", "/srv/data/"},
		Ports: &spec.PortRange{From: 80, To: 80}, Secrets: []string{"token"}, MaxMemory: 1 << 30, RequireSigned: true}
	d.Hosts["lab-1"] = h
	if fs := Validate(d); len(fs) != 0 {
		t.Errorf("good bounds: %+v", fs)
	}
	h.Bounds.Owners = []string{spec.OwnerSession}
	d.Hosts["lab-1"] = h
	if fs := Validate(d); len(fs) != 1 || fs[0].Severity != Warning || strings.Join(fs[0].Path, " ") != "hosts lab-1 bounds owners" || !strings.Contains(fs[0].Message, "requireSigned") {
		t.Errorf("owners who cannot sign: %+v", fs)
	}
}

// Settings within bounds pass, those outside do not, whatever else they are.
func TestSettingsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Settings{
			HeartbeatInterval: clock.Duration(rapid.Int64Range(-1, int64(2*MaxHeartbeat)).Draw(t, "heartbeat")),
			ResyncInterval:    clock.Duration(rapid.Int64Range(-1, int64(2*MaxResync)).Draw(t, "resync")),
			Pools:             Pools{Builds: rapid.IntRange(-1, 70).Draw(t, "builds"), Pulls: rapid.IntRange(-1, 70).Draw(t, "pulls"), Starts: rapid.IntRange(-1, 70).Draw(t, "starts")},
		}
		in := func(d, least, most clock.Duration) bool { return d == 0 || d >= least && d <= most }
		good := in(s.HeartbeatInterval, MinHeartbeat, MaxHeartbeat) && in(s.ResyncInterval, MinResync, MaxResync)
		for _, n := range []int{s.Pools.Builds, s.Pools.Pulls, s.Pools.Starts} {
			good = good && n >= 0 && n <= MaxPool
		}
		if err := s.Check(); good != (err == nil) {
			t.Fatalf("%+v: %v", s, err)
		}
	})
}
