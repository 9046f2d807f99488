package validate

import (
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/digest"
)

func goodSet() *container.Set {
	grace := clock.Duration(10)
	return &container.Set{
		Networks: []container.Network{{Name: "inner"}}, Volumes: []container.Volume{{Name: "data"}},
		Images: []container.Image{{Name: "app", Ref: "app:1", Pull: &container.Pull{}}, {Name: "tool", Build: &container.Build{Inline: "FROM scratch"}}},
		Workspaces: []container.Workspace{
			{Name: "db", Image: "tool", Mounts: []container.Mount{{Type: container.MountVolume, Source: "data", Target: "/data"}}, Networks: []container.Attachment{{Network: "inner"}}},
			{Name: "init", Image: "app", State: container.Once},
			{Name: "web", Image: "app", StopGrace: &grace, Ports: []container.Port{{HostPort: 80, Port: 80, Protocol: "tcp"}},
				Contents:  []container.Content{{Target: "/etc/x", Blob: &container.Blob{Digest: digest.Of(nil)}}},
				DependsOn: []container.Dependency{{Workspace: "db", Condition: container.Healthy, Required: true}, {Workspace: "init", Condition: container.Completed, Required: true}}},
			{Name: "side", Image: "snapshot/web", NetworkMode: "workspace:web"},
		},
		Snapshots: []container.Snapshot{{Name: "web", Workspace: "web"}},
		Routes:    []container.Route{{Name: "web", Workspace: "web", Port: 80, Host: "app.example"}},
	}
}

func TestSaysWhatIsWrong(t *testing.T) {
	if ps := Set(goodSet()); len(ps) > 0 {
		t.Fatalf("a good set: %v", ps)
	}
	for words, change := range map[string]func(s *container.Set){
		"declared twice":   func(s *container.Set) { s.Volumes = append(s.Volumes, s.Volumes[0]) },
		"0 sources":        func(s *container.Set) { s.Images[0].Pull = nil },
		"2 sources":        func(s *container.Set) { s.Images[0].Build = s.Images[1].Build },
		"no reference":     func(s *container.Set) { s.Images[0].Ref = "" },
		"network \"gone\"": func(s *container.Set) { s.Workspaces[0].Networks[0].Network = "gone" },
		"image \"gone\"":   func(s *container.Set) { s.Workspaces[0].Image = "gone" },
		"waits for itself": func(s *container.Set) {
			s.Workspaces[0].DependsOn = []container.Dependency{{Workspace: "web", Condition: container.Started, Required: true}}
		},
		"both take host": func(s *container.Set) {
			s.Routes = append(s.Routes, container.Route{Name: "x", Workspace: "db", Port: 1, Host: "APP.example", Path: "/"})
		},
		"published by": func(s *container.Set) {
			s.Workspaces[0].Ports = []container.Port{{HostIP: "127.0.0.1", HostPort: 80, Port: 81}}
		},
		"mounted twice": func(s *container.Set) {
			s.Workspaces[0].Mounts = append(s.Workspaces[0].Mounts, container.Mount{Type: container.MountTmpfs, Target: "/data/"})
		},
		"absolute path in":         func(s *container.Set) { s.Workspaces[0].Mounts[0].Target = "data" },
		"is not known":             func(s *container.Set) { s.Workspaces[0].Security.CapAdd = []string{"FLY"} },
		"not meant to":             func(s *container.Set) { s.Workspaces[1].State = "" },
		"declared stopped":         func(s *container.Set) { s.Workspaces[0].State = container.Stopped },
		"expected one of them":     func(s *container.Set) { s.Workspaces[0].NetworkMode = "host" },
		"which is what the engine": func(s *container.Set) { s.Workspaces[0].Limits.Memory = 1 << 20 },
		"belong to the agent":      func(s *container.Set) { s.Workspaces[0].Labels = map[string]string{"io.steady.owner": "me"} },
		"nothing but its name":     func(s *container.Set) { s.Volumes[0].External, s.Volumes[0].Driver = "x", "y" },
		"both named":               func(s *container.Set) { s.Workspaces[0].Title = "web" },
		"a value and a secret":     func(s *container.Set) { s.Workspaces[0].Env = []container.Env{{Name: "A", Value: "b", Secret: "c"}} },
		"expected at most 4096":    func(s *container.Set) { s.Workspaces[0].Command = make([]string, MaxEntries+1) },
		"is taken away and":        func(s *container.Set) { s.Workspaces[0].Env = []container.Env{{Name: "A", Value: "b", Unset: true}} },
		"such as 80/tcp":           func(s *container.Set) { s.Workspaces[0].Expose = []string{"9091-9092"} },
		"ends after its beginning": func(s *container.Set) {
			s.Workspaces[0].Ports = []container.Port{{HostPort: 8080, HostPortEnd: 8079, Port: 80}}
		},
		"labels no folder": func(s *container.Set) {
			s.Workspaces[0].Mounts[0] = container.Mount{Type: container.MountBind, Source: "/srv", Target: "/srv", SELinux: "z", Recursive: "disabled"}
		},
		"without words": func(s *container.Set) { s.Workspaces[0].PostStart = []container.Hook{{}} },
		"leads to two": func(s *container.Set) {
			s.Workspaces[0].Links = []container.Link{{Target: "web", Alias: "a"}, {Target: "init", Alias: "a"}}
		},
		"links under":        func(s *container.Set) { s.Workspaces[3].Links = []container.Link{{Target: "web", Alias: "a"}} },
		"workspace \"gone\"": func(s *container.Set) { s.Workspaces[2].Links = []container.Link{{Target: "gone", Alias: "a"}} },
		"a file that is read": func(s *container.Set) {
			s.Workspaces[0].Contents = []container.Content{{Target: "/k", Secret: "k", Writable: true}}
		},
		"cannot be published": func(s *container.Set) { s.Workspaces[3].Ports = []container.Port{{Port: 80}} },
	} {
		s := goodSet()
		change(s)
		if got := Set(s); !slices.ContainsFunc(got, func(p container.Problem) bool { return strings.Contains(p.String(), words) }) {
			t.Errorf("%q: %v", words, got)
		}
	}
	s := goodSet()
	s.Normalize()
	if got := len(s.Blobs()); got != 1 {
		t.Errorf("%d blobs", got)
	}
	for _, spec := range []any{&s.Networks[0], &s.Volumes[0], &s.Images[0], &s.Workspaces[0], &s.Snapshots[0], &s.Routes[0]} {
		if ps := Spec(spec); len(ps) > 0 {
			t.Errorf("%T: %v", spec, ps)
		}
	}
	if len(Spec(3)) != 1 || len(Spec(&container.Volume{})) != 1 {
		t.Error("what is no resource is taken")
	}
}
