package caddy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// server is a Caddy of a test, with a home and ports of its own.
type server struct {
	t        *testing.T
	dir      string
	admin    int
	cmd      *exec.Cmd
	raw      *client // past the driver
	front    *httptest.Server
	broken   atomic.Bool
	loseNext atomic.Bool // the answer to the next change
	watching bool
}

func start(t *testing.T) *server {
	t.Helper()
	testkit.Command(t, "caddy", "apt-get install caddy")
	s := &server{t: t, dir: t.TempDir(), admin: testkit.Ports(t, "tcp", 1)[0]}
	s.write(s.empty())
	target := &url.URL{Scheme: "http", Host: "127.0.0.1:" + strconv.Itoa(s.admin)}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: &http.Transport{DisableKeepAlives: true},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }} // resets, as Caddy did
	s.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.broken.Load():
			w.WriteHeader(http.StatusBadGateway)
		case r.Method != http.MethodGet && s.loseNext.CompareAndSwap(true, false):
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			w.WriteHeader(http.StatusGatewayTimeout)
		default:
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.front.Close)
	var err error
	if s.raw, err = newClient(target.String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	s.run("--config", s.file())
	return s
}

func (s *server) file() string { return filepath.Join(s.dir, "caddy.json") }

func (s *server) empty() json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"admin":{"listen":"127.0.0.1:%d"},"apps":{"http":{"servers":{}}}}`, s.admin))
}

func (s *server) write(raw json.RawMessage) {
	s.t.Helper()
	if err := os.WriteFile(s.file(), raw, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) run(args ...string) {
	s.t.Helper()
	s.cmd = exec.Command("caddy", append([]string{"run"}, args...)...)
	s.cmd.Env = append(os.Environ(), "HOME="+s.dir, "XDG_CONFIG_HOME="+s.dir, "XDG_DATA_HOME="+s.dir)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var log bytes.Buffer
	s.cmd.Stdout, s.cmd.Stderr = &log, &log
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.until("it starts", func() bool {
		_, _, err := s.raw.get(context.Background(), root)
		return err == nil
	})
}

func (s *server) until(what string, is func() bool) {
	s.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for range time.Tick(5 * time.Millisecond) {
		if is() {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("not reached: %s", what)
		}
	}
}

func (s *server) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// restart has it resume what it saved; fresh, with its file alone.
func (s *server) restart(resume bool) error {
	s.stop()
	if resume {
		s.run("--resume", "--config", s.file())
		return nil
	}
	s.run("--config", s.file())
	return nil
}

func (s *server) driver() *Driver {
	s.t.Helper()
	d, err := New(Options{URL: s.front.URL})
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// setByAPI is a person with curl, without ETags.
func (s *server) setByAPI(id string, config json.RawMessage) error {
	path, err := pathOf(id)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if config == nil {
		return s.raw.change(ctx, http.MethodDelete, path, "", nil)
	}
	return s.raw.change(ctx, http.MethodPost, path, "", config)
}

// setByFile is a person with an editor and the running configuration in a file, which Caddy
// watches.
func (s *server) setByFile(id string, config json.RawMessage) error {
	whole, _, err := s.raw.get(context.Background(), root)
	if err != nil {
		return err
	}
	if !s.watching {
		s.watching = true
		s.write(whole)
		s.stop()
		s.run("--config", s.file(), "--watch")
	}
	next, err := with(whole, nodesdk.Item{ID: id, Config: config})
	if config == nil {
		var v any
		v, err = nodeconfig.Decode(whole)
		delete(v.(map[string]any)["apps"].(map[string]any)["http"].(map[string]any)["servers"].(map[string]any), id)
		raw, merr := json.Marshal(v)
		next, err = raw, errors.Join(err, merr)
	}
	if err != nil {
		return err
	}
	s.write(next)
	s.until("it loads the file", func() bool {
		now, _, err := s.raw.get(context.Background(), root)
		return err == nil && same(now, next)
	})
	return nil
}

func same(a, b json.RawMessage) bool {
	x, errX := nodeconfig.Canonical(a)
	y, errY := nodeconfig.Canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
