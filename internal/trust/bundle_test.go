package trust

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestBundleIsChecked(t *testing.T) {
	file := func(path string) fleet.File { return fleet.File{Path: path, Mode: 0o644, Blob: digestOf(nil)} }
	step := func(name string) fleet.Exec { return fleet.Exec{Name: name, Activate: []string{"true"}} }
	good := func() fleet.Bundle {
		return fleet.Bundle{Type: fleet.TypeBundle, Name: "web",
			Files: []fleet.File{file("a"), file("b/c"), file("b/d")}, Exec: []fleet.Exec{step("one"), step("two")}}
	}
	testkit.Value(ReadBundle(canonical(t, good())))(t)
	for name, change := range map[string]func(b *fleet.Bundle){
		"name":             func(b *fleet.Bundle) { b.Name = "Web" },
		"not sorted":       func(b *fleet.Bundle) { b.Files[0], b.Files[1] = b.Files[1], b.Files[0] },
		"path twice":       func(b *fleet.Bundle) { b.Files[1] = b.Files[0] },
		"file and folder":  func(b *fleet.Bundle) { b.Files[0] = file("b") },
		"deep folder":      func(b *fleet.Bundle) { b.Files = []fleet.File{file("x"), file("x.y"), file("x/y/z")} },
		"setuid":           func(b *fleet.Bundle) { b.Files[0].Mode = 0o4755 },
		"no blob":          func(b *fleet.Bundle) { b.Files[0].Blob = "" },
		"negative size":    func(b *fleet.Bundle) { b.Files[0].Size = -1 },
		"owner":            func(b *fleet.Bundle) { b.Files[0].Owner = "root:root:x" },
		"owner option":     func(b *fleet.Bundle) { b.Files[0].Owner = "--reference=/etc" },
		"step twice":       func(b *fleet.Bundle) { b.Exec[1].Name = "one" },
		"step name":        func(b *fleet.Bundle) { b.Exec[1].Name = "a b" },
		"no command":       func(b *fleet.Bundle) { b.Exec[0].Activate = nil },
		"empty command":    func(b *fleet.Bundle) { b.Exec[0].Check = []string{""} },
		"NUL in command":   func(b *fleet.Bundle) { b.Exec[0].Revert = []string{"a", "b\x00c"} },
		"negative timeout": func(b *fleet.Bundle) { b.Exec[0].Timeout = -1 },
		"too many files":   func(b *fleet.Bundle) { b.Files = make([]fleet.File, MaxFiles+1) },
	} {
		b := good()
		change(&b)
		if err := CheckBundle(&b); CodeOf(err) != Malformed {
			t.Errorf("%s: got %v, want Malformed", name, err)
		}
	}
	b := good()
	b.Files[0].Owner, b.Files[1].Owner = "1000:1000", "www-data"
	if err := CheckBundle(&b); err != nil {
		t.Errorf("owners by name and number: %v", err)
	}
}

func TestContainersOfABundleAreChecked(t *testing.T) {
	blob := spec.Blob{Digest: digestOf([]byte("x")), Size: 1}
	good := func() fleet.Bundle {
		return fleet.Bundle{
			Type: fleet.TypeBundle, Name: "web", Files: []fleet.File{}, Exec: []fleet.Exec{}, Critical: []string{"containers"},
			Containers: &spec.Set{
				Images: []spec.Image{{Name: "app", Ref: "app:1", Pull: &spec.Pull{}}, {Name: "tool", Build: &spec.Build{Context: &blob}}},
				Workspaces: []spec.Workspace{
					{Name: "a", Image: "app", Contents: []spec.Content{{Target: "/x", Blob: &blob}}}, {Name: "b", Image: "tool"},
				},
			},
		}
	}
	b := good()
	testkit.Value(ReadBundle(canonical(t, b)))(t)
	if blobs := b.Blobs(); len(blobs) != 1 || blobs[0] != blob {
		t.Errorf("blobs %v, want the one that both name", blobs)
	}
	for name, change := range map[string]func(b *fleet.Bundle){
		"not critical": func(b *fleet.Bundle) { b.Critical = nil },
		"empty":        func(b *fleet.Bundle) { b.Containers = &spec.Set{} },
		"not sorted":   func(b *fleet.Bundle) { w := b.Containers.Workspaces; w[0], w[1] = w[1], w[0] },
		"twice":        func(b *fleet.Bundle) { b.Containers.Workspaces[1].Name = "a" },
		"no image":     func(b *fleet.Bundle) { b.Containers.Workspaces[1].Image = "gone" },
		"name":         func(b *fleet.Bundle) { b.Containers.Workspaces[0].Name = "../a" },
		"many": func(b *fleet.Bundle) {
			b.Containers.Workspaces = make([]spec.Workspace, spec.MaxWorkspaces+1)
		},
		"two sizes": func(b *fleet.Bundle) {
			b.Containers.Workspaces[0].Contents[0].Blob = &spec.Blob{Digest: blob.Digest, Size: 2}
		},
		"negative size": func(b *fleet.Bundle) {
			b.Containers.Images[1].Build.Context = &spec.Blob{Digest: blob.Digest, Size: -1}
		},
		"no digest": func(b *fleet.Bundle) { b.Containers.Images[1].Build.Context = &spec.Blob{} },
	} {
		b := good()
		change(&b)
		if err := CheckBundle(&b); CodeOf(err) != Malformed {
			t.Errorf("%s: got %v, want Malformed", name, err)
		}
	}
}

// A bundle of a later version that says so is refused whole by an agent that
// would run only the half it knows.
func TestBundleWithAnUnknownCriticalField(t *testing.T) {
	for names, ok := range map[string]bool{`["files"]`: true, `["services"]`: false} {
		raw := []byte(`{"_type":"` + fleet.TypeBundle + `","critical":` + names + `,"exec":[],"files":[],"name":"web","services":[1]}`)
		if _, err := ReadBundle(raw); (err == nil) != ok {
			t.Errorf("critical %s: %v", names, err)
		}
	}
}

func TestPathsStayBelowTheRoot(t *testing.T) {
	for _, p := range []string{"", ".", "..", "/", "/etc/passwd", "../x", "a/../../x", "a/..", "a//b", "a/", "./a",
		"a/./b", "a\\b", "a\x00b", "a\nb", "a\x7f", strings.Repeat("a", 256), strings.Repeat("a/", 600) + "a"} {
		if CheckPath(p) == nil {
			t.Errorf("%q is accepted", p)
		}
	}
	for _, p := range []string{"a", "a/b", "..a", "a..b/c", ".hidden", "ü/x", strings.Repeat("a", 255)} {
		if err := CheckPath(p); err != nil {
			t.Errorf("%q: %v", p, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.StringOf(rapid.SampledFrom([]rune("./a\\b"))).Draw(t, "path")
		if CheckPath(p) != nil {
			return
		}
		for part := range strings.SplitSeq(p, "/") {
			if part == "" || part == "." || part == ".." {
				t.Fatalf("%q is accepted", p)
			}
		}
	})
}
