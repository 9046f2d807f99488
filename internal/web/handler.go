package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// Protected adds to every answer of h what a browser has to know before it shows it: that nothing
// of another origin runs in it, and that no other page shows it in a frame.
func Protected(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		// No form is sent but by the script: without it, one would put a token into the address.
		header.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'")
		header.Set("X-Frame-Options", "DENY") // what the line above says, to old browsers
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.ServeHTTP(w, r)
	})
}

// file is one of the built UI, as it is and compressed.
type file struct {
	name    string
	raw, gz []byte
	etag    string
	lasting bool // a change of its content changes its name
}

// Handler serves the built UI: its files by their names, and its one page for every other path but
// those of APIs. It holds nothing of the fleet and asks nobody who they are.
func Handler() http.Handler { return serve(Files()) }

func serve(files fs.FS) http.Handler {
	known := map[string]*file{}
	err := fs.WalkDir(files, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || name == SourcesFile {
			return err
		}
		raw, err := fs.ReadFile(files, name)
		known["/"+name] = newFile(name, raw)
		return err
	})
	page := known["/index.html"]
	if err != nil || page == nil {
		panic("the embedded UI has no page") // it is part of the program
	}
	delete(known, "/index.html") // by one name
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := known[r.URL.Path]
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/"):
			http.NotFound(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the UI is only read", http.StatusMethodNotAllowed)
		case f != nil:
			f.send(w, r)
		case strings.HasPrefix(r.URL.Path, "/assets/"):
			http.NotFound(w, r)
		default:
			page.send(w, r)
		}
	})
}

// types are those of what a UI is built of.
var types = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
	".svg": "image/svg+xml", ".txt": "text/plain; charset=utf-8", ".woff2": "font/woff2"}

func newFile(name string, raw []byte) *file {
	sum := sha256.Sum256(raw)
	f := &file{name: name, raw: raw, etag: hex.EncodeToString(sum[:16]), lasting: strings.HasPrefix(name, "assets/")}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level exists
	_, _ = z.Write(raw)                                   // to memory
	_ = z.Close()
	if b.Len() < len(raw) {
		f.gz = b.Bytes()
	}
	return f
}

func (f *file) send(w http.ResponseWriter, r *http.Request) {
	h, body, etag := w.Header(), f.raw, f.etag
	if f.gz != nil {
		h.Set("Vary", "Accept-Encoding")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			body, etag = f.gz, etag+"-gzip"
			h.Set("Content-Encoding", "gzip")
		}
	}
	kind := types[path.Ext(f.name)]
	if kind == "" {
		kind = "application/octet-stream"
	}
	h.Set("Content-Type", kind)
	h.Set("ETag", `"`+etag+`"`)
	h.Set("Cache-Control", "no-cache")
	if f.lasting {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}
