package container

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"pgregory.net/rapid"
)

var word = rapid.SampledFrom([]string{"a", "b", "c", "web", "db", "net-1", ""})

func texts(t *rapid.T, label string) []string { return rapid.SliceOfN(word, 0, 4).Draw(t, label) }

func drawWorkspace(t *rapid.T) Workspace {
	w := Workspace{
		Name: word.Draw(t, "name"), Image: word.Draw(t, "image"), Title: word.Draw(t, "title"),
		State: rapid.SampledFrom([]RunState{"", Running, Once, Stopped}).Draw(t, "state"), GroupAdd: texts(t, "groups"),
		Command: texts(t, "command"), Expose: texts(t, "expose"), DNS: texts(t, "dns"), DNSOptions: texts(t, "options"), ExtraHosts: texts(t, "hosts"),
		Labels: rapid.MapOfN(word, word, 0, 2).Draw(t, "labels"), DeviceRules: texts(t, "rules"),
		Security:    Security{CapAdd: rapid.SliceOfN(rapid.SampledFrom([]string{"net_admin", "CAP_NET_ADMIN", "ALL"}), 0, 3).Draw(t, "caps"), Options: texts(t, "security")},
		NetworkMode: rapid.SampledFrom([]string{"", "host", "workspace:a"}).Draw(t, "mode"),
		Restart:     Restart{Policy: rapid.SampledFrom([]string{"", "no", "always"}).Draw(t, "restart")},
	}
	for range rapid.IntRange(0, 3).Draw(t, "entries") {
		w.Env = append(w.Env, Env{Name: word.Draw(t, "env"), Value: word.Draw(t, "value")})
		w.Ports = append(w.Ports, Port{Port: rapid.IntRange(-1, 3).Draw(t, "port"), HostPort: rapid.IntRange(0, 2).Draw(t, "host"), Protocol: rapid.SampledFrom([]string{"", "TCP", "udp"}).Draw(t, "protocol")})
		w.Mounts = append(w.Mounts, Mount{Type: rapid.SampledFrom([]MountType{MountVolume, MountBind, MountTmpfs}).Draw(t, "type"), Source: rapid.SampledFrom([]string{"a", "/x/../y", ""}).Draw(t, "source"), Target: rapid.SampledFrom([]string{"/a", "/a/", "/b//c", "x"}).Draw(t, "target")})
		w.Networks = append(w.Networks, Attachment{Network: word.Draw(t, "network"), Aliases: texts(t, "aliases")})
		w.Devices = append(w.Devices, Device{Host: "/dev/" + word.Draw(t, "device"), Permissions: rapid.SampledFrom([]string{"", "mwr", "r", "x"}).Draw(t, "permissions")})
		w.DependsOn = append(w.DependsOn, Dependency{Workspace: word.Draw(t, "other"), Condition: rapid.SampledFrom([]Condition{Started, Completed, ""}).Draw(t, "condition"), Required: rapid.Bool().Draw(t, "required")})
		w.GPUs = append(w.GPUs, GPU{IDs: texts(t, "ids"), Capabilities: texts(t, "gpu")})
		w.Ulimits = append(w.Ulimits, Ulimit{Name: word.Draw(t, "ulimit"), Soft: rapid.Int64Range(-2, 2).Draw(t, "soft")})
	}
	return w
}

func drawSet(t *rapid.T) *Set {
	s := &Set{}
	for range rapid.IntRange(0, 3).Draw(t, "size") {
		s.Workspaces = append(s.Workspaces, drawWorkspace(t))
		s.Networks = append(s.Networks, Network{Name: word.Draw(t, "network name"), Driver: rapid.SampledFrom([]string{"", "bridge", "macvlan"}).Draw(t, "driver")})
		s.Volumes = append(s.Volumes, Volume{Name: word.Draw(t, "volume"), Driver: rapid.SampledFrom([]string{"", "local"}).Draw(t, "volume driver"), Options: map[string]string{}})
		s.Images = append(s.Images, Image{Name: word.Draw(t, "image name"), Ref: word.Draw(t, "ref"), Pull: &Pull{Policy: rapid.SampledFrom([]PullPolicy{"", PullMissing}).Draw(t, "policy")}})
		s.Snapshots = append(s.Snapshots, Snapshot{Name: word.Draw(t, "snapshot"), Workspace: word.Draw(t, "of"), Keep: texts(t, "keep")})
		s.Routes = append(s.Routes, Route{Name: word.Draw(t, "route"), Host: rapid.SampledFrom([]string{"A.example", "a.example", ""}).Draw(t, "route host"), Path: rapid.SampledFrom([]string{"", "/"}).Draw(t, "path"), Workspace: word.Draw(t, "to"), Port: 80})
	}
	return s
}

func clone(t *rapid.T, s *Set) *Set {
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out := &Set{}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
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
		once := encoded(s)
		if s.Normalize(); encoded(s) != once {
			t.Fatalf("a second time gives\n%s\nafter\n%s", encoded(s), once)
		}
		if mixed.Normalize(); encoded(mixed) != once {
			t.Fatalf("another order gives\n%s\nnot\n%s", encoded(mixed), once)
		}
		if !s.Sorted() {
			t.Fatal("it is not sorted")
		}
		if back := clone(t, s); encoded(back) != once {
			t.Fatal("it does not survive JSON")
		}
	})
}

