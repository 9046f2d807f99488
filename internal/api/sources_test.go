package api_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control/fetch"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

const hookSecret = "a secret of some length"

// withSource has a server look at a source when it is nudged.
func withSource(t *testing.T, spec string) func(*api.Options) {
	t.Helper()
	s := testkit.Value(fetch.Open(spec, fetch.Options{}))(t)
	return func(o *api.Options) {
		o.Control.SourceGap = clock.Millisecond
		o.Control.Sources, o.Control.SourceEvery, o.Control.HookSecret = []fetch.Source{s}, clock.Hour, []byte(hookSecret)
	}
}

func sign(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// nudge asks for a look and waits until it is over.
func (w *world) nudge() operator.Source {
	w.t.Helper()
	before := w.source().LastChecked
	if status, words := w.request("", "POST", operator.RouteHook, "{}", "X-Hub-Signature-256", sign(hookSecret, "{}")); status != 202 {
		w.t.Fatalf("a webhook was answered %d %s", status, words)
	}
	w.until("a look at the source", func() bool { return w.source().LastChecked > before })
	return w.source()
}

func (w *world) source() operator.Source {
	w.t.Helper()
	all := testkit.Value(w.op.Sources(w.ctx()))(w.t)
	return all[0]
}

// releases serves the packed release folder that was put there last.
type releases struct {
	mu  sync.Mutex
	dir string
	n   int
	bad func(http.ResponseWriter) // instead
}

func (r *releases) put(dir string, bad func(http.ResponseWriter)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dir, r.bad = dir, bad
	r.n++
}

func (r *releases) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	etag := fmt.Sprintf("%q", fmt.Sprint(r.n))
	w.Header().Set("ETag", etag)
	switch {
	case r.bad != nil:
		r.bad(w)
	case req.Header.Get("If-None-Match") == etag:
		w.WriteHeader(http.StatusNotModified)
	default:
		packed := release.Pack(os.DirFS(r.dir))
		defer packed.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := packed.Read(buf)
			if _, failed := w.Write(buf[:n]); err != nil || failed != nil {
				return
			}
		}
	}
}

// S32: whatever a source shows that does not verify, nothing changes but one
// alert, which ends when the source shows what verifies.
func TestS32LyingSources(t *testing.T) {
	shelf := &releases{bad: func(w http.ResponseWriter) { w.WriteHeader(500) }}
	site := httptest.NewServer(shelf)
	defer site.Close()
	w := newWorld(t, withSource(t, site.URL+"/acme.tar"))
	w.until("the first look", func() bool { return w.source().Unfetched != nil })
	one := w.build("r1", plan{hosts: 2, content: "one"})
	shelf.put(one, nil)
	if s := w.nudge(); s.Summary.Word != warning.SourceWell || s.Ref != "r1" {
		t.Fatalf("%+v", s)
	}
	two := w.build("r2", plan{hosts: 2, content: "two"})
	other := newKeys(t)
	spoil := func(name string, change func(path string) error) string {
		dir := filepath.Join(t.TempDir(), "release")
		testkit.Must(t, os.CopyFS(dir, os.DirFS(two)))
		matches := testkit.Value(filepath.Glob(filepath.Join(dir, name)))(t)
		testkit.Must(t, change(matches[0]))
		return dir
	}
	flip := func(path string) error {
		raw, err := os.ReadFile(path)
		raw[len(raw)/2] ^= 1
		if err != nil {
			return err
		}
		return os.WriteFile(path, raw, 0o644)
	}
	page := func(w http.ResponseWriter) { fmt.Fprint(w, strings.Repeat("<p>moved</p>", 200)) }
	for _, c := range []struct {
		what string
		dir  string
		bad  func(http.ResponseWriter)
	}{
		{"of other keys", other.build("r9", plan{hosts: 2, content: "nine"}), nil},
		{"a flipped snapshot", spoil("fleet.resolved.json", flip), nil},
		{"a flipped timestamp", spoil("timestamp.json", flip), nil},
		{"a flipped manifest", spoil("rollouts/stable@r2.json", flip), nil},
		{"flipped leaves", spoil("rollouts/stable@r2.leaves.json", flip), nil},
		{"a flipped bundle", spoil("bundles/*.json", flip), nil},
		{"a flipped blob", spoil("blobs/*", flip), nil},
		{"no roster", spoil("roster.json", os.Remove), nil},
		{"a stranger in it", spoil("roster.json", func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), "bundles", strings.Repeat("0", 64)+".json"), []byte("{}"), 0o644)
		}), nil},
		{"a page", "", page},
	} {
		version, before, opened := w.server.Control().Head().Seq, count(w.types(""), "release.verify_failed"), count(w.types(""), "attention.opened")
		shelf.put(c.dir, c.bad)
		for range 2 {
			if s := w.nudge(); s.Summary.Word != warning.SourceRefused || s.Ref != "r1" {
				t.Errorf("%s: %+v", c.what, s)
			}
		}
		if n := count(w.types(""), "release.verify_failed") - before; n != 1 {
			t.Errorf("%s: %d alerts", c.what, n)
		}
		// Another cause is another item of the inbox.
		if got := w.server.Control().Head().Seq - version; got != 1+uint64(count(w.types(""), "attention.opened")-opened) || got > 2 {
			t.Errorf("%s: the log grew by %d", c.what, got)
		}
		status := testkit.Value(w.op.Status(w.ctx()))(t)
		if status.Release.Version != 1 {
			t.Fatalf("%s: accepted as version %d", c.what, status.Release.Version)
		}
	}
	// The alert outlives the server, and is not raised again by a new one.
	before := count(w.types(""), "release.verify_failed")
	w.halt()
	w.start()
	w.until("the first look after a restart", func() bool { return w.source().LastChecked != 0 })
	if n := count(w.types(""), "release.verify_failed"); n != before || w.source().Refused == nil {
		t.Errorf("%d alerts after a restart, expected %d; %+v", n, before, w.source())
	}
	shelf.put(two, nil)
	if s := w.nudge(); s.Summary.Word != warning.SourceWell || s.Ref != "r2" {
		t.Errorf("%+v", s)
	}
	if n := count(w.types(""), "source.recovered"); n != 2 {
		t.Errorf("%d recoveries, expected one of the fetch and one of the content", n)
	}
	shelf.put(one, nil)
	if s := w.nudge(); s.Summary.Word != warning.SourceRefused || s.Refused.Cause == "" {
		t.Errorf("an older release: %+v", s)
	}
	// A newer timestamp alone is picked up.
	begun := testkit.Value(trust.Begin(testFleet, w.root, ""))(t)
	testkit.Value(release.Refresh(two, release.RefreshOptions{State: begun, Now: w.server.Control().Now().Add(clock.Second), Signers: []trust.Signer{w.keys[trust.RoleTimestamp]}}))(t)
	stamps := count(w.types(""), "release.timestamp")
	shelf.put(two, nil)
	if s := w.nudge(); s.Summary.Word != warning.SourceWell || count(w.types(""), "release.timestamp") != stamps+1 {
		t.Errorf("a refreshed timestamp: %+v", s)
	}
}

