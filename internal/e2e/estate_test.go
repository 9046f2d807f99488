package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
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

	"github.com/steadyfleet/steady/internal/cli/keydir"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/trust"
)

const fleetName = "acme"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func got[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

func wallNow() clock.Instant { return clock.FromTime(time.Now()) }

// patience bounds every wait. It is generous: it is met only by what never
// comes.
const patience = 90 * time.Second

// until waits for a condition, which is looked at again and again.
func until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// newRand prints the seed of a test's choices.
func newRand(t testing.TB) *mrand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("STEADY_SEED"); s != "" {
		seed = got(strconv.ParseUint(s, 10, 64))(t)
	}
	t.Logf("STEADY_SEED=%d", seed)
	return mrand.New(mrand.NewPCG(seed, 1))
}

// estate is a fleet as its owner has it: the declaration, the keys, and the
// releases made so far.
type estate struct {
	t      testing.TB
	dir    string
	keys   string
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
	e := &estate{t: t, dir: t.TempDir()}
	e.keys = filepath.Join(e.dir, "keys")
	got(keydir.Init(e.keys, fleetName, keydir.RootLife, wallNow()))(t)
	e.roots = got(keydir.Roots(e.keys))(t)
	return e
}

func (e *estate) signer(role trust.Role) trust.Signer { return got(keydir.Signer(e.keys, role))(e.t) }

// release builds and signs the next release from the files of a fleet folder.
func (e *estate) release(ref string, files declare) made {
	e.t.Helper()
	src := filepath.Join(e.dir, "src-"+ref)
	for name, content := range files {
		path := filepath.Join(src, filepath.FromSlash(name))
		must(e.t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(e.t, os.WriteFile(path, []byte(content), 0o644))
	}
	loaded, problems := fleetdir.Load(src)
	if release.Fatal(problems) {
		e.t.Fatalf("load %s: %v", ref, problems)
	}
	now := wallNow()
	rel, problems := release.Build(loaded, release.BuildOptions{Ref: ref, Previous: e.latest, Now: now})
	if release.Fatal(problems) {
		e.t.Fatalf("build %s: %v", ref, problems)
	}
	m := made{ref: ref, dir: filepath.Join(e.dir, "release-"+ref)}
	must(e.t, release.Write(m.dir, rel.Files))
	m.verified = got(release.Sign(m.dir, release.SignOptions{
		Release: []trust.Signer{e.signer(trust.RoleRelease)}, Timestamp: []trust.Signer{e.signer(trust.RoleTimestamp)},
		Roots: e.roots, Now: now,
	}))(e.t)
	e.latest = m.verified
	e.made = append(e.made, m)
	return m
}

// file reads one file of a release.
func (m made) file(t testing.TB, name string) []byte {
	t.Helper()
	return got(os.ReadFile(filepath.Join(m.dir, filepath.FromSlash(name))))(t)
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
	id := make([]byte, 16)
	got(rand.Read(id))(e.t)
	root := e.roots[len(e.roots)-1]
	now := wallNow()
	token := identity.Token{
		Document: fleet.Document{Fleet: fleetName, Epoch: 1, Version: 1, IssuedAt: now},
		ID:       hex.EncodeToString(id), Host: host, Expires: now.Add(clock.Hour),
		RootDigest: digest.Of(got(trust.ParseEnvelope(root))(e.t).Payload), MinVersions: map[string]uint64{},
	}
	for _, f := range edit {
		f(&token)
	}
	env := got(identity.SignToken(token, e.signer(trust.RoleEnrol)))(e.t)
	return identity.TokenText{Envelope: env, Server: server, ServerCA: serverCA, Root: root}.String()
}

// tree is a folder's content by path: mode and bytes of files, mode of folders.
type tree map[string]string

func readTree(t testing.TB, dir string) tree {
	t.Helper()
	out := tree{}
	must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := got(filepath.Rel(dir, path))(t)
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
