package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operations"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

// routePath fills in a route's parameters.
var routePath = strings.NewReplacer("{host}", "h", "{rollout}", "r", "{verb}", "pause", "{channel}", "c", "{bundle}", "b", "{id}", "i", "{kind}", "workspace", "{name}", "n", "{node}", "n", "{part}", "p", "{phase}", "h")

// request sends one to the operator API as anybody might.
func (w *world) request(secret, method, path, body string, headers ...string) (int, string) {
	w.t.Helper()
	res, text := w.answer(secret, method, path, body, headers...)
	return res.StatusCode, text
}

// answer is request with all that is said beside the body.
func (w *world) answer(secret, method, path, body string, headers ...string) (*http.Response, string) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx())
	defer cancel()
	req := testkit.Value(http.NewRequestWithContext(ctx, method, w.server.OperatorURL()+path, strings.NewReader(body)))(w.t)
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	req.Header.Set("Content-Type", "application/json")
	if slices.Contains(headers, "Authorization") {
		req.Header.Del("Authorization")
	}
	if slices.Contains(headers, "Content-Type") {
		req.Header.Del("Content-Type")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	client := newAgentLike(w)
	res := testkit.Value(client.Do(req))(w.t)
	defer client.CloseIdleConnections()
	defer res.Body.Close()
	if res.Header.Get("Content-Type") == "text/event-stream" {
		return res, ""
	}
	buf := make([]byte, 1<<20)
	n := 0
	for n < len(buf) {
		m, err := res.Body.Read(buf[n:])
		n += m
		if err != nil {
			break
		}
	}
	return res, string(buf[:n])
}

// newAgentLike returns an HTTP client that trusts the server and has no
// certificate of its own.
func newAgentLike(w *world) *http.Client {
	a := &agent{w: w, name: "none"}
	a.connect()
	return a.http
}

// Every route names who may use it, and admits exactly them.
func TestRouteRoleMatrix(t *testing.T) {
	w := newWorld(t)
	secrets := map[operator.Role]string{}
	for _, role := range []operator.Role{operator.Viewer, operator.Operator, operator.Releaser, operator.Admin} {
		made := testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: string(role), Role: role}))(t)
		secrets[role] = made.Secret
	}
	routes := operations.New(w.server.Control(), nil, nil).Routes()
	if len(routes) < 19 {
		t.Fatalf("only %d routes", len(routes))
	}
	for _, r := range routes {
		p := r.Permission
		if !p.Anyone && !p.Signed && len(p.Roles) == 0 {
			t.Errorf("%s %s declares no permission", r.Method, r.Path)
		}
		path := routePath.Replace(r.Path)
		for _, secret := range []string{"", "steadyop_wrong"} {
			status, _ := w.request(secret, r.Method, path, "{}")
			if open := p.Anyone || p.Local; open != (status != 401 && status != 403) || !open && status != 401 {
				t.Errorf("%s %s with token %q: %d", r.Method, r.Path, secret, status)
			}
		}
		for role, secret := range secrets {
			status, body := w.request(secret, r.Method, path, "{}")
			if admitted := status != 401 && status != 403; admitted != (p.Admits(role) || p.Local) {
				t.Errorf("%s %s as %s: %d %s", r.Method, r.Path, role, status, body)
			}
		}
	}
	if (operations.Permission{}).Admits(operator.Admin) {
		t.Error("a route without a permission admits somebody")
	}
}

func TestDescriptionNamesEveryRoute(t *testing.T) {
	w := newWorld(t)
	status, raw := w.request("", "GET", operator.RouteOpenAPI, "")
	var doc struct {
		OpenAPI string                    `json:"openapi"`
		Paths   map[string]map[string]any `json:"paths"`
	}
	if status != 200 || json.Unmarshal([]byte(raw), &doc) != nil || !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Fatalf("%d %.200s", status, raw)
	}
	for _, r := range operations.New(w.server.Control(), nil, nil).Routes() {
		if doc.Paths[r.Path][strings.ToLower(r.Method)] == nil {
			t.Errorf("%s %s is not described", r.Method, r.Path)
		}
	}
}

