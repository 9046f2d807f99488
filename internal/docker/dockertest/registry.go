package dockertest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/sandbox"
	"github.com/steadyfleet/steady/internal/testkit"
)

// Hub is a registry on a loopback port that wants a user and a password.
// Engines speak plain HTTP to it.
type Hub struct {
	Addr     string // a loopback address with its port
	User     string
	Password string
	// LogFile is what the registry prints, every request among it.
	LogFile string
}

// Registry starts a registry for this test.
func Registry(t testing.TB) *Hub {
	t.Helper()
	testkit.Needs(t, Here, testkit.Registry)
	dir := filepath.Join(base, "registry-"+strconv.Itoa(number()))
	testkit.Must(t, os.MkdirAll(dir, 0o755))
	h := &Hub{Addr: testkit.FreeAddr(t), User: "puller", Password: "p-" + filepath.Base(dir), LogFile: filepath.Join(dir, "log")}
	users, err := exec.Command("htpasswd", "-Bbn", h.User, h.Password).Output()
	if err != nil {
		t.Fatal("htpasswd:", err)
	}
	config := fmt.Sprintf(`version: 0.1
log: {level: info}
storage:
  filesystem: {rootdirectory: %[1]s/data}
  delete: {enabled: true}
http: {addr: %[2]s}
auth:
  htpasswd: {realm: test, path: %[1]s/users}
`, dir, h.Addr)
	for name, data := range map[string][]byte{"users": bytes.TrimSpace(users), "config.yml": []byte(config)} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	p, err := sandbox.Start("the registry", h.LogFile, exec.Command("docker-registry", "serve", filepath.Join(dir, "config.yml")))
	testkit.Must(t, err)
	t.Cleanup(func() {
		p.End(syscall.SIGKILL, timeout)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	h.await(t)
	return h
}

func (h *Hub) await(t testing.TB) {
	t.Helper()
	deadline := time.After(timeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		r, err := http.Get("http://" + h.Addr + "/v2/")
		if err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusUnauthorized {
				return
			}
			err = fmt.Errorf("answered %s to a request without a password", r.Status)
		}
		select {
		case <-deadline:
			printed, _ := os.ReadFile(h.LogFile)
			t.Fatalf("the registry did not come up: %v; it printed:\n%s", err, printed)
		case <-tick.C:
		}
	}
}

// Auth are credentials that the registry accepts.
func (h *Hub) Auth() registry.AuthConfig {
	return registry.AuthConfig{Username: h.User, Password: h.Password, ServerAddress: h.Addr}
}

// Ref is the reference of a name[:tag] at the registry.
func (h *Hub) Ref(name string) string { return h.Addr + "/" + name }

// Push tags an image of the engine with the name at the registry, pushes it,
// takes the tag away again and gives the reference and the digest of what the
// registry has now.
func (h *Hub) Push(t testing.TB, d *Daemon, image, name string) (ref, digest string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	ref = h.Ref(name)
	api := d.Client()
	testkit.Value(api.ImageTag(ctx, client.ImageTagOptions{Source: image, Target: ref}))(t)
	auth := testkit.Value(authconfig.Encode(h.Auth()))(t)
	r := testkit.Value(api.ImagePush(ctx, ref, client.ImagePushOptions{RegistryAuth: auth}))(t)
	if err := r.Wait(ctx); err != nil {
		t.Fatalf("push %s: %v", ref, err)
	}
	pushed := testkit.Value(api.ImageInspect(ctx, ref))(t)
	for _, d := range pushed.RepoDigests {
		if len(d) > len(h.Addr) && d[:len(h.Addr)] == h.Addr {
			digest = d[len(d)-len("sha256:")-64:]
		}
	}
	testkit.Value(api.ImageRemove(ctx, ref, client.ImageRemoveOptions{}))(t)
	return ref, digest
}
