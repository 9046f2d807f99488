package fetch

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/testkit"
)

func packed(t testing.TB, files map[string]string) []byte {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, files)
	r := release.Pack(os.DirFS(dir))
	defer r.Close()
	raw := testkit.Value(io.ReadAll(r))(t)
	return raw
}

func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// site serves a body under an ETag, and counts what it sent whole.
type site struct {
	body []byte
	etag string
	sent int
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.etag != "" {
		w.Header().Set("ETag", s.etag)
		if r.Header.Get("If-None-Match") == s.etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	s.sent++
	_, _ = w.Write(s.body)
}

func TestWebsiteIsReadOncePerETag(t *testing.T) {
	at := &site{body: packed(t, content("one")), etag: `"one"`}
	s := open(t, serve(t, at.ServeHTTP).URL+"/release.tar", Options{})
	last := took(t, s, "", content("one"))
	last = took(t, s, last, nil)
	if at.sent != 1 {
		t.Errorf("it was sent %d times", at.sent)
	}
	at.body, at.etag = packed(t, content("two")), `"two"`
	last = took(t, s, last, content("two"))
	// Without an ETag the whole is read, and compared.
	at.etag = ""
	dir := t.TempDir()
	if _, changed, err := s.Fetch(t.Context(), dir, last); err != nil || !changed {
		t.Fatalf("%t, %v", changed, err)
	}
	last = took(t, s, "", content("two"))
	now, changed, err := s.Fetch(t.Context(), t.TempDir(), last)
	if err != nil || changed || now != last {
		t.Errorf("the same bytes are news: %t, %v", changed, err)
	}
}

func TestWebsiteByTime(t *testing.T) {
	body, at := packed(t, content("one")), time.Unix(1_700_000_000, 0)
	s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "release.tar", at, bytes.NewReader(body))
	}).URL, Options{})
	last := took(t, s, "", content("one"))
	took(t, s, last, nil)
}

func TestWebsiteIsBounded(t *testing.T) {
	caps := release.Caps{Files: 10, Bytes: 1 << 20}
	tarOf := func(headers ...tar.Header) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range headers {
			testkit.Must(t, w.WriteHeader(&h))
			testkit.Value(w.Write(make([]byte, h.Size)))(t)
		}
		testkit.Must(t, w.Close())
		return b.Bytes()
	}
	file := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
	}
	whole := packed(t, content("one"))
	for what, c := range map[string]struct {
		cause string
		h     http.HandlerFunc
	}{
		"a page":    {Content, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>", strings.Repeat("sorry ", 500)) }},
		"nothing":   {Content, func(http.ResponseWriter, *http.Request) {}},
		"a way out": {Content, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(tarOf(file("../timestamp.json", 1))) }},
		"a link": {Content, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(tarOf(tar.Header{Typeflag: tar.TypeSymlink, Name: "timestamp.json", Linkname: "/etc/passwd"}))
		}},
		"a name twice": {Content, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(tarOf(file("timestamp.json", 1), file("timestamp.json", 1)))
		}},
		"too many bytes": {Content, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(tarOf(file("blobs/"+strings.Repeat("a", 64), 2<<20)))
		}},
		"a long length": {Content, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99999999999")
			w.WriteHeader(200)
		}},
		"compressed": {Content, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(whole)
		}},
		"endless after end": {Content, func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(whole)
			for zeros := make([]byte, 64<<10); err == nil; {
				_, err = w.Write(zeros)
			}
		}},
		"cut short": {Unreachable, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
			_, _ = w.Write(whole[:len(whole)/2])
		}},
		"not there":             {Refused, http.NotFound},
		"no permission":         {Refused, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }},
		"not modified, unasked": {Refused, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }},
		"another origin": {Redirected, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/", http.StatusFound)
		}},
		"in circles": {Redirected, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }},
	} {
		t.Run(what, func(t *testing.T) {
			err := fails(t, open(t, serve(t, c.h).URL+"/release.tar?token=hush", Options{Caps: caps}), c.cause)
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("the error tells the query: %v", err)
			}
		})
	}
	closed := serve(t, nil)
	closed.Close()
	fails(t, open(t, closed.URL, Options{}), Unreachable)
}

func TestWebsiteThatDrips(t *testing.T) {
	whole := packed(t, content("one"))
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range whole {
			if _, err := w.Write(whole[i : i+1]); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	fails(t, open(t, s.URL, Options{Stall: 100 * time.Millisecond}), Slow)
	fails(t, open(t, s.URL, Options{Timeout: 100 * time.Millisecond}), Slow)
}

// A redirect inside the origin is followed, and credentials go to it alone.
func TestWebsiteWithCredentials(t *testing.T) {
	whole := packed(t, content("one"))
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer hush" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/latest" {
			http.Redirect(w, r, "/v7/release.tar", http.StatusFound)
			return
		}
		_, _ = w.Write(whole)
	}))
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	took(t, open(t, s.URL+"/latest", Options{CA: ca, Credentials: Credentials{secret: "hush"}}), "", content("one"))
	fails(t, open(t, s.URL+"/latest", Options{CA: ca, Credentials: Credentials{user: "ci", secret: "hush"}}), Refused)
	fails(t, open(t, s.URL+"/latest", Options{Credentials: Credentials{secret: "hush"}}), Unreachable)
}

func redirectTo(base string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, base+r.URL.RequestURI(), http.StatusFound)
	}
}

func waitFor(gate <-chan struct{}) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
}
