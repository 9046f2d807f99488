package dockerapi_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	api "github.com/moby/moby/api/types/registry"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/testkit"
)

// manifest stands for one; its digest is what the registry must be asked for.
const manifest = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`

func digestOf(text string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(text))) }

// server answers as registries with a token service do: it wants a token, trades
// the password or the refresh token for one, and gives the digest in a header
// unless headless.
type server struct {
	headless bool
	refresh  bool
	asked    []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	switch {
	case r.URL.Path == "/token":
		user, password, _ := r.BasicAuth()
		right := user == "ada" && password == "right" && r.FormValue("scope") == "repository:team/app:pull" && r.FormValue("service") == "reg, with a comma"
		if s.refresh {
			right = r.Method == http.MethodPost && r.FormValue("refresh_token") == "once" && r.FormValue("scope") == "repository:team/app:pull"
		}
		if !right {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"access_token":"t"}`)
	case r.Header.Get("Authorization") != "Bearer t":
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="reg, with a comma",scope="repository:x:pull"`, r.Host))
		w.WriteHeader(http.StatusUnauthorized)
	case r.URL.Path != "/v2/team/app/manifests/1", !strings.Contains(r.Header.Get("Accept"), "image.index.v1+json"):
		w.WriteHeader(http.StatusNotFound)
	default:
		if !s.headless {
			w.Header().Set("Docker-Content-Digest", digestOf(manifest))
		}
		fmt.Fprint(w, manifest)
	}
}

func TestDigestOfATag(t *testing.T) {
	password := api.AuthConfig{Username: "ada", Password: "right"}
	for name, c := range map[string]struct {
		server server
		have   api.AuthConfig
		ref    string
		err    error
	}{
		"with a password":      {server{}, password, "team/app:1", nil},
		"with a refresh token": {server{refresh: true}, api.AuthConfig{IdentityToken: "once"}, "team/app:1", nil},
		"with a token":         {server{}, api.AuthConfig{RegistryToken: "t"}, "team/app:1", nil},
		"without a header":     {server{headless: true}, password, "team/app:1", nil},
		"another tag":          {server{}, password, "team/app:2", dockerapi.ErrUnknownImage},
		"a wrong password":     {server{}, api.AuthConfig{Username: "ada", Password: "wrong"}, "team/app:1", dockerapi.ErrUnknownImage},
		"a wrong token":        {server{}, api.AuthConfig{RegistryToken: "x"}, "team/app:1", dockerapi.ErrUnknownImage},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(&c.server)
			defer s.Close()
			host := strings.TrimPrefix(s.URL, "http://")
			client := dockerapi.Registry{Credentials: func(asked string) (api.AuthConfig, bool, error) {
				return c.have, true, map[bool]error{false: errors.New("credentials of another registry: " + asked)}[asked == host]
			}}
			got, err := client.Digest(context.Background(), host+"/"+c.ref)
			if !errors.Is(err, c.err) || err == nil && got != digestOf(manifest) {
				t.Errorf("%q, %v; asked %v", got, err, c.server.asked)
			}
			if c.err != nil && !strings.Contains(err.Error(), c.ref) {
				t.Errorf("the error does not name the image: %v", err)
			}
		})
	}
}

// A registry that wants a password gets no other than that of its own name, and
// without one the error says what to do.
func TestWithoutCredentials(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		w.WriteHeader(http.StatusUnauthorized)
		if r.Header.Get("Authorization") != "" {
			t.Error("credentials were sent that nobody gave")
		}
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	_, err := (&dockerapi.Registry{}).Digest(context.Background(), host+"/app:1")
	if err == nil || !strings.Contains(err.Error(), "docker login "+host) {
		t.Errorf("%v", err)
	}
}

// Passwords are not sent in the open to registries elsewhere, nor to a token
// service that a registry names.
func TestPlainHTTPIsForThisMachine(t *testing.T) {
	s := httptest.NewTLSServer(&server{}) // it names its token service by http
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "https://")
	client := dockerapi.Registry{HTTP: s.Client(), Credentials: func(string) (api.AuthConfig, bool, error) {
		return api.AuthConfig{Username: "ada", Password: "right"}, true, nil
	}}
	if _, err := client.Digest(context.Background(), host+"/team/app:1"); err == nil || !strings.Contains(err.Error(), "no https address") {
		t.Errorf("%v", err)
	}
}

func TestLayout(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "index.json"), []byte(text), 0o644))
	}
	entry := func(digest, name string) string {
		return fmt.Sprintf(`{"digest":%q,"annotations":{"org.opencontainers.image.ref.name":%q}}`, digest, name)
	}
	one, two := digestOf("1"), digestOf("2")
	write(`{"manifests":[` + entry(one, "r.example/a:1") + "," + entry(one, "latest") + "," + entry("sha256:1", "r.example/b:1") + "," + entry(two, "nginx:1") + "]}")
	l, err := dockerapi.Layout(dir)
	if err != nil || len(l) != 2 || l["r.example/a:1"] != one || l["docker.io/library/nginx:1"] != two {
		t.Errorf("%v, %v", l, err)
	}
	write(`{"manifests":[` + entry(one, "r.example/a:1") + "," + entry(two, "r.example/a:1") + "]}")
	if _, err := dockerapi.Layout(dir); err == nil || !strings.Contains(err.Error(), "r.example/a:1") {
		t.Errorf("two images of one name: %v", err)
	}
	if _, err := dockerapi.Layout(filepath.Join(dir, "gone")); err == nil || !strings.Contains(err.Error(), "no OCI image layout") {
		t.Errorf("%v", err)
	}
}
