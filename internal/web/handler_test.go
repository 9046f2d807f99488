package web

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/steadyfleet/steady/internal/testkit"
)

const pageText = "<!doctype html><title>x</title>"

var script = strings.Repeat("export const a = 1;\n", 100)

func ask(t *testing.T, method, target string, headers ...string) *http.Response {
	t.Helper()
	files := fstest.MapFS{"index.html": {Data: []byte(pageText)}, "assets/main-ABC.js": {Data: []byte(script)}, "icon.svg": {Data: []byte("<svg/>")},
		"LICENSES.txt": {Data: []byte("MIT")}, SourcesFile: {Data: []byte("sum")}}
	r := httptest.NewRequest(method, "https://steady.example"+target, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	Protected(serve(files)).ServeHTTP(w, r)
	return w.Result()
}

// The one page is what every path shows that is no file and no API's.
func TestPageOfEveryPath(t *testing.T) {
	for target, want := range map[string]string{
		"/": pageText, "/login": pageText, "/hosts/edge-1": pageText, "/rollouts/stable@r2?x=y": pageText, "/index.html": pageText, "/SOURCES": pageText,
		"/v1": pageText, "//evil.example/": pageText, "/assets": pageText, "/../../etc/passwd": pageText, "/icon.svg": "<svg/>", "/LICENSES.txt": "MIT", "/assets/main-ABC.js": script,
	} {
		res := ask(t, "GET", target)
		if raw := string(testkit.Value(io.ReadAll(res.Body))(t)); res.StatusCode != 200 || raw != want {
			t.Errorf("%s: %d %.60q", target, res.StatusCode, raw)
		}
	}
	for target, status := range map[string]int{"/assets/main-OLD.js": 404, "/assets/": 404, "/assets/../index.html": 404, "/v1/nothing": 404, "/v1/operator/x": 404} {
		if res := ask(t, "GET", target); res.StatusCode != status {
			t.Errorf("%s: %d", target, res.StatusCode)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "TRACE"} {
		if res := ask(t, method, "/"); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d", method, res.StatusCode)
		}
	}
	if res := ask(t, "HEAD", "/"); res.StatusCode != 200 || len(testkit.Value(io.ReadAll(res.Body))(t)) > 0 {
		t.Error("HEAD has a body")
	}
}

// A browser keeps for good what has its content in its name, and asks each time whether it has the newest
// of the rest.
func TestCaching(t *testing.T) {
	asset, page := ask(t, "GET", "/assets/main-ABC.js"), ask(t, "GET", "/login")
	if asset.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || page.Header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%v, %v", asset.Header, page.Header)
	}
	if res := ask(t, "GET", "/", "If-None-Match", page.Header.Get("ETag")); res.StatusCode != http.StatusNotModified || page.Header.Get("ETag") == "" {
		t.Errorf("asked again: %d", res.StatusCode)
	}
	small := ask(t, "GET", "/assets/main-ABC.js", "Accept-Encoding", "gzip, br")
	if small.Header.Get("Content-Encoding") != "gzip" || small.Header.Get("Vary") != "Accept-Encoding" || small.Header.Get("ETag") == asset.Header.Get("ETag") {
		t.Fatalf("compressed: %v", small.Header)
	}
	if raw := testkit.Value(io.ReadAll(testkit.Value(gzip.NewReader(small.Body))(t)))(t); string(raw) != script {
		t.Errorf("unpacked: %.40q", raw)
	}
}

// What protects stands on every answer, refusals as well.
func TestHeaders(t *testing.T) {
	for _, target := range []string{"/", "/assets/main-ABC.js", "/assets/none.js", "/v1/x"} {
		h := ask(t, "GET", target).Header
		csp := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(csp, part) {
				t.Errorf("%s: no %s in %q", target, part, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: %v", target, h)
		}
	}
}

// static are the scripts that a script imports before it runs; what it fetches later is import("…").
var static = regexp.MustCompile(`(?:from|import)"\./([\w-]+\.js)"`)

// What every visit loads is small: the first script and all that it imports, as they are sent. Plots, the terminal,
// forecasts and the pages of nodes and of sessions are fetched when they are opened; with the plots, all is still as
// small.
func TestScriptsAreSmall(t *testing.T) {
	const most = 64 << 10
	sent := map[string]int{}
	load := func(pattern string) (sum int) {
		names := testkit.Value(fs.Glob(Files(), "assets/"+pattern))(t)
		for len(names) > 0 {
			name := names[0]
			names = names[1:]
			if sent[name] > 0 {
				continue
			}
			script := testkit.Value(fs.ReadFile(Files(), name))(t)
			sent[name] = len(newFile(name, script).gz)
			sum += sent[name]
			for _, m := range static.FindAllSubmatch(script, -1) {
				names = append(names, "assets/"+string(m[1]))
			}
		}
		return sum
	}
	visit := load("main-*.js")
	if len(sent) < 2 || visit > most {
		t.Errorf("the %d scripts of every visit are %d bytes compressed, expected at most %d", len(sent), visit, most)
	}
	for name := range sent { // order-free: each by itself
		if later := regexp.MustCompile(`/(xterm|plot|devices|timeboxed|forecasts)-`); later.MatchString(name) {
			t.Errorf("%s is loaded by every visit", name)
		}
	}
	plots := load("plot-*.js")
	t.Logf("%v: %d bytes with every visit, %d with plots", sent, visit, visit+plots)
	if plots == 0 || visit+plots > most {
		t.Errorf("the %d scripts of all pages but the terminal, forecasts and those of nodes and sessions are %d bytes compressed, expected at most %d", len(sent), visit+plots, most)
	}
}

// Every file of the UI that is embedded has a type that browsers take without sniffing, and the page has no
// script or style within it, which the policy would keep from running.
func TestEmbeddedUIFitsItsPolicy(t *testing.T) {
	err := fs.WalkDir(Files(), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && name != SourcesFile && types["."+name[strings.LastIndex(name, ".")+1:]] == "" {
			t.Errorf("%s has no type", name)
		}
		return err
	})
	testkit.Must(t, err)
	page := strings.ToLower(string(testkit.Value(fs.ReadFile(Files(), "index.html"))(t)))
	for _, within := range []string{"<style", " style=", " onload=", " onclick=", "javascript:", "http://", "https://"} {
		if strings.Contains(page, within) {
			t.Errorf("the page has %s", within)
		}
	}
	for part := range strings.SplitSeq(page, "<script") {
		if tag, body, ok := strings.Cut(part, ">"); ok && strings.Contains(tag, "src=") && !strings.HasPrefix(strings.TrimSpace(body), "</script") {
			t.Errorf("a script has text within: %.60q", body)
		}
	}
	if n := strings.Count(page, "<script"); n == 0 || n != strings.Count(page, "<script ") {
		t.Errorf("of %d scripts some name no file", n)
	}
}
