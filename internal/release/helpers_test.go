package release

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

const t0 = clock.Instant(1_700_000_000_000)

// examplesDir holds one fleet folder per example.
const examplesDir = "../../examples"

// keyset is a fleet's keys and its chain of roots.
type keyset struct {
	root, release, timestamp trust.Signer
	roots                    [][]byte
}

func signer(t testing.TB, seed byte) trust.Signer {
	t.Helper()
	s := make([]byte, ed25519.SeedSize)
	s[0] = seed
	out := testkit.Value(trust.NewSigner(ed25519.NewKeyFromSeed(s)))(t)
	return out
}

func newKeys(t testing.TB, fleetName string) *keyset {
	t.Helper()
	k := &keyset{root: signer(t, 1), release: signer(t, 2), timestamp: signer(t, 3)}
	k.addRoot(t, fleetName, 1, k.release)
	return k
}

// addRoot signs the next root with the given release key.
func (k *keyset) addRoot(t testing.TB, fleetName string, epoch uint64, release trust.Signer) {
	t.Helper()
	one := func(s trust.Signer) trust.RoleSpec {
		return trust.RoleSpec{Keys: []ed25519.PublicKey{s.Public()}, Threshold: 1}
	}
	head := fleet.Document{Fleet: fleetName, Epoch: epoch, Version: uint64(len(k.roots) + 1), IssuedAt: t0}
	r, err := trust.NewRoot(head, t0.Add(365*clock.Day), map[trust.Role]trust.RoleSpec{
		trust.RoleRoot: one(k.root), trust.RoleRelease: one(release), trust.RoleTimestamp: one(k.timestamp),
		trust.RoleEnrol: one(signer(t, 4)), trust.RoleOverride: one(signer(t, 5)),
	})
	testkit.Must(t, err)
	env, err := trust.SignRoot(r, k.root)
	testkit.Must(t, err)
	k.release = release
	k.roots = append(k.roots, env)
}

func (k *keyset) sign(t testing.TB, dir string, now clock.Instant) *Verified {
	t.Helper()
	v := testkit.Value(Sign(dir, SignOptions{Release: []trust.Signer{k.release}, Timestamp: []trust.Signer{k.timestamp}, Roots: k.roots, Now: now}))(t)
	return v
}

func (k *keyset) state(t testing.TB) trust.State {
	t.Helper()
	s := testkit.Value(Trust(k.roots[0]))(t)
	return s
}

func example(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	testkit.Must(t, os.CopyFS(dir, os.DirFS(filepath.Join(examplesDir, name))))
	return dir
}

func load(t testing.TB, dir string) *fleetdir.Source {
	t.Helper()
	src, ps := fleetdir.Load(dir)
	if len(ps) != 0 {
		t.Fatalf("load %s:\n%s", dir, lines(ps))
	}
	return src
}

func build(t testing.TB, src *fleetdir.Source, o BuildOptions) *Release {
	t.Helper()
	rel, ps := Build(src, o)
	if Fatal(ps) {
		t.Fatalf("build:\n%s", lines(ps))
	}
	return rel
}

// publish builds, writes and signs a release of the source.
func publish(t testing.TB, k *keyset, src *fleetdir.Source, o BuildOptions) (string, *Release, *Verified) {
	t.Helper()
	rel := build(t, src, o)
	dir := filepath.Join(t.TempDir(), "release")
	testkit.Must(t, Write(dir, rel.Files))
	return dir, rel, k.sign(t, dir, o.Now)
}

func edit(t testing.TB, path string, change func(string) string) {
	t.Helper()
	raw := testkit.Value(os.ReadFile(path))(t)
	next := change(string(raw))
	if next == string(raw) {
		t.Fatalf("the edit of %s changed nothing", path)
	}
	testkit.Must(t, os.WriteFile(path, []byte(next), 0o644))
}

func lines(ps []Problem) string {
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}
