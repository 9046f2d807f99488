package release

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
)

const (
	cachedSystem = "/nix/store/5p3kd2yys1q7cvmn4a0w9xh6rjzfgl8b-nixos-system-gateway-25.05"
	cachedLib    = "/nix/store/0jqd0rlxzra1rs38rdxl43yh6rxchgc6-lib"
)

// cachedPath writes a path into a binary cache. The archive need not be one: nothing here
// unpacks it.
func cachedPath(t testing.TB, cache, path, archive, compression string, refs ...string) {
	t.Helper()
	p := fleet.StorePath{Path: path, NarHash: digest.Of([]byte("nar of " + path)), NarSize: 1000, Content: digest.Of([]byte(archive)), Size: int64(len(archive)),
		Compression: compression, References: append([]string{}, refs...)}
	testkit.Must(t, os.MkdirAll(filepath.Join(cache, "nar"), 0o755))
	url := "nar/" + p.Content.Hex() + ".nar"
	testkit.Must(t, os.WriteFile(filepath.Join(cache, url), []byte(archive), 0o644))
	testkit.Must(t, os.WriteFile(filepath.Join(cache, fleet.NarinfoName(path)), p.Narinfo(url), 0o644))
}

// nixFleet is the example with a system out of a binary cache.
func nixFleet(t testing.TB) (dir, cache string) {
	dir = example(t, "nix")
	cache = filepath.Join(dir, "bundles", "gateway", "cache")
	cachedPath(t, cache, cachedLib, "the library", "xz")
	cachedPath(t, cache, cachedSystem, "the system", "xz", cachedLib, cachedSystem)
	edit(t, filepath.Join(dir, "bundles", "gateway", fleetdir.BundleFile), func(s string) string {
		return strings.Replace(s, "  timeout: 10m", "  closure: cache\n  timeout: 10m", 1)
	})
	return dir, cache
}

func writeAndSign(t testing.TB, k *keyset, rel *Release, now clock.Instant) (string, *Verified) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "release")
	testkit.Must(t, Write(dir, rel.Files, rel.NarList()...))
	return dir, k.sign(t, dir, now)
}

// TestStorePathsOfARelease: each store path is content of its own, which is checked where it
// is, may travel apart, and is the same in the next release whoever packs it.
func TestStorePathsOfARelease(t *testing.T) {
	dir, cache := nixFleet(t)
	k := newKeys(t, "nixos")
	rel := build(t, load(t, dir), BuildOptions{Ref: "v1", Now: t0})
	out, v := writeAndSign(t, k, rel, t0)
	lib, system := digest.Of([]byte("the library")), digest.Of([]byte("the system"))
	if want := []string{NarPath(lib), NarPath(system)}; len(v.Absent) != 0 || !slices.Contains(v.Names, want[0]) || !slices.Contains(v.Names, want[1]) {
		t.Fatalf("the release has %v, absent %v", v.Names, v.Absent)
	}

	var packed, without bytes.Buffer
	testkit.Value(packed.ReadFrom(Pack(os.DirFS(out))))(t)
	testkit.Value(without.ReadFrom(PackWithoutNars(os.DirFS(out))))(t)
	if !bytes.Contains(packed.Bytes(), []byte("the library")) || bytes.Contains(without.Bytes(), []byte("the library")) {
		t.Error("the packed release has not what it is to have")
	}
	there, apart := t.TempDir(), t.TempDir()
	testkit.Must(t, Unpack(&packed, there, DefaultCaps()))
	testkit.Must(t, Unpack(&without, apart, DefaultCaps()))
	if v := testkit.Value(VerifyDir(there, k.state(t), t0))(t); len(v.Absent) != 0 {
		t.Errorf("absent are %v", v.Absent)
	}
	if v := testkit.Value(VerifyDir(apart, k.state(t), t0))(t); len(v.Absent) != 2 {
		t.Errorf("absent are %v, expected both", v.Absent)
	}
	small := DefaultCaps()
	small.Nars = 5
	if err := Unpack(Pack(os.DirFS(out)), t.TempDir(), small); err == nil || !strings.Contains(err.Error(), "of store paths") {
		t.Errorf("unpacked beyond the cap: %v", err)
	}
	named := testkit.Value(NarsOf(os.DirFS(apart)))(t)
	if len(named) != 2 || named[0].Here || named[1].Here || named[0].Size+named[1].Size != int64(len("the library")+len("the system")) {
		t.Errorf("a folder without archives names %+v", named)
	}

	// Another packer gives other bytes of the same paths: no channel changes.
	cachedPath(t, cache, cachedLib, "the library, packed again", "zstd")
	cachedPath(t, cache, cachedSystem, "the system, packed again", "zstd", cachedLib, cachedSystem)
	again := build(t, load(t, dir), BuildOptions{Ref: "v2", Now: t0.Add(clock.Minute), Previous: v})
	if len(again.Changed) != 0 || len(again.NarList()) != 2 {
		t.Errorf("packed again, channels %v changed and %d archives are at hand", again.Changed, len(again.NarList()))
	}
	// A path with other content is new, and alone.
	more := "/nix/store/6w8g7njm4mck5dmjxws0z1xnrxvl81xa-more"
	cachedPath(t, cache, more, "more", "zstd")
	cachedPath(t, cache, cachedSystem, "the system, packed again", "zstd", cachedLib, more, cachedSystem)
	third := build(t, load(t, dir), BuildOptions{Ref: "v3", Now: t0.Add(clock.Minute), Previous: v})
	if have := third.Nars; len(third.Changed) != 1 || have[lib].Size == 0 || have[system].Size == 0 || have[digest.Of([]byte("more"))].Size == 0 || have[digest.Of([]byte("the library, packed again"))].Size != 0 {
		t.Errorf("channels %v changed, archives %v", third.Changed, third.NarList())
	}
	next, _ := writeAndSign(t, k, third, t0.Add(clock.Minute))
	f := testkit.Value(os.Open(filepath.Join(next, NarPath(lib))))(t)
	if raw := testkit.Value(io.ReadAll(f))(t); string(raw) != "the library" {
		t.Errorf("the carried archive is %q", raw)
	}
	testkit.Must(t, f.Close())

	// A changed byte, and what nothing names, are refused.
	testkit.Must(t, os.WriteFile(filepath.Join(there, NarPath(lib)), []byte("the librarY"), 0o644))
	if _, err := VerifyDir(there, k.state(t), t0); err == nil || !strings.Contains(err.Error(), "list of store paths signs") {
		t.Errorf("a changed byte: %v", err)
	}
	testkit.Must(t, os.MkdirAll(filepath.Join(apart, "nars"), 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(apart, NarPath(digest.Of([]byte("x")))), []byte("x"), 0o644))
	if _, err := VerifyDir(apart, k.state(t), t0); err == nil || !strings.Contains(err.Error(), "nothing signed names") {
		t.Errorf("a stranger: %v", err)
	}
}

