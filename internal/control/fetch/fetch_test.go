package fetch

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// content is a folder with the names of a release; whether it verifies is not
// this package's business.
func content(stamp string) map[string]string {
	return map[string]string{
		"timestamp.json": stamp, "fleet.resolved.json": "{}", "rollouts/stable@v1.json": "{}",
		"blobs/" + strings.Repeat("a", 64): strings.Repeat("b", 70_000),
	}
}

func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		testkit.Must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		testkit.Must(t, os.WriteFile(at, []byte(text), 0o644))
	}
}

func read(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	testkit.Must(t, filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		raw, err := os.ReadFile(p)
		files[filepath.ToSlash(rel)] = string(raw)
		return err
	}))
	return files
}

func open(t testing.TB, spec string, o Options) Source {
	t.Helper()
	s := testkit.Value(Open(spec, o))(t)
	return s
}

// took fetches and expects what was fetched.
func took(t testing.TB, s Source, last string, want map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	validator, changed, err := s.Fetch(t.Context(), dir, last)
	testkit.Must(t, err)
	if changed != (want != nil) || validator == "" {
		t.Fatalf("changed %t, validator %q", changed, validator)
	}
	if want == nil {
		want = map[string]string{}
	}
	if diff := cmp.Diff(want, read(t, dir)); diff != "" {
		t.Fatalf("fetched otherwise: %.2000s", diff)
	}
	return validator
}

// fails fetches and expects a cause.
func fails(t testing.TB, s Source, cause string) error {
	t.Helper()
	_, changed, err := s.Fetch(t.Context(), t.TempDir(), "")
	var own *Error
	if !errors.As(err, &own) || own.Cause() != cause || changed {
		t.Fatalf("%v (%t), expected %s", err, changed, cause)
	}
	return err
}

func TestFolderIsCopiedWhenItSettled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "release")
	s := open(t, "dir:"+dir, Options{})
	fails(t, s, Unreachable)
	write(t, dir, content("one"))
	last := took(t, s, "", content("one"))
	if again := took(t, s, last, nil); again != last {
		t.Errorf("the validator went from %s to %s", last, again)
	}
	// The same size and time as before: a copy that keeps times.
	stamp := filepath.Join(dir, "timestamp.json")
	info := testkit.Value(os.Stat(stamp))(t)
	write(t, dir, map[string]string{"timestamp.json": "two"})
	testkit.Must(t, os.Chtimes(stamp, info.ModTime(), info.ModTime()))
	last = took(t, s, last, content("two"))
	// A link in place of the folder, as deployments by links have it.
	testkit.Must(t, os.Rename(dir, dir+".v2"))
	testkit.Must(t, os.Symlink(dir+".v2", dir))
	took(t, s, last, nil)
	took(t, s, "", content("two"))
}

func TestFolderThatIsNoRelease(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(outside, []byte("secret"), 0o600))
	for what, spoil := range map[string]func(dir string) error{
		"a link":         func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "roster.json")) },
		"a strange file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "README"), nil, 0o644) },
		"a deep folder":  func(dir string) error { return os.MkdirAll(filepath.Join(dir, "blobs", "x"), 0o755) },
		"an envelope over its cap": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "timestamp.json"), make([]byte, 8<<20), 0o644)
		},
		"no file": func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "release")
			write(t, dir, content("one"))
			testkit.Must(t, spoil(dir))
			fails(t, open(t, "dir:"+dir, Options{}), Content)
		})
	}
	dir := t.TempDir()
	write(t, dir, content("one"))
	fails(t, open(t, "dir:"+dir, Options{Caps: release.Caps{Files: 2, Bytes: 1 << 20}}), Content)
	fails(t, open(t, "dir:"+dir, Options{Caps: release.Caps{Files: 9, Bytes: 1 << 10}}), Content)
}

// A folder that never rests is not taken, and the wait ends with the context.
func TestFolderThatChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, content("one"))
	s := open(t, "dir:"+dir, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.Fetch(ctx, t.TempDir(), ""); !errors.Is(err, context.Canceled) {
		t.Errorf("a folder that was looked at once was taken: %v", err)
	}
}

