package dockerapi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	testkit.Must(t, os.WriteFile(path, []byte(text), mode))
	testkit.Must(t, os.Chmod(path, mode))
}

const config = `{"auths": {
	"registry.example:5000": {"auth": "YWxpY2U6czNjcmV0OngK"},
	"https://index.docker.io/v1/": {"username": "bob", "password": "hunter2"},
	"token.example": {"identitytoken": "tok"},
	"bad.example": {"auth": "####"}, "empty.example": {}},
	"credHelpers": {"aws.example": "ecr-login"}}`

func TestConfigFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	write(t, path, config, 0o600)
	s := OpenCredentials(path)
	for _, c := range []struct{ ref, user, password, token, fails string }{
		{ref: "registry.example:5000/a/b:1", user: "alice", password: "s3cret:x\n"},
		{ref: "busybox", user: "bob", password: "hunter2"},
		{ref: "docker.io/library/busybox", user: "bob", password: "hunter2"},
		{ref: "team/app", user: "bob", password: "hunter2"},
		{ref: "TOKEN.example/a", token: "tok"},
		{ref: "none.example/a"},
		{ref: "bad.example/a", fails: "base64 of user:password"},
		{ref: "empty.example/a", fails: "neither user nor token"},
		{ref: "aws.example/a", fails: "docker-credential-ecr-login"},
	} {
		a, ok, err := s.For(Host(c.ref))
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: error %v, expected %q", c.ref, err, c.fails)
			}
			continue
		}
		if err != nil || ok != (c.user+c.token != "") || a.Username != c.user || a.Password != c.password || a.IdentityToken != c.token {
			t.Errorf("%s: %+v %v %v", c.ref, a, ok, err)
		}
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, os.Chmod(dir, 0o700))
	write(t, filepath.Join(dir, "registry.example:5000"), `{"username":"alice","password":"s3cret"}`, 0o600)
	s := OpenCredentials(dir)
	if a, ok, err := s.For("registry.example:5000"); err != nil || !ok || a.Password != "s3cret" || a.ServerAddress != "registry.example:5000" {
		t.Fatalf("%+v %v %v", a, ok, err)
	}
	if _, ok, err := s.For("other.example"); ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
	for _, name := range []string{"..", ".", ""} {
		if _, _, err := s.For(name); err == nil {
			t.Errorf("%q was taken for a registry", name)
		}
	}
}

func TestNoStoreHasNoCredentials(t *testing.T) {
	if _, ok, err := OpenCredentials(filepath.Join(t.TempDir(), "none")).For(Hub); ok || err != nil {
		t.Fatalf("%v %v", ok, err)
	}
}

func TestWhatOthersCanReadIsRefused(t *testing.T) {
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o601} {
		path := filepath.Join(t.TempDir(), "config.json")
		write(t, path, config, mode)
		_, ok, err := OpenCredentials(path).For(Hub)
		if ok || err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %04o: %v %v", mode, ok, err)
		}
	}
	dir := t.TempDir()
	testkit.Must(t, os.Chmod(dir, 0o750))
	write(t, filepath.Join(dir, Hub), `{"username":"a","password":"b"}`, 0o600)
	if _, ok, err := OpenCredentials(dir).For(Hub); ok || err == nil || !strings.Contains(err.Error(), "chmod 700 "+dir) {
		t.Errorf("folder: %v %v", ok, err)
	}
	if os.Geteuid() == 0 {
		path := filepath.Join(t.TempDir(), "config.json")
		write(t, path, config, 0o600)
		testkit.Must(t, os.Chown(path, 12345, 0))
		if _, ok, err := OpenCredentials(path).For(Hub); ok || err == nil || !strings.Contains(err.Error(), "chown") {
			t.Errorf("another owner: %v %v", ok, err)
		}
	}
}

func TestErrorsHoldNoSecret(t *testing.T) {
	for _, text := range []string{`{"auths": {"a.example": {"password": "hunter2"`, `{"auths": {"docker.io": {"username": ["hunter2"]}}}`, `hunter2`} {
		path := filepath.Join(t.TempDir(), "config.json")
		write(t, path, text, 0o600)
		_, _, err := OpenCredentials(path).For(Hub)
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
