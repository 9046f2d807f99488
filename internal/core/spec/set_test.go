package spec_test

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

var word = rapid.SampledFrom([]string{"a", "b", "c", "web", "db", "net-1", ""})

func texts(t *rapid.T, label string) []string { return rapid.SliceOfN(word, 0, 4).Draw(t, label) }

func drawWorkspace(t *rapid.T) spec.Workspace {
	w := spec.Workspace{
		Name: word.Draw(t, "name"), Image: word.Draw(t, "image"), Title: word.Draw(t, "title"),
		State: rapid.SampledFrom([]spec.RunState{"", spec.Running, spec.Once, spec.Stopped}).Draw(t, "state"), GroupAdd: texts(t, "groups"),
		Command: texts(t, "command"), Expose: texts(t, "expose"), DNS: texts(t, "dns"), DNSOptions: texts(t, "options"), ExtraHosts: texts(t, "hosts"),
		Labels: rapid.MapOfN(word, word, 0, 2).Draw(t, "labels"), DeviceRules: texts(t, "rules"),
		Security:    spec.Security{CapAdd: rapid.SliceOfN(rapid.SampledFrom([]string{"net_admin", "CAP_NET_ADMIN", "ALL"}), 0, 3).Draw(t, "caps"), Options: texts(t, "security")},
		NetworkMode: rapid.SampledFrom([]string{"", "host", "workspace:a"}).Draw(t, "mode"),
		Restart:     spec.Restart{Policy: rapid.SampledFrom([]string{"", "no", "always"}).Draw(t, "restart")},
	}
	for range rapid.IntRange(0, 3).Draw(t, "entries") {
		w.Env = append(w.Env, spec.Env{Name: word.Draw(t, "env"), Value: word.Draw(t, "value")})
		w.Ports = append(w.Ports, spec.Port{Port: rapid.IntRange(-1, 3).Draw(t, "port"), HostPort: rapid.IntRange(0, 2).Draw(t, "host"), Protocol: rapid.SampledFrom([]string{"", "TCP", "udp"}).Draw(t, "protocol")})
		w.Mounts = append(w.Mounts, spec.Mount{Type: rapid.SampledFrom([]spec.MountType{spec.MountVolume, spec.MountBind, spec.MountTmpfs}).Draw(t, "type"), Source: rapid.SampledFrom([]string{"a", "/x/../y", ""}).Draw(t, "source"), Target: rapid.SampledFrom([]string{"/a", "/a/", "/b//c", "x"}).Draw(t, "target")})
		w.Networks = append(w.Networks, spec.Attachment{Network: word.Draw(t, "network"), Aliases: texts(t, "aliases")})
		w.Devices = append(w.Devices, spec.Device{Host: "/dev/" + word.Draw(t, "device"), Permissions: rapid.SampledFrom([]string{"", "mwr", "r", "x"}).Draw(t, "permissions")})
		w.DependsOn = append(w.DependsOn, spec.Dependency{Workspace: word.Draw(t, "other"), Condition: rapid.SampledFrom([]spec.Condition{spec.Started, spec.Completed, ""}).Draw(t, "condition"), Required: rapid.Bool().Draw(t, "required")})
		w.GPUs = append(w.GPUs, spec.GPU{IDs: texts(t, "ids"), Capabilities: texts(t, "gpu")})
		w.Ulimits = append(w.Ulimits, spec.Ulimit{Name: word.Draw(t, "ulimit"), Soft: rapid.Int64Range(-2, 2).Draw(t, "soft")})
	}
	return w
}

func drawSet(t *rapid.T) *spec.Set {
	s := &spec.Set{}
	for range rapid.IntRange(0, 3).Draw(t, "size") {
		s.Workspaces = append(s.Workspaces, drawWorkspace(t))
		s.Networks = append(s.Networks, spec.Network{Name: word.Draw(t, "network name"), Driver: rapid.SampledFrom([]string{"", "bridge", "macvlan"}).Draw(t, "driver")})
		s.Volumes = append(s.Volumes, spec.Volume{Name: word.Draw(t, "volume"), Driver: rapid.SampledFrom([]string{"", "local"}).Draw(t, "volume driver"), Options: map[string]string{}})
		s.Images = append(s.Images, spec.Image{Name: word.Draw(t, "image name"), Ref: word.Draw(t, "ref"), Pull: &spec.Pull{Policy: rapid.SampledFrom([]spec.PullPolicy{"", spec.PullMissing}).Draw(t, "policy")}})
		s.Snapshots = append(s.Snapshots, spec.Snapshot{Name: word.Draw(t, "snapshot"), Workspace: word.Draw(t, "of"), Keep: texts(t, "keep")})
		s.Routes = append(s.Routes, spec.Route{Name: word.Draw(t, "route"), Host: rapid.SampledFrom([]string{"A.example", "a.example", ""}).Draw(t, "route host"), Path: rapid.SampledFrom([]string{"", "/"}).Draw(t, "path"), Workspace: word.Draw(t, "to"), Port: 80})
	}
	return s
}

func encoded(t *rapid.T, s *spec.Set) string {
	raw := testkit.Value(json.Marshal(s))(t)
	return string(raw)
}

func clone(t *rapid.T, s *spec.Set) *spec.Set {
	out := &spec.Set{}
	testkit.Must(t, json.Unmarshal([]byte(encoded(t, s)), out))
	return out
}

// S36: what is semantically equal has one form.
func TestS36NormalizeIsIdempotentAndIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSet(t)
		mixed := clone(t, s)
		slices.Reverse(mixed.Workspaces)
		slices.Reverse(mixed.Networks)
		slices.Reverse(mixed.Routes)
		for i := range mixed.Workspaces {
			w := &mixed.Workspaces[i]
			slices.Reverse(w.Env)
			slices.Reverse(w.Ports)
			slices.Reverse(w.Mounts)
			slices.Reverse(w.Networks)
			slices.Reverse(w.GroupAdd)
			slices.Reverse(w.DependsOn)
			slices.Reverse(w.GPUs)
			slices.Reverse(w.Security.CapAdd)
			for j := range w.Networks {
				slices.Reverse(w.Networks[j].Aliases)
			}
		}
		s.Normalize()
		once := encoded(t, s)
		if s.Normalize(); encoded(t, s) != once {
			t.Fatalf("a second time gives\n%s\nafter\n%s", encoded(t, s), once)
		}
		if mixed.Normalize(); encoded(t, mixed) != once {
			t.Fatalf("another order gives\n%s\nnot\n%s", encoded(t, mixed), once)
		}
		if !s.Sorted() {
			t.Fatal("it is not sorted")
		}
		if back := clone(t, s); encoded(t, back) != once {
			t.Fatal("it does not survive JSON")
		}
	})
}

// Validate takes any value, and what it passes is whole.
func TestValidateIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSet(t)
		ok := len(s.Check()) == 0
		s.Normalize()
		if again := len(s.Check()) == 0; ok && !again {
			t.Fatalf("normalized it is not valid: %v", s.Check())
		}
		if !ok {
			return
		}
		deps := spec.Dependencies(s)
		for id, needs := range deps {
			for _, n := range needs {
				if _, there := deps[n.ID]; !there {
					t.Fatalf("%s needs %s, which is not there", id, n.ID)
				}
			}
		}
	})
	(*spec.Set)(nil).Check()
}
