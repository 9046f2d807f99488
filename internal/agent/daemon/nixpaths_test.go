package daemon

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// narServer serves archives as the real server does, and remembers what was asked for.
type narServer struct {
	mu   sync.Mutex
	nars map[digest.Digest][]byte
	// tears cuts the next answer off after so many bytes; zero is never.
	tears int
	sent  map[digest.Digest][]int // offsets at which each was asked for
	bytes int
}

func (n *narServer) serve(w http.ResponseWriter, r *http.Request) {
	d := digest.Digest(strings.TrimPrefix(r.URL.Path, wire.RouteNars))
	body, ok := n.nars[d]
	if !ok {
		http.NotFound(w, r)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	offset := 0
	_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &offset)
	n.sent[d] = append(n.sent[d], offset)
	if n.tears > 0 && n.tears < len(body)-offset {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)-offset))
		if offset > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", offset, len(body)-1, len(body)))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(body[offset : offset+n.tears])
		_ = http.NewResponseController(w).Flush()
		n.bytes += n.tears
		n.tears = 0
		panic(http.ErrAbortHandler)
	}
	n.bytes += len(body) - offset
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// took is how many bytes were sent since it was asked the last time.
func (n *narServer) took() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	bytes := n.bytes
	n.bytes = 0
	return bytes
}

// askedFor are the offsets at which an archive was asked for.
func (n *narServer) askedFor(d digest.Digest) []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.sent[d])
}

// damage changes a byte of an archive.
func (n *narServer) damage(d digest.Digest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := slices.Clone(n.nars[d])
	b[len(b)/2]++
	n.nars[d] = b
}

// large is a store path of so many bytes that do not compress.
func (s *nixStore) large(name string, size int) string {
	src := filepath.Join(s.t.TempDir(), name)
	var seed [32]byte
	copy(seed[:], name)
	content := make([]byte, size)
	_, err := rand.NewChaCha8(seed).Read(content)
	testkit.Must(s.t, err)
	testkit.Must(s.t, os.WriteFile(src, content, 0o644))
	return s.run("nix-store", "--add", src)
}

// systemOn is a toy system that needs other paths.
func (s *nixStore) systemOn(version string, needs ...string) string {
	base := s.system(version+"-base", "true")
	refs := ""
	for _, n := range needs {
		refs += " (builtins.storePath " + n + ")"
	}
	drv := s.run("nix-instantiate", "-E", fmt.Sprintf(`derivation { name = "toy-%s"; system = builtins.currentSystem;
		builder = "/bin/sh"; PATH = "/bin:/usr/bin"; base = builtins.storePath %s; needs = [%s ]; args = [ "-c" "mkdir $out; ln -s $base/bin $out/bin; echo $needs > $out/needs" ]; }`, version, base, refs))
	return s.run("nix-store", "--realise", drv)
}

// closure lists a system's paths as a binary cache made by Nix has them, with their archives.
func (s *nixStore) closure(path, compression string) (fleet.Closure, map[digest.Digest][]byte) {
	cache := s.t.TempDir()
	s.run("nix", "--extra-experimental-features", "nix-command", "copy", "--to", "file://"+cache+"?compression="+compression, path)
	c, nars := fleet.Closure{Type: fleet.TypeClosure}, map[digest.Digest][]byte{}
	for _, p := range strings.Fields(s.run("nix-store", "--query", "--requisites", path)) {
		text := testkit.Value(os.ReadFile(filepath.Join(cache, fleet.NarinfoName(p))))(s.t)
		entry, url, err := fleet.ParseNarinfo(text)
		testkit.Must(s.t, err)
		nars[entry.Content] = testkit.Value(os.ReadFile(filepath.Join(cache, url)))(s.t)
		c.Paths = append(c.Paths, entry)
	}
	c.Order()
	return c, nars
}

// packPaths is a bundle whose system comes path by path.
func (s *nixStore) packPaths(path string, c fleet.Closure) pack {
	raw := testkit.Value(trust.Canonical(c))(s.t)
	n := s.desired(path)
	n.Paths = &spec.Blob{Digest: digest.Of(raw), Size: int64(len(raw))}
	p := s.pack(n, nil)
	p.blobs[n.Paths.Digest] = raw
	return p
}