// A webhook that is signed makes the server look; any other does nothing.
func TestWebhookOnlyNudges(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "release")
	w := newWorld(t, withSource(t, "dir:"+dir))
	w.until("the first look", func() bool { return w.source().Unfetched != nil })
	looked := w.source().LastChecked
	body := `{"ref":"refs/heads/evil","repository":{"clone_url":"https://evil.example/x.git"}}`
	for what, c := range map[string]struct {
		body, signature string
		status          int
	}{
		"no signature":      {body, "", 401},
		"of another secret": {body, sign("another", body), 401},
		"of another body":   {body, sign(hookSecret, body+" "), 401},
		"an empty one":      {body, "sha256=", 401},
		"of another hash":   {body, strings.Replace(sign(hookSecret, body), "sha256", "sha1", 1), 401},
		"cut":               {body, sign(hookSecret, body)[:40], 401},
		"too large":         {strings.Repeat("x", 2<<20), sign(hookSecret, "x"), 413},
	} {
		if status, words := w.request("", "POST", operator.RouteHook, c.body, "X-Hub-Signature-256", c.signature); status != c.status {
			t.Errorf("%s: %d %s", what, status, words)
		}
	}
	if got := w.source().LastChecked; got != looked {
		t.Error("a webhook that was refused made the server look")
	}
	testkit.Must(t, os.Rename(w.build("r1", plan{hosts: 1, content: "one"}), dir))
	if status, _ := w.request("", "POST", operator.RouteHook, body, "X-Hub-Signature-256", sign(hookSecret, body)); status != 202 {
		t.Errorf("a signed webhook was answered %d", status)
	}
	w.until("the release", func() bool { return w.source().Ref == "r1" })
	// Thirty at once, and then one a second: a flood is what comes faster, however
	// slow the machine.
	var flood sync.WaitGroup
	var refused atomic.Int64
	flooding := newAgentLike(w)
	for range 90 {
		flood.Go(func() {
			req := testkit.Value(http.NewRequestWithContext(w.ctx(), "POST", w.server.OperatorURL()+operator.RouteHook, strings.NewReader(body)))(t)
			req.Header.Set("X-Hub-Signature-256", "sha256=00")
			res := testkit.Value(flooding.Do(req))(t)
			testkit.Must(t, res.Body.Close())
			if res.StatusCode == 429 {
				refused.Add(1)
			}
		})
	}
	flood.Wait()
	if refused.Load() == 0 {
		t.Error("a flood of webhooks is not bounded")
	}
}

// S31: a server that another one has replaced does not look at its sources, before
// it has anything to append.
func TestS31ReplacedServerDoesNotLook(t *testing.T) {
	var asked atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer site.Close()
	w := newWorld(t, withSource(t, site.URL+"/acme.tar"))
	w.until("the first look", func() bool { return w.source().Unfetched != nil })
	o := w.opts
	o.Listen, o.Control.Sources = "127.0.0.1:0", nil
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	second := testkit.Value(api.Start(ctx, o))(t)
	before := asked.Load()
	if s := w.nudge(); !strings.Contains(s.LastError, "nothing is checked") {
		t.Errorf("%+v", s)
	}
	if n := asked.Load(); n != before {
		t.Errorf("a replaced server asked for releases %d times", n-before)
	}
	stop()
	testkit.Must(t, second.Wait())
}
