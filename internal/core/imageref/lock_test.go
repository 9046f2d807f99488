package imageref

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	digestA = "sha256:" + strings.Repeat("a", 64)
	digestB = "sha256:" + strings.Repeat("b", 64)
)

func TestPin(t *testing.T) {
	l := Lock{"docker.io/library/nginx:latest": digestA, "docker.io/library/nginx:1.27": digestB, "r.example/a:1": "sha256:1"}
	for ref, want := range map[string]string{
		"nginx": "nginx@" + digestA, "nginx:1.27": "nginx:1.27@" + digestB, "docker.io/nginx:1.27": "docker.io/nginx:1.27@" + digestB,
		"nginx:1.27@" + digestA: "nginx:1.27@" + digestA, // what the file says goes before the lock
		"nginx:1.26":            "", "r.example/a:1": "", "r.example/nginx": "", "": "",
	} {
		got, ok := l.Pin(ref)
		if ok != (want != "") || ok && got != want || !ok && got != ref {
			t.Errorf("%q is pinned as %q, %v: want %q", ref, got, ok, want)
		}
	}
	for key, valid := range map[string]bool{"docker.io/library/nginx:latest": true, "nginx:latest": false, "r.example/a:1": false, "": false} {
		if problem := l.Valid(key); (problem == "") != valid {
			t.Errorf("%q: %q", key, problem)
		}
	}
	for ref, want := range map[string]string{"nginx:1@" + digestA: "nginx:1@sha256:aaaaaaaaaaaa", "nginx:1": "nginx:1", "a@b": "a@b"} {
		if got := Brief(ref); got != want {
			t.Errorf("%q is %q for people, want %q", ref, got, want)
		}
	}
	for ref, want := range map[string]string{"nginx:1@" + digestA: "nginx@" + digestA, "r:5/a@" + digestA: "r:5/a@" + digestA, "r:5/a:1": "r:5/a:1"} {
		if got := Untagged(ref); got != want {
			t.Errorf("%q without its tag is %q, want %q", ref, got, want)
		}
	}
}

// A renewed lock pins every reference in use and has no other; what nobody asked
// for again keeps its digest.
func TestRenewKeepsWhatIsLocked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"r.example/a:1", "r.example/b:1", "r.example/c:1", "r.example/d:1"})
		before := Lock(rapid.MapOf(key, rapid.SampledFrom([]string{digestA, digestB})).Draw(t, "before"))
		used := rapid.SliceOf(key).Draw(t, "used")
		again := rapid.SliceOf(key).Draw(t, "again")
		found := map[string]string{}
		for _, key := range before.Missing(used, func(key string) bool { return slices.Contains(again, key) }) {
			found[key] = digestB
		}
		after, changes := before.Renew(used, found)
		for _, key := range used {
			want := digestB
			if d, locked := before[key]; locked && !slices.Contains(again, key) {
				want = d
			}
			if pinned, ok := after.Pin(key); !ok || pinned != key+"@"+want {
				t.Fatalf("%s is pinned as %s, want %s", key, pinned, want)
			}
		}
		for key := range after {
			if !slices.Contains(used, key) {
				t.Fatalf("%s is locked and not used", key)
			}
		}
		for _, c := range changes {
			if c.Before != before[c.Image] || c.After != after[c.Image] {
				t.Fatalf("the change %+v is none of %v to %v", c, before, after)
			}
		}
	})
}