func TestOperatorRequestsAreStrict(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	secret := testkit.Value(os.ReadFile(w.server.AdminTokenFile()))(t)
	s := strings.TrimSpace(string(secret))
	if info, err := os.Stat(w.server.AdminTokenFile()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the admin token's file: %v, %v", info.Mode(), err)
	}
	for _, c := range []struct {
		what, method, path, body string
		status                   int
		headers                  []string
	}{
		{"unknown field", "POST", "/v1/operator/rollouts/stable@r1/pause", `{"reason":"x","force":true}`, 422, nil},
		{"no reason", "POST", "/v1/operator/rollouts/stable@r1/pause", `{}`, 422, nil},
		{"unknown verb", "POST", "/v1/operator/rollouts/stable@r1/explode", `{"reason":"x"}`, 422, nil},
		{"unknown rollout", "POST", "/v1/operator/rollouts/none@r1/pause", `{"reason":"x"}`, 404, nil},
		{"unknown parameter", "GET", "/v1/operator/status?x=1", "", 422, nil},
		{"limit", "GET", "/v1/operator/events?limit=1001", "", 422, nil},
		{"unknown host", "GET", "/v1/operator/hosts/nobody", "", 404, nil},
		{"no release", "POST", "/v1/operator/releases", "no tar", 422, nil},
		{"another site", "POST", "/v1/operator/reconcile", `{}`, 403, []string{"Origin", "https://evil.example"}},
		{"another site reads", "GET", "/v1/operator/status", "", 403, []string{"Origin", "null"}},
		{"this site", "GET", "/v1/operator/status", "", 200, []string{"Origin", w.server.OperatorURL()}},
		{"scheme in lower case", "GET", "/v1/operator/status", "", 200, []string{"Authorization", "bearer " + s}},
		{"another scheme", "GET", "/v1/operator/status", "", 401, []string{"Authorization", "Basic " + s}},
		{"about nothing", "GET", "/v1/operator/events?about=", "", 422, nil},
		{"about nothing and a host", "GET", "/v1/operator/events?about=&about=host/h-0000", "", 422, nil},
		{"about a host", "GET", "/v1/operator/events?about=host/h-0000", "", 200, nil},
		{"about too much", "GET", "/v1/operator/events?about=host/h&about=host/h&about=host/h&about=host/h&about=host/h", "", 422, nil},
		{"a long name", "GET", "/v1/operator/events?about=host/" + strings.Repeat("h", 256), "", 422, nil},
		{"a semicolon", "GET", "/v1/operator/events?about=host/h-0000;x", "", 422, nil},
		{"a semicolon of the stream", "GET", "/v1/operator/events/stream?about=host/h-0000;x", "", 422, nil},
		{"stream about nothing", "GET", "/v1/operator/events/stream?about=", "", 422, nil},
		{"stream parameter", "GET", "/v1/operator/events/stream?x=1", "", 422, nil},
	} {
		status, body := w.request(s, c.method, c.path, c.body, c.headers...)
		if status != c.status {
			t.Errorf("%s: %d %s, expected %d", c.what, status, body, c.status)
		}
	}
	if _, raw := w.request(s, "GET", operator.RouteMetrics, ""); !strings.Contains(raw, "steady_log_entries_total") {
		t.Errorf("metrics: %.300s", raw)
	}
}

