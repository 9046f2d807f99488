package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
)

// TestApproval acknowledges an event in a process that ends before a turn, and has the next
// one act on it.
func TestApproval(t *testing.T) {
	dir, news := t.TempDir(), reconcile.Ref{Kind: "page", ID: "news"}
	process := func(run bool, f func(c *reconcile.Controller, url string)) {
		t.Helper()
		c, db, err := open(t.Context(), dir)
		testkit.Must(t, err)
		server := httptest.NewServer(receive(c))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		if run {
			go func() { done <- c.Run(ctx) }()
		} else {
			done <- nil
		}
		f(c, server.URL)
		server.Close()
		cancel()
		testkit.Must(t, <-done)
		testkit.Must(t, db.Close())
	}
	post := func(url, body string, want int) {
		t.Helper()
		resp := testkit.Value(http.Post(url, "application/json", strings.NewReader(body)))(t)
		defer resp.Body.Close()
		if said := testkit.Value(io.ReadAll(resp.Body))(t); resp.StatusCode != want {
			t.Fatalf("%d %s, want %d", resp.StatusCode, said, want)
		}
	}
	const approved = `{"source":"desk","id":"1","type":"approved"}`
	file := filepath.Join(dir, "news.html")

	process(false, func(c *reconcile.Controller, url string) {
		testkit.Value(c.Apply(t.Context(), reconcile.Upsert(news, page{"one"}), reconcile.By("test")))(t)
		for range 3 { // its sender did not see the answer
			post(url+"/pages/news", approved, 202)
		}
		post(url+"/pages/gone", approved, 404)
		post(url+"/pages/news", `{"source":"desk"}`, 400)
		post(url+"/pages/news", `{`, 400)
		post(url+"/pages/news", `{"source":"desk","id":"2","type":"x","data":"`+strings.Repeat("a", reconcile.MaxEventData)+`"}`, 413)
	})
	if _, err := os.Stat(file); err == nil {
		t.Fatal("published without a turn")
	}
	process(true, func(c *reconcile.Controller, url string) {
		testkit.Must(t, c.WaitConverged(t.Context(), news))
		if text := testkit.Value(os.ReadFile(file))(t); string(text) != "one" {
			t.Fatalf("%q", text)
		}
		// What was approved is not approved for ever, nor by the same event.
		testkit.Value(c.Apply(t.Context(), reconcile.Upsert(news, page{"two"}), reconcile.By("test")))(t)
		post(url+"/pages/news", approved, 202)
		post(url+"/pages/news", `{"source":"desk","id":"3","type":"rejected"}`, 202)
		err := c.WaitConverged(t.Context(), news)
		if err == nil || !strings.Contains(err.Error(), "rejected by desk") {
			t.Fatal(err)
		}
		for i := range reconcile.MaxUnhandled - 1 {
			post(url+"/pages/news", fmt.Sprintf(`{"source":"desk","id":"n%d","type":"x"}`, i), 202)
		}
		post(url+"/pages/news", `{"source":"desk","id":"one too many","type":"x"}`, 503)
		if text := testkit.Value(os.ReadFile(file))(t); string(text) != "one" {
			t.Fatalf("%q", text)
		}
	})
}