func TestSpecsAreStrict(t *testing.T) {
	cache := t.TempDir()
	secret := Credentials{user: "ci", secret: "hush"}
	for spec, o := range map[string]Options{
		"":                        {},
		"release":                 {},
		"dir:release":             {},
		"ftp://h/x":               {},
		"https:///x":              {},
		"https://u:p@h/x":         {},
		"https://u@h/x":           {},
		"https://h/x#y":           {},
		"https://h/\nx":           {},
		"git+https://u:p@h/x":     {Cache: cache},
		"git+https://h/x?y=1":     {Cache: cache},
		"git+https://h/x#-u:y":    {Cache: cache},
		"git+https://h/x#a..b:y":  {Cache: cache},
		"git+https://h/x#m:../y":  {Cache: cache},
		"git+https://h/x#m:a//b":  {Cache: cache},
		"git+https://h/x":         {},
		"git+ext://sh/x":          {Cache: cache},
		"git+ssh://-oProxy/x":     {Cache: cache},
		"git+file:x":              {Cache: cache},
		"http://h/x":              {Credentials: secret},
		"git+ssh://git@h/x#m":     {Cache: cache, Credentials: secret},
		strings.Repeat("x", 3000): {},
	} {
		if _, err := Open(spec, o); err == nil {
			t.Errorf("%q was taken as a source", spec)
		} else if strings.Contains(err.Error(), ":p@") {
			t.Errorf("the refusal tells the password: %v", err)
		}
	}
	for spec, name := range map[string]string{
		"dir:/srv/x/":                "dir:/srv/x",
		"https://h/x.tar?token=hush": "https://h/x.tar?...",
		"git+ssh://git@h/x#main:rel": "git+ssh://git@h/x#main:rel",
		"git+file:///srv/x.git":      "git+file:///srv/x.git",
	} {
		s, err := Open(spec, Options{Cache: cache})
		if err != nil || s.Name() != name {
			t.Errorf("%s: %v, %v", spec, s, err)
		}
	}
}

func TestSecretsAreTheOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for text, want := range map[string]Credentials{"ci:hush:hush\n": {"ci", "hush:hush"}, " token \n": {"", "token"}} {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		if got, err := ReadCredentials(path); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", " \n", "a:b\nc:d", "a b", strings.Repeat("x", 5000)} {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
		if got, err := ReadCredentials(path); err == nil {
			t.Errorf("%.20q was taken as %v", text, got)
		}
	}
	testkit.Must(t, os.WriteFile(path, []byte("token"), 0o600))
	testkit.Must(t, os.Chmod(path, 0o640))
	if _, err := ReadCredentials(path); err == nil {
		t.Error("a secret that others read was taken")
	}
}

func TestNamesMayNotPointClose(t *testing.T) {
	for host, bad := range map[string][]string{
		"releases.example": {"127.0.0.1:443", "[::1]:443", "169.254.169.254:80", "[fe80::1%eth0]:443", "[fd00:ec2::254]:80", "0.0.0.0:80", "[::ffff:127.0.0.1]:80", "224.0.0.1:80"},
		"localhost":        {"169.254.169.254:80"},
		"127.0.0.1":        {"127.0.0.2:80", "169.254.169.254:80"},
	} {
		for _, address := range bad {
			if err := guarded(host).check(address); err == nil {
				t.Errorf("%s may be at %s", host, address)
			}
		}
	}
	for host, good := range map[string][]string{
		"releases.example": {"93.184.216.34:443", "10.0.0.7:443", "[2001:db8::1]:443"},
		"localhost":        {"127.0.0.1:80", "[::1]:80"},
		"127.0.0.1":        {"127.0.0.1:80"},
		"169.254.1.1":      {"169.254.1.1:80"},
	} {
		for _, address := range good {
			testkit.Must(t, guarded(host).check(address))
		}
	}
}

func TestContentHasNames(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(content(""))) {
		if _, ok := release.FileCap(name); !ok {
			t.Errorf("%s is no name of a release", name)
		}
	}
}
