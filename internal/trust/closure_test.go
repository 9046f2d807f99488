package trust

import (
	"reflect"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
)

const closureSystem = "/nix/store/5p3kd2yys1q7cvmn4a0w9xh6rjzfgl8b-system"

func closurePath(path string, refs ...string) fleet.StorePath {
	return fleet.StorePath{Path: path, NarHash: digest.Of([]byte(path)), NarSize: 10, Content: digest.Of([]byte("nar " + path)), Size: 5, Compression: "xz", References: append([]string{}, refs...)}
}

// FuzzClosure: whatever is accepted has the system, names each path after what it refers to,
// and means the same when it is written again.
func FuzzClosure(f *testing.F) {
	lib := "/nix/store/0jqd0rlxzra1rs38rdxl43yh6rxchgc6-lib"
	whole := fleet.Closure{Type: fleet.TypeClosure, Paths: []fleet.StorePath{closurePath(lib), closurePath(closureSystem, lib, closureSystem)}}
	f.Add([]byte(canonical(f, whole)))
	whole.Paths[0], whole.Paths[1] = whole.Paths[1], whole.Paths[0]
	f.Add([]byte(canonical(f, whole)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := &fleet.Nix{Name: "system", Path: closureSystem, Paths: &spec.Blob{Digest: digest.Of(raw), Size: int64(len(raw))}}
		c, err := ReadClosure(n, raw)
		if err != nil {
			return
		}
		before := map[string]bool{}
		for _, p := range c.Paths {
			for _, r := range p.References {
				if r != p.Path && !before[r] {
					t.Fatalf("%s refers to %s, which is not before it", p.Path, r)
				}
			}
			before[p.Path] = true
			text := string(p.Narinfo("nar/" + p.Content.Hex()))
			again, _, err := fleet.ParseNarinfo([]byte(text))
			if err != nil || again.Path != p.Path || again.NarHash != p.NarHash || again.Content != p.Content || strings.Join(again.References, " ") != strings.Join(p.References, " ") {
				t.Fatalf("%v: %+v became %+v", err, p, again)
			}
		}
		if !before[n.Path] {
			t.Fatal("it lacks the system")
		}
		out, err := Canonical(c)
		if err != nil {
			t.Fatal(err)
		}
		n.Paths.Digest = digest.Of(out)
		if again, err := ReadClosure(n, out); err != nil || !reflect.DeepEqual(again, c) {
			t.Fatalf("%v: %+v became %+v", err, c, again)
		}
	})
}

// TestClosuresThatAreRefused: the list comes with a signed bundle, and still is checked before a
// store gets anything of it.
func TestClosuresThatAreRefused(t *testing.T) {
	lib := "/nix/store/0jqd0rlxzra1rs38rdxl43yh6rxchgc6-lib"
	for name, c := range map[string]struct {
		edit func(*fleet.Closure)
		want string
	}{
		"another type":            {func(c *fleet.Closure) { c.Type = fleet.TypeBundle }, "expected a \"steady/closure/v1\""},
		"the system is missing":   {func(c *fleet.Closure) { c.Paths = c.Paths[:1] }, "does not have the system"},
		"a reference is missing":  {func(c *fleet.Closure) { c.Paths = c.Paths[1:] }, "which the list does not have before it"},
		"a path twice":            {func(c *fleet.Closure) { c.Paths = append(c.Paths, c.Paths[0]) }, "listed twice"},
		"another store":           {func(c *fleet.Closure) { c.Paths[0].Path = strings.Replace(lib, "/nix/", "/gnu/", 1) }, "in the store /nix/store"},
		"no store path":           {func(c *fleet.Closure) { c.Paths[0].Path = "/nix/store/../../etc" }, "in the store /nix/store"},
		"a compression":           {func(c *fleet.Closure) { c.Paths[0].Compression = "none\nSig: x" }, "is not known"},
		"a digest":                {func(c *fleet.Closure) { c.Paths[0].Content = "sha256:x" }, "is not a digest"},
		"a size":                  {func(c *fleet.Closure) { c.Paths[0].NarSize = 0 }, "expected 1 to"},
		"a vast size":             {func(c *fleet.Closure) { c.Paths[0].Size = fleet.MaxNar + 1 }, "expected 1 to"},
		"two sizes":               {func(c *fleet.Closure) { c.Paths[1].Content = c.Paths[0].Content; c.Paths[1].Size++ }, "two sizes"},
		"a line in a signature":   {func(c *fleet.Closure) { c.Paths[0].Signatures = []string{"a:b\nStorePath: /x"} }, "no value of one line"},
		"references out of order": {func(c *fleet.Closure) { c.Paths[1].References = []string{closureSystem, lib} }, "not in order"},
		"a deriver":               {func(c *fleet.Closure) { c.Paths[0].Deriver = "x\ny" }, "expected a store path"},
	} {
		t.Run(name, func(t *testing.T) {
			l := fleet.Closure{Type: fleet.TypeClosure, Paths: []fleet.StorePath{closurePath(lib), closurePath(closureSystem, lib, closureSystem)}}
			n := &fleet.Nix{Name: "system", Path: closureSystem}
			if err := fleet.CheckClosure(n, &l); err != nil {
				t.Fatal(err)
			}
			c.edit(&l)
			if err := fleet.CheckClosure(n, &l); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("expected %q: %v", c.want, err)
			}
		})
	}
}