// TestBrokenBinaryCaches are refused where the bundle names them.
func TestBrokenBinaryCaches(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(t *testing.T, dir, cache string)
		want   string
	}{
		"a path is missing": {func(t *testing.T, _, cache string) {
			testkit.Must(t, os.Remove(filepath.Join(cache, fleet.NarinfoName(cachedLib))))
		}, "the narinfo of " + cachedLib},
		"an archive is missing": {func(t *testing.T, _, cache string) {
			testkit.Must(t, os.RemoveAll(filepath.Join(cache, "nar")))
			testkit.Must(t, os.Mkdir(filepath.Join(cache, "nar"), 0o755))
		}, "expected the archive of " + cachedSystem},
		"an archive is damaged": {func(t *testing.T, _, cache string) {
			testkit.Must(t, os.WriteFile(filepath.Join(cache, "nar", digest.Of([]byte("the system")).Hex()+".nar"), []byte("the systeM"), 0o644))
		}, "is damaged"},
		"a narinfo is of another path": {func(t *testing.T, _, cache string) {
			edit(t, filepath.Join(cache, fleet.NarinfoName(cachedSystem)), func(s string) string { return strings.Replace(s, "25.05\n", "25.06\n", 1) })
		}, "expected " + cachedSystem},
		"a narinfo is none": {func(t *testing.T, _, cache string) {
			edit(t, filepath.Join(cache, fleet.NarinfoName(cachedSystem)), func(string) string { return "x" })
		}, "expected a narinfo"},
		"it leads out of the folder": {func(t *testing.T, _, cache string) {
			edit(t, filepath.Join(cache, fleet.NarinfoName(cachedSystem)), func(s string) string { return strings.Replace(s, "nar/", "../../../../../", 1) })
		}, "it leads out of the folder"},
		"copy beside it": {func(t *testing.T, dir, _ string) {
			edit(t, filepath.Join(dir, "bundles", "gateway", fleetdir.BundleFile), func(s string) string {
				return strings.Replace(s, "  closure: cache\n  timeout", "  closure: cache\n  copy: true\n  timeout", 1)
			})
		}, "both closure and copy"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, cache := nixFleet(t)
			c.breaks(t, dir, cache)
			_, problems := fleetdir.Load(dir)
			if text := lines(problems); !strings.Contains(text, c.want) || !strings.HasPrefix(text, "bundles/gateway/bundle.yaml:") {
				t.Errorf("expected %q in\n%s", c.want, text)
			}
		})
	}
}
