package imageref

import (
	"strings"
	"testing"
)

// FuzzParse: the full form of what is taken is its own full form, names a
// registry and a path, and has no character that a shell or a log could misread.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"nginx", "registry.example/team/app:1", "localhost:5000/a@sha256:" + strings.Repeat("a", 64),
		"deadbeef", "sha256:" + strings.Repeat("a", 64), "a//b", "A/b", "x:", "index.docker.io/x", "docker.io/deadbeef", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			return
		}
		again, err := Parse(r.String())
		if err != nil && len(r.String()) <= 512 || err == nil && again != r {
			t.Fatalf("%q became %q, which is %+v, %v", s, r, again, err)
		}
		if r.Domain == "" || r.Path == "" || strings.ContainsFunc(r.String(), func(c rune) bool { return c <= ' ' || c > '~' }) || strings.Contains(r.Path, "..") {
			t.Fatalf("took %q as %+v", s, r)
		}
	})
}