// Validate takes any value, and what it passes is whole.
func TestValidateIsTotal(t *testing.T) {
	whole := 0
	rapid.Check(t, func(t *rapid.T) {
		s := drawSet(t)
		ok := len(Validate(s)) == 0
		s.Normalize()
		if again := len(Validate(s)) == 0; ok && !again {
			t.Fatalf("normalized it is not valid: %v", Validate(s))
		}
		if !ok {
			return
		}
		whole++
		deps := Dependencies(s)
		for id, needs := range deps {
			for _, n := range needs {
				if _, there := deps[n.ID]; !there {
					t.Fatalf("%s needs %s, which is not there", id, n.ID)
				}
			}
		}
	})
	Validate(nil)
}

func goodSet() *Set {
	grace := clock.Duration(10)
	return &Set{
		Networks: []Network{{Name: "inner"}}, Volumes: []Volume{{Name: "data"}},
		Images: []Image{{Name: "app", Ref: "app:1", Pull: &Pull{}}, {Name: "tool", Build: &Build{Inline: "FROM scratch"}}},
		Workspaces: []Workspace{
			{Name: "db", Image: "tool", Mounts: []Mount{{Type: MountVolume, Source: "data", Target: "/data"}}, Networks: []Attachment{{Network: "inner"}}},
			{Name: "init", Image: "app", State: Once},
			{Name: "web", Image: "app", StopGrace: &grace, Ports: []Port{{HostPort: 80, Port: 80, Protocol: "tcp"}},
				Contents:  []Content{{Target: "/etc/x", Blob: &Blob{Digest: digest.Of(nil)}}},
				DependsOn: []Dependency{{"db", Healthy, false, true}, {"init", Completed, false, true}}},
			{Name: "side", Image: "snapshot/web", NetworkMode: "workspace:web"},
		},
		Snapshots: []Snapshot{{Name: "web", Workspace: "web"}},
		Routes:    []Route{{Name: "web", Workspace: "web", Port: 80, Host: "app.example"}},
	}
}

func TestValidateSaysWhatIsWrong(t *testing.T) {
	if ps := Validate(goodSet()); len(ps) > 0 {
		t.Fatalf("a good set: %v", ps)
	}
	for words, change := range map[string]func(s *Set){
		"declared twice":   func(s *Set) { s.Volumes = append(s.Volumes, s.Volumes[0]) },
		"0 sources":        func(s *Set) { s.Images[0].Pull = nil },
		"2 sources":        func(s *Set) { s.Images[0].Build = s.Images[1].Build },
		"no reference":     func(s *Set) { s.Images[0].Ref = "" },
		"network \"gone\"": func(s *Set) { s.Workspaces[0].Networks[0].Network = "gone" },
		"image \"gone\"":   func(s *Set) { s.Workspaces[0].Image = "gone" },
		"waits for itself": func(s *Set) { s.Workspaces[0].DependsOn = []Dependency{{"web", Started, false, true}} },
		"both take host": func(s *Set) {
			s.Routes = append(s.Routes, Route{Name: "x", Workspace: "db", Port: 1, Host: "APP.example", Path: "/"})
		},
		"published by": func(s *Set) { s.Workspaces[0].Ports = []Port{{HostIP: "127.0.0.1", HostPort: 80, Port: 81}} },
		"mounted twice": func(s *Set) {
			s.Workspaces[0].Mounts = append(s.Workspaces[0].Mounts, Mount{Type: MountTmpfs, Target: "/data/"})
		},
		"absolute path in":         func(s *Set) { s.Workspaces[0].Mounts[0].Target = "data" },
		"is not known":             func(s *Set) { s.Workspaces[0].Security.CapAdd = []string{"FLY"} },
		"not meant to":             func(s *Set) { s.Workspaces[1].State = "" },
		"declared stopped":         func(s *Set) { s.Workspaces[0].State = Stopped },
		"expected one of them":     func(s *Set) { s.Workspaces[0].NetworkMode = "host" },
		"which is what the engine": func(s *Set) { s.Workspaces[0].Limits.Memory = 1 << 20 },
		"belong to the agent":      func(s *Set) { s.Workspaces[0].Labels = map[string]string{"io.steady.owner": "me"} },
		"nothing but its name":     func(s *Set) { s.Volumes[0].External, s.Volumes[0].Driver = "x", "y" },
		"both named":               func(s *Set) { s.Workspaces[0].Title = "web" },
		"a value and a secret":     func(s *Set) { s.Workspaces[0].Env = []Env{{"A", "b", "c"}} },
		"expected at most 4096":    func(s *Set) { s.Workspaces[0].Command = make([]string, MaxEntries+1) },
		"cannot be published":      func(s *Set) { s.Workspaces[3].Ports = []Port{{Port: 80}} },
	} {
		s := goodSet()
		change(s)
		if got := Validate(s); !slices.ContainsFunc(got, func(p Problem) bool { return strings.Contains(p.String(), words) }) {
			t.Errorf("%q: %v", words, got)
		}
	}
	s := goodSet()
	s.Normalize()
	if got := len(s.Blobs()); got != 1 {
		t.Errorf("%d blobs", got)
	}
	for _, spec := range []any{&s.Networks[0], &s.Volumes[0], &s.Images[0], &s.Workspaces[0], &s.Snapshots[0], &s.Routes[0]} {
		if ps := ValidateSpec(spec); len(ps) > 0 {
			t.Errorf("%T: %v", spec, ps)
		}
	}
	if len(ValidateSpec(3)) != 1 || len(ValidateSpec(&Volume{})) != 1 {
		t.Error("what is no resource is taken")
	}
}
