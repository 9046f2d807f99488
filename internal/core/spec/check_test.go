package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
)

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
				DependsOn: []Dependency{{Workspace: "db", Condition: Healthy, Required: true}, {Workspace: "init", Condition: Completed, Required: true}}},
			{Name: "side", Image: "snapshot/web", NetworkMode: "workspace:web"},
		},
		Snapshots: []Snapshot{{Name: "web", Workspace: "web"}},
		Routes:    []Route{{Name: "web", Workspace: "web", Port: 80, Host: "app.example"}},
	}
}

func TestSaysWhatIsWrong(t *testing.T) {
	if ps := goodSet().Check(); len(ps) > 0 {
		t.Fatalf("a good set: %v", ps)
	}
	for words, change := range map[string]func(s *Set){
		"declared twice":   func(s *Set) { s.Volumes = append(s.Volumes, s.Volumes[0]) },
		"0 sources":        func(s *Set) { s.Images[0].Pull = nil },
		"2 sources":        func(s *Set) { s.Images[0].Build = s.Images[1].Build },
		"no reference":     func(s *Set) { s.Images[0].Ref = "" },
		"network \"gone\"": func(s *Set) { s.Workspaces[0].Networks[0].Network = "gone" },
		"image \"gone\"":   func(s *Set) { s.Workspaces[0].Image = "gone" },
		"waits for itself": func(s *Set) {
			s.Workspaces[0].DependsOn = []Dependency{{Workspace: "web", Condition: Started, Required: true}}
		},
		"both take host": func(s *Set) {
			s.Routes = append(s.Routes, Route{Name: "x", Workspace: "db", Port: 1, Host: "APP.example", Path: "/"})
		},
		"published by": func(s *Set) {
			s.Workspaces[0].Ports = []Port{{HostIP: "127.0.0.1", HostPort: 80, Port: 81}}
		},
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
		"a value and a secret":     func(s *Set) { s.Workspaces[0].Env = []Env{{Name: "A", Value: "b", Secret: "c"}} },
		"expected at most 4096":    func(s *Set) { s.Workspaces[0].Command = make([]string, MaxEntries+1) },
		"is removed and has":       func(s *Set) { s.Workspaces[0].Env = []Env{{Name: "A", Value: "b", Unset: true}} },
		"such as 80/tcp":           func(s *Set) { s.Workspaces[0].Expose = []string{"9091-9092"} },
		"ends after its beginning": func(s *Set) {
			s.Workspaces[0].Ports = []Port{{HostPort: 8080, HostPortEnd: 8079, Port: 80}}
		},
		"labels no folder": func(s *Set) {
			s.Workspaces[0].Mounts[0] = Mount{Type: MountBind, Source: "/srv", Target: "/srv", SELinux: "z", Recursive: "disabled"}
		},
		"an empty command": func(s *Set) { s.Workspaces[0].PostStart = []Hook{{}} },
		"leads to two": func(s *Set) {
			s.Workspaces[0].Links = []Link{{Target: "web", Alias: "a"}, {Target: "init", Alias: "a"}}
		},
		"links under":        func(s *Set) { s.Workspaces[3].Links = []Link{{Target: "web", Alias: "a"}} },
		"workspace \"gone\"": func(s *Set) { s.Workspaces[2].Links = []Link{{Target: "gone", Alias: "a"}} },
		"a file that is read": func(s *Set) {
			s.Workspaces[0].Contents = []Content{{Target: "/k", Secret: "k", Writable: true}}
		},
		"cannot be published": func(s *Set) { s.Workspaces[3].Ports = []Port{{Port: 80}} },
	} {
		s := goodSet()
		change(s)
		if got := s.Check(); !slices.ContainsFunc(got, func(p Problem) bool { return strings.Contains(p.String(), words) }) {
			t.Errorf("%q: %v", words, got)
		}
	}
	s := goodSet()
	s.Normalize()
	if got := len(s.Blobs()); got != 1 {
		t.Errorf("%d blobs", got)
	}
	for _, value := range []Resource{&s.Networks[0], &s.Volumes[0], &s.Images[0], &s.Workspaces[0], &s.Snapshots[0], &s.Routes[0]} {
		if ps := Check(value); len(ps) > 0 {
			t.Errorf("%T: %v", value, ps)
		}
	}
	if len(Check(&Volume{})) != 1 {
		t.Error("a volume without a name is taken")
	}
}
