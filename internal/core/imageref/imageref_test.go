package imageref

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestReferences(t *testing.T) {
	for ref, want := range map[string]string{
		"nginx": "docker.io/library/nginx", "acme/app:1": "docker.io/acme/app:1", "localhost/app": "localhost/app",
		"localhost:5000/a/b:c": "localhost:5000/a/b:c", "index.docker.io/library/nginx": "docker.io/library/nginx",
		"r.example/a@sha256:" + strings.Repeat("0a", 32): "r.example/a@sha256:" + strings.Repeat("0a", 32),
		"": "", "a b": "", "A": "", "cafe": "", "cafe:1": "docker.io/library/cafe:1", "a:": "", "a@sha256:1": "", "/a": "", "a//b": "", "../a": "",
		"sha256:" + strings.Repeat("0a", 32): "", strings.Repeat("0a", 32): "",
	} {
		r, err := Parse(ref)
		got := r.String()
		if err != nil {
			got = ""
		}
		if got != want {
			t.Errorf("%q is %q, want %q (%v)", ref, got, want, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab0.:/@-_A"))).Draw(t, "ref")
		r, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(r.String())
		if err != nil || again != r {
			t.Fatalf("%q reads as %v, and that as %v, %v", text, r, again, fmt.Sprint(err))
		}
	})
}
