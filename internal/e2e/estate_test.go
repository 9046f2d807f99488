package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
)

const (
	fleetName = testfleet.Name
	// patience bounds every wait. It is generous: it is met only by what never comes.
	patience = testkit.Patience
)

// newRand prints the seed of a test's choices.
func newRand(t testing.TB) *mrand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("STEADY_SEED"); s != "" {
		seed = testkit.Value(strconv.ParseUint(s, 10, 64))(t)
	}
	t.Logf("STEADY_SEED=%d", seed)
	return mrand.New(mrand.NewPCG(seed, 1))
}

// estate is a fleet as its owner has it: the declaration, the keys, and the
// releases made so far.
type estate struct {
	t   testing.TB
	dir string
	testfleet.Keys
	roots  [][]byte
	latest *release.Verified
	made   []made // by version, from 1
}

// made is one release.
type made struct {
	ref      string
	dir      string
	verified *release.Verified
}

// declare writes the files of a fleet folder; names are relative to it.
type declare map[string]string

func newEstate(t testing.TB) *estate {
	e := &estate{t: t, dir: t.TempDir(), Keys: testfleet.NewKeys("")}
	e.roots = [][]byte{testkit.Value(e.First())(t)}
	testkit.Must(t, os.WriteFile(e.rootFile(), e.roots[0], 0o600))
	return e
}

// rootFile is where the first root stands.
func (e *estate) rootFile() string { return filepath.Join(e.dir, "1.root.json") }

// release builds and signs the next release from the files of a fleet folder.
func (e *estate) release(ref string, files declare) made {
	e.t.Helper()
	src := filepath.Join(e.dir, "src-"+ref)
	testkit.Files(e.t, src, files)
	m := made{ref: ref, dir: filepath.Join(e.dir, "release-"+ref)}
	m.verified = testkit.Value(e.Release(src, m.dir, ref, e.latest, e.roots...))(e.t)
	e.latest = m.verified
	e.made = append(e.made, m)
	return m
}

// file reads one file of a release.
func (m made) file(t testing.TB, name string) []byte {
	t.Helper()
	return testkit.Value(os.ReadFile(filepath.Join(m.dir, filepath.FromSlash(name))))(t)
}

func (m made) packed() io.ReadCloser { return release.Pack(os.DirFS(m.dir)) }

// leaf returns a host's leaf in a channel's newest manifest.
func (m made) leaf(t testing.TB, channel, host string) fleet.Leaf {
	t.Helper()
	leaves := m.verified.Manifests[channel][0].Leaves.Value()
	i := slices.IndexFunc(leaves, func(l fleet.Leaf) bool { return l.Host == host })
	if i < 0 {
		t.Fatalf("release %s has no leaf of %s", m.ref, host)
	}
	return leaves[i]
}

// token signs an enrolment token for a host.
func (e *estate) token(host, server string, serverCA []byte, edit ...func(*identity.Token)) string {
	e.t.Helper()
	root := e.roots[len(e.roots)-1]
	env := testkit.Value(e.Token(host, root, edit...))(e.t)
	return identity.TokenText{Envelope: env, Server: server, ServerCA: serverCA, Root: root}.String()
}

// tree is a folder's content by path: mode and bytes of files, mode of folders.
type tree map[string]string

func readTree(t testing.TB, dir string) tree {
	t.Helper()
	out := tree{}
	testkit.Must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := testkit.Value(filepath.Rel(dir, path))(t)
		if !info.Mode().IsRegular() {
			out[name] = info.Mode().String()
			return nil
		}
		raw, err := os.ReadFile(path)
		out[name] = fmt.Sprintf("%s %q", info.Mode(), raw)
		return err
	}))
	return out
}

// diff says how b differs from a, or nothing.
func (a tree) diff(b tree) string {
	var out bytes.Buffer
	for name, v := range a {
		if w, ok := b[name]; !ok {
			fmt.Fprintf(&out, "-%s %s\n", name, v)
		} else if v != w {
			fmt.Fprintf(&out, "-%s %s\n+%s %s\n", name, v, name, w)
		}
	}
	for name, w := range b {
		if _, ok := a[name]; !ok {
			fmt.Fprintf(&out, "+%s %s\n", name, w)
		}
	}
	return out.String()
}

func unmarshalFile(path string, into any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}