func (s *nixStore) has(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestNixPathByPath: a host whose store is empty gets a system from the server alone. A torn
// download goes on from what arrived, the next release brings what is new in it, and a changed
// byte or a disk without room is refused before anything changes.
func TestNixPathByPath(t *testing.T) {
	nix := newNixStore(t)
	shared := nix.large("shared", 3<<20)
	v1, v2 := nix.systemOn("v1", shared), nix.systemOn("v2", shared, nix.large("new", 1<<20))
	v3 := nix.systemOn("v3", shared, nix.large("third", 1<<20))
	server := &narServer{nars: map[digest.Digest][]byte{}, sent: map[digest.Digest][]int{}}
	lists := map[string]fleet.Closure{}
	for path, compression := range map[string]string{v1: "xz", v2: "zstd", v3: "none"} {
		c, nars := nix.closure(path, compression)
		for d, b := range nars {
			server.nars[d] = b
		}
		lists[path] = c
	}
	for i, p := range lists[v2].Paths { // as a release has them: a path keeps the archive that it has
		for _, q := range lists[v1].Paths {
			if p.Path == q.Path {
				lists[v2].Paths[i] = q
			}
		}
	}
	for _, p := range []string{v1, v2, v3} {
		nix.run("nix-store", "--delete", "--ignore-liveness", p)
	}
	nix.run("nix-store", "--gc")
	if nix.has(shared) || nix.has(v1) {
		t.Fatal("the store of the host is not empty")
	}

	s := newServer(t)
	s.nars = server
	b := newBox(t, s, "web-1").start()
	var large digest.Digest
	for _, p := range lists[v1].Paths {
		if p.Path == shared {
			large = p.Content
		}
	}
	server.tears = 2 << 20
	one := nix.packPaths(v1, lists[v1])
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.runs(one)
	b.want("switched", "v1-base switch\n")
	asked := server.askedFor(large)
	if len(asked) != 2 || asked[0] != 0 || asked[1] < 1<<20 {
		t.Fatalf("the torn archive was asked for at %v", asked)
	}
	whole := 0
	for _, p := range lists[v1].Paths {
		whole += int(p.Size)
	}
	if sent, lost := server.took(), 2<<20-asked[1]; sent > whole+lost {
		t.Errorf("%d bytes were sent for %d, and %d of them were lost with the connection", sent, whole, lost)
	}
	if left, err := os.ReadDir(filepath.Join(b.state, "nix-cache")); err == nil {
		t.Errorf("archives stay beside the store: %v", left)
	}

	// Only what is new comes with the second.
	two := nix.packPaths(v2, lists[v2])
	b.roll(single("web-1", 2, "r2", two), "g2", two)
	b.runs(two)
	if sent := server.took(); sent < 1<<20 || sent > 2<<20 {
		t.Errorf("%d bytes were sent for a change of 1 MiB", sent)
	}

	// A changed byte is refused, and nothing of it reaches the store.
	for _, p := range lists[v3].Paths {
		if p.Path == v3 {
			server.damage(p.Content)
		}
	}
	at := nix.at()
	three := nix.packPaths(v3, lists[v3])
	b.roll(single("web-1", 3, "r3", three), "g3", three)
	declined := func(grant string) (out event.GrantDeclined) {
		testkit.Eventually(t, "the grant declined", func() bool {
			for _, e := range reported[event.GrantDeclined](b.s) {
				if e.Grant == grant {
					out = e
					return true
				}
			}
			return false
		})
		return out
	}
	if d := declined("g3"); !strings.Contains(d.Detail, "instead of") {
		t.Errorf("declined: %+v", d)
	}
	if nix.has(v3) || nix.at() != at {
		t.Errorf("after a changed byte the profile is at %s, expected %s", nix.at(), at)
	}

	// A disk without room says how much is lacking before anything is fetched.
	vast := fleet.Closure{Type: fleet.TypeClosure, Paths: lists[v3].Paths}
	for i := range vast.Paths {
		vast.Paths[i].NarSize = fleet.MaxNar
	}
	server.took()
	four := nix.packPaths(v3, vast)
	b.roll(single("web-1", 4, "r4", four), "g4", four)
	if d, sent := declined("g4"), server.took(); !strings.Contains(d.Detail, "are lacking; nothing was fetched") || sent != 0 {
		t.Errorf("%d bytes were fetched, declined: %+v", sent, d)
	}
}
