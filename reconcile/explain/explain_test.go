package explain_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/explain"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// door is a kind that is shut if it may be, and else says why not.
type door struct{ Why string }

type shut struct{}

func (shut) ActionName() string { return "shut" }

type doors struct{}

func (doors) Observe(_ context.Context, r reconcile.Resource[door]) (bool, error) {
	return r.Desired.Why == "", nil
}

func (doors) Decide(v reconcile.View[door, bool]) reconcile.Decision {
	if v.Observed {
		return reconcile.IsConverged(reconcile.Because("shut", ""))
	}
	return reconcile.Do(shut{}, reconcile.Because("open", "it is open"))
}

func (doors) Act(_ context.Context, r reconcile.Resource[door], _ reconcile.Action) error {
	return errors.New(r.Desired.Why)
}

const hostile = "<script>alert(1)</script>\"'&?of=\x1b[31m\u202e"

// serve runs a controller of doors and its pages.
func serve(t *testing.T, want map[string]string) (get func(query, accept string) (*http.Response, string)) {
	c := reconcile.New(memory.New())
	testkit.Must(t, reconcile.Register(c, "door", doors{}, reconcile.Policy{Retry: reconcile.RetryPolicy{Max: 2, Base: time.Millisecond, Cap: time.Millisecond}}))
	for id, why := range want { // order-free
		testkit.Value(c.Apply(t.Context(), reconcile.Upsert(reconcile.Ref{Kind: "door", ID: id}, door{why}), reconcile.By(hostile)))(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	for id := range want { // order-free
		_ = c.WaitConverged(t.Context(), reconcile.Ref{Kind: "door", ID: id}) // or failed
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/", http.StripPrefix("/debug", explain.Handler(c)))
	s := httptest.NewServer(mux)
	t.Cleanup(func() { s.Close(); cancel(); testkit.Must(t, <-done) })
	return func(query, accept string) (*http.Response, string) {
		t.Helper()
		r := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/debug/"+query, nil))(t)
		r.Header.Set("Accept", accept)
		resp := testkit.Value(http.DefaultClient.Do(r))(t)
		defer resp.Body.Close()
		return resp, string(testkit.Value(io.ReadAll(resp.Body))(t))
	}
}

func TestAStuckResourceSaysWhy(t *testing.T) {
	get := serve(t, map[string]string{"front": "the hinge is broken", "back": ""})
	for _, tc := range []struct{ query, accept, kind string }{
		{"?of=door&id=front", "text/html", "text/html"},
		{"?of=door&id=front", "*/*", "text/plain"},
		{"?of=door&id=front&format=json", "text/html", "application/json"},
		{"?of=door&id=front", "application/json", "application/json"},
		{"", "text/html", "text/html"},
		{"", "*/*", "text/plain"},
		{"", "application/json", "application/json"},
	} {
		resp, body := get(tc.query, tc.accept)
		if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), tc.kind) ||
			!strings.Contains(body, "gave up after 2 attempts: the hinge is broken") || !strings.Contains(body, "failed") {
			t.Errorf("%s as %s: %d %s\n%s", tc.query, tc.accept, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
	}
	_, one := get("?of=door&id=front", "text/html")
	for _, want := range []string{"the hinge is broken", `{&#34;Why&#34;:`, "do shut", "given up", "operator:", "<h2>History</h2>"} {
		if !strings.Contains(one, want) {
			t.Errorf("no %q in\n%s", want, one)
		}
	}
	_, list := get("", "text/html")
	if strings.Index(list, "Need a person (1)") > strings.Index(list, "door/back") || strings.Count(list, "door/front") != 2 {
		t.Errorf("attention does not come first in\n%s", list)
	}
	_, text := get("", "*/*")
	if !strings.HasPrefix(text, "ATTENTION door/front") {
		t.Errorf("%s", text)
	}
}

func TestTheListIsFiltered(t *testing.T) {
	get := serve(t, map[string]string{"front": "broken", "back": ""})
	for query, want := range map[string]int{"?kind=door": 2, "?kind=gate": 0, "?phase=failed": 1, "?kind=door&phase=converged": 1} {
		_, body := get(query, "application/json")
		var l explain.List
		testkit.Must(t, json.Unmarshal([]byte(body), &l))
		if len(l.Rows) != want || len(l.Attention) != 1 || len(l.Counts) != 2 {
			t.Errorf("%s: %s", query, body)
		}
	}
	if resp, _ := get("?of=door&id=none", "text/html"); resp.StatusCode != 404 {
		t.Error(resp.Status)
	}
}

func TestNamesAndReasonsSteerNothing(t *testing.T) {
	get := serve(t, map[string]string{hostile: hostile})
	of := "?" + url.Values{"of": {"door"}, "id": {hostile}}.Encode()
	links := regexp.MustCompile(`href="([^"]*)"`)
	found := false
	for _, query := range []string{"", of, "?" + url.Values{"kind": {hostile}}.Encode()} {
		resp, body := get(query, "text/html")
		if resp.StatusCode != 200 || strings.Contains(body, "<script") || !strings.Contains(body, "&lt;script&gt;") {
			t.Errorf("%s: %d\n%s", query, resp.StatusCode, body)
		}
		for _, m := range links.FindAllStringSubmatch(body, -1) {
			u := testkit.Value(url.Parse(strings.ReplaceAll(m[1], "&amp;", "&")))(t)
			found = found || u.Query().Get("id") == hostile
			if u.Path != "" || u.Host != "" {
				t.Errorf("a link leads to %s", m[1])
			}
		}
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "script-src") {
			t.Error(csp)
		}
	}
	if !found {
		t.Error("no link leads to the resource")
	}
	for _, query := range []string{"", of} {
		if _, body := get(query, "*/*"); strings.ContainsAny(body, "\x1b\u202e") {
			t.Errorf("%q steers a terminal", body)
		}
	}
	if resp, body := get(of, "application/json"); resp.StatusCode != 200 || !json.Valid([]byte(body)) {
		t.Error(resp.Status, body)
	}
}

func TestThePageOnlyReads(t *testing.T) {
	c := reconcile.New(memory.New())
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, "PROPFIND"} {
		w := httptest.NewRecorder()
		explain.Handler(c).ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}