// TestEventsAboutShortDigests: what screens print of a digest finds what the whole one
// does, and what nobody knows is refused.
func TestEventsAboutShortDigests(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	a := enrolled(w, hostName(0))
	a.offered()
	bundle := testkit.Value(w.op.Host(w.ctx(), a.name))(t).Target
	about := func(kind, name string) ([]operator.Event, error) {
		page, err := w.op.Events(w.ctx(), operator.EventQuery{About: []event.Subject{{Kind: kind, Name: name}}})
		return page.Events, err
	}
	whole := testkit.Value(about(event.KindBundle, string(bundle)))(t)
	if len(whole) == 0 {
		t.Fatal("no event is about the bundle that was granted")
	}
	for _, name := range []string{bundle.Short(), bundle.Hex()} {
		if got, err := about(event.KindBundle, name); err != nil || len(got) != len(whole) {
			t.Errorf("%s: %d events, expected %d, %v", name, len(got), len(whole), err)
		}
	}
	rollout := testkit.Value(w.op.Rollout(w.ctx(), "stable@r1"))(t)
	if m, waves := rollout.Members[0], rollout.Waves; m.Presence != gate.Online || waves[0].State != "open" {
		t.Errorf("the host is %q, the wave %q", m.Presence, waves[0].State)
	}
	manifest := rollout.Manifest
	if got, err := about(event.KindManifest, manifest.Short()); err != nil || len(got) == 0 {
		t.Errorf("the manifest: %d events, %v", len(got), err)
	}
	for _, s := range []event.Subject{{Kind: event.KindBundle, Name: manifest.Short()}, {Kind: event.KindManifest, Name: "zzz"}, {Kind: event.KindRelease, Name: "2"},
		{Kind: event.KindBundle, Name: string(manifest)}, {Kind: event.KindChannel, Name: "none"}, {Kind: event.KindSource, Name: "none"}} {
		if got, err := about(s.Kind, s.Name); err == nil {
			t.Errorf("%s: %d events and no refusal", s, len(got))
		} else if refused, ok := errors.AsType[*operator.Error](err); !ok || refused.Status != 404 {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestRevokedTokenIsRefused(t *testing.T) {
	w := newWorld(t)
	made := testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: "eve", Role: operator.Viewer}))(t)
	eve := w.client(made.Secret)
	testkit.Value(eve.Status(w.ctx()))(t)
	tokens := testkit.Value(w.op.Tokens(w.ctx()))(t)
	if len(tokens) != 2 {
		t.Fatalf("%d tokens", len(tokens))
	}
	testkit.Must(t, w.op.RevokeToken(w.ctx(), made.ID, false))
	var refused *operator.Error
	if _, err := eve.Status(w.ctx()); !errors.As(err, &refused) || refused.Status != 401 {
		t.Fatalf("a revoked token was answered %v", err)
	}
	page := testkit.Value(w.op.Events(w.ctx(), operatorAll))(t)
	for _, e := range page.Events {
		if strings.Contains(string(e.Body), made.Secret) {
			t.Error("the log holds a token's secret")
		}
	}
}

// The stream goes on exactly where a client left off, and filters.
func TestEventStreamGoesOn(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one"})
	stop := runAgents(t, w.agents(2)...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	var all []operator.Event
	last := w.server.Control().Head().Seq
	collect := func(q operator.EventQuery, until uint64) (got []operator.Event) {
		t.Helper()
		err := w.op.Follow(w.ctx(), q, func(e operator.Event) error {
			got = append(got, e)
			if e.Seq >= until {
				return errDone
			}
			return nil
		})
		if err != errDone {
			t.Fatal(err)
		}
		return got
	}
	all = append(collect(operator.EventQuery{}, 4), collect(operator.EventQuery{After: 4}, last)...)
	for i, e := range all {
		if e.Seq != uint64(i+1) {
			t.Fatalf("event %d has sequence %d", i+1, e.Seq)
		}
	}
	page := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{About: operator.AboutRollout("stable@r1"), Limit: 1000}))(t)
	kinds := map[string]int{}
	for _, e := range page.Events {
		kinds[e.Type]++
	}
	for _, kind := range []string{"rollout.opened", "rollout.moved", "grant.offered", "grant.claimed", "host.stepped"} {
		if kinds[kind] == 0 {
			t.Errorf("the rollout's events lack %s: %v", kind, kinds)
		}
	}
	if kinds["host.enrolled"] != 0 || page.Next != last {
		t.Errorf("the rollout's events: %v, next %d of %d", kinds, page.Next, last)
	}
	tail := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{Tail: true, Limit: 3}))(t)
	if len(tail.Events) != 3 || tail.Events[2].Seq != last || tail.Next != last {
		t.Errorf("the tail is %d events up to %d", len(tail.Events), tail.Next)
	}
	one := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{About: operator.AboutHost(hostName(1)), Tail: true, Limit: 2}))(t)
	ofHost := func(e operator.Event) bool { // or it waits among others
		return e.Subject.Host() == hostName(1) || e.Type == "wave.blocked" && strings.Contains(string(e.Body), `"`+hostName(1)+`"`)
	}
	if len(one.Events) != 2 || !ofHost(one.Events[0]) || one.Events[0].Seq > one.Events[1].Seq {
		t.Errorf("the host's tail is %+v", one.Events)
	}
	both := append(operator.AboutRollout("stable@r1"), event.HostSubject(hostName(1)))
	ofBoth := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{About: both, Limit: 1000}))(t)
	for _, e := range ofBoth.Events {
		if !ofHost(e) {
			t.Errorf("of the rollout and one host: %+v", e)
		}
	}
	lastOfBoth := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{About: both, Tail: true, Limit: 2}))(t)
	if n := len(ofBoth.Events); n < 3 || !slices.EqualFunc(ofBoth.Events[n-2:], lastOfBoth.Events, func(a, b operator.Event) bool { return a.Seq == b.Seq }) {
		t.Errorf("of both %d events, the last are %+v", n, lastOfBoth.Events)
	}
	streamed := collect(operator.EventQuery{About: both}, ofBoth.Events[len(ofBoth.Events)-1].Seq)
	if !slices.EqualFunc(streamed, ofBoth.Events, func(a, b operator.Event) bool { return a.Seq == b.Seq }) {
		t.Errorf("the stream has %d events, the pages %d", len(streamed), len(ofBoth.Events))
	}
	_, err := w.op.Events(w.ctx(), operator.EventQuery{About: []event.Subject{{Kind: "Planet", Name: "x"}}})
	if err == nil || !strings.Contains(err.Error(), "expected KIND/NAME, the kind one of host, rollout") {
		t.Errorf("of a planet: %v", err)
	}
	paged := 0
	for after := uint64(0); ; {
		p := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{After: after, Limit: 3}))(t)
		if len(p.Events) == 0 {
			break
		}
		paged, after = paged+len(p.Events), p.Next
	}
	if uint64(paged) != last {
		t.Errorf("pages hold %d of %d events", paged, last)
	}
	if r, err := w.op.Rollouts(w.ctx()); err != nil || len(r) != 1 || r[0].Status != "done" {
		t.Errorf("rollouts %+v, %v", r, err)
	}
}

