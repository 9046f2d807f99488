package caddy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// server is a Caddy of a test, behind what may lose answers.
type server struct {
	*testkit.Caddy
	t        *testing.T
	raw      *client // past the driver
	front    *httptest.Server
	broken   atomic.Bool
	loseNext atomic.Bool // the answer to the next change
	watching bool
}

func start(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, Caddy: testkit.StartCaddy(t)}
	target := testkit.Value(url.Parse(s.URL))(t)
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
	s.raw = testkit.Value(newClient(s.URL))(t)
	return s
}

// restart has it resume what it saved; fresh, with its file alone.
func (s *server) restart(resume bool) error {
	if resume {
		s.Restart("--resume")
	} else {
		s.Restart()
	}
	return nil
}

func (s *server) driver() *Driver {
	s.t.Helper()
	d, err := New(Config{URL: s.front.URL})
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
		s.Write(whole)
		s.Restart("--watch")
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
	s.Write(next)
	testkit.Eventually(s.t, "it loads the file", func() bool {
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