// Operators may have a listener of their own; then agents' has none of it.
func TestOperatorListener(t *testing.T) {
	w := newWorld(t, func(o *api.Options) { o.OperatorListen = "127.0.0.1:0" })
	agentURL := testkit.Value(url.Parse(w.server.URL()))(t)
	if agentURL.Host == strings.TrimPrefix(w.server.OperatorURL(), "https://") {
		t.Fatal("one listener")
	}
	testkit.Value(w.op.Status(w.ctx()))(t)
	a := enrolled(w, "h-0000")
	for _, path := range []string{"/v1/operator/status", loginsPath, "/", "/login"} {
		if status, _, err := a.call(w.ctx(), "GET", path, nil); err != nil || status != 404 {
			t.Errorf("%s: the agents' listener answered %d, %v", path, status, err)
		}
	}
	if status, body := w.request("", "GET", "/", ""); status != 200 || !strings.Contains(body, "<!doctype html>") {
		t.Errorf("the operators' listener has no page: %d", status)
	}
	e := testkit.Value(w.op.Enrolment(w.ctx()))(t)
	if e.Fleet != testFleet || string(e.Root) != string(w.root) || len(e.ServerCA) == 0 {
		t.Errorf("enrolment %+v", e)
	}
	if err := w.op.Operate(w.ctx(), coreplan.Pause, "none", "x"); err == nil {
		t.Error("no rollout was paused")
	}
}

// A token is refused from its end on, in words, and says when it was used; the use of
// one that is asked with all the time is one record a day.
func TestTokensEnd(t *testing.T) {
	var ahead atomic.Int64
	w := newWorld(t, func(o *api.Options) {
		o.Control.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	made := testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: "eve", Role: operator.Viewer, Life: clock.Hour}))(t)
	eve := w.client(made.Secret)
	for range 20 {
		testkit.Value(eve.Status(w.ctx()))(t)
	}
	find := func() operator.Token {
		tokens := testkit.Value(w.op.Tokens(w.ctx()))(t)
		return tokens[slices.IndexFunc(tokens, func(x operator.Token) bool { return x.ID == made.ID })]
	}
	if got := find(); got.Expires.Sub(got.CreatedAt) != clock.Hour || got.LastUsed < got.CreatedAt {
		t.Errorf("%+v", got)
	}
	uses := func() (n int) {
		page := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{Limit: 1000}))(t)
		for _, e := range page.Events {
			if e.Type == "operator.token_used" && strings.Contains(string(e.Body), made.ID) {
				n++
			}
		}
		return n
	}
	w.until("the use is recorded", func() bool { return uses() == 1 })
	ahead.Store(int64(2 * time.Hour))
	var refused *operator.Error
	if _, err := eve.Status(w.ctx()); !errors.As(err, &refused) || refused.Status != 401 || !strings.Contains(err.Error(), "ended at") {
		t.Errorf("after its end: %v", err)
	}
	if n := uses(); n != 1 {
		t.Errorf("%d records of 20 uses", n)
	}
}
