package release

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

func TestExamplesLoadBuildSignVerify(t *testing.T) {
	entries, err := os.ReadDir(examplesDir)
	if err != nil || len(entries) < 3 {
		t.Fatalf("%d examples, error %v", len(entries), err)
	}
	for _, e := range entries {
		if e.Name() == "systemd" || e.Name() == "nodes" {
			continue // units, and devices: no fleet
		}
		name := e.Name()
		if _, err := os.Stat(filepath.Join(examplesDir, name, "fleet", "fleet.yaml")); err == nil {
			name = filepath.Join(name, "fleet") // beside what runs it
		}
		t.Run(e.Name(), func(t *testing.T) {
			src := load(t, example(t, name))
			k := newKeys(t, src.Declaration.Metadata.Name)
			dir, rel, v := publish(t, k, src, BuildOptions{Now: t0})
			if rel.Version != 1 || len(rel.Changed) != len(src.Declaration.Channels) {
				t.Errorf("version %d with changed channels %v", rel.Version, rel.Changed)
			}
			hosts := 0
			for _, list := range v.Manifests {
				hosts += len(list[0].Leaves.Value())
			}
			if hosts != len(src.Declaration.Hosts) {
				t.Errorf("%d leaves for %d hosts", hosts, len(src.Declaration.Hosts))
			}
			if _, err := VerifyDir(dir, k.state(t), t0.Add(clock.Hour)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSampleIsTheQuickstart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "fleet")
	written, err := fleetdir.Sample(dir)
	if err != nil || len(written) != 5 {
		t.Fatalf("wrote %v, error %v", written, err)
	}
	for _, at := range written {
		name := testkit.Value(filepath.Rel(dir, at))(t)
		got := testkit.Value(os.ReadFile(at))(t)
		want, err := os.ReadFile(filepath.Join(examplesDir, "quickstart", name))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from examples/quickstart (error %v): copy the one over the other", name, err)
		}
	}
	if src := load(t, dir); len(src.Declaration.Hosts) != 6 {
		t.Errorf("%d hosts", len(src.Declaration.Hosts))
	}
	if _, err := fleetdir.Sample(dir); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a second sample in the same folder gave %v", err)
	}
}

func TestSampleReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	testkit.Must(t, os.WriteFile("fleet.yaml", []byte("mine"), 0o644))
	if written, err := fleetdir.Sample(""); err == nil || !strings.Contains(err.Error(), "name is empty") {
		t.Errorf("a folder without a name: wrote %v, error %v", written, err)
	}
	if got := testkit.Value(os.ReadFile("fleet.yaml"))(t); string(got) != "mine" {
		t.Errorf("fleet.yaml was replaced by %.40s", got)
	}
}

func TestBuildIsDeterministic(t *testing.T) {
	a := build(t, load(t, example(t, "edge")), BuildOptions{Now: t0})
	for range 5 {
		b := build(t, load(t, example(t, "edge")), BuildOptions{Now: t0})
		if d := cmp.Diff(a.Files, b.Files); d != "" {
			t.Fatalf("two builds differ:\n%s", d)
		}
	}
}

func TestUnchangedChannelKeepsItsManifest(t *testing.T) {
	fleetDir := example(t, "quickstart")
	src := load(t, fleetDir)
	k := newKeys(t, "acme")
	_, _, v1 := publish(t, k, src, BuildOptions{Ref: "r1", Now: t0})

	_, rel, v2 := publish(t, k, load(t, fleetDir), BuildOptions{Ref: "r2", Previous: v1, Now: t0.Add(clock.Hour)})
	if len(rel.Changed) != 0 || rel.Version != 2 {
		t.Errorf("an unchanged fleet gave version %d with new manifests for %v", rel.Version, rel.Changed)
	}
	for ch, list := range v2.Manifests {
		if !bytes.Equal(list[0].Envelope, v1.Manifests[ch][0].Envelope) || len(list) != 1 {
			t.Errorf("channel %s did not keep its envelope", ch)
		}
		if got := v2.Resolved.Value().Channels[ch].Ref; got != "r1" {
			t.Errorf("channel %s is at ref %q", ch, got)
		}
	}

	// db-1 belongs to stable alone: lab keeps its manifest, stable gets another.
	edit(t, filepath.Join(fleetDir, "bundles/db/files/schema.sql"), func(s string) string { return s + "-- more\n" })
	_, rel, v3 := publish(t, k, load(t, fleetDir), BuildOptions{Ref: "r3", Previous: v2, Now: t0.Add(2 * clock.Hour)})
	if !slices.Equal(rel.Changed, []string{"stable"}) {
		t.Errorf("changed: %v", rel.Changed)
	}
	if v3.Manifests["lab"][0].Header.Digest() != v1.Manifests["lab"][0].Header.Digest() {
		t.Error("lab has another manifest")
	}
	refs := v3.Resolved.Value().Channels["stable"].Manifests
	if len(refs) != 2 || refs[0].Rollout != "stable@r3" || refs[0].Version != 3 || refs[1].Rollout != "stable@r1" {
		t.Errorf("stable lists %+v", refs)
	}
	if v3.State.Marks[fleet.TypeResolved].Version != 3 {
		t.Errorf("marks %+v", v3.State.Marks)
	}
}

func TestHistoryKeepsThree(t *testing.T) {
	fleetDir := example(t, "quickstart")
	k := newKeys(t, "acme")
	var prev *Verified
	for i, ref := range []string{"r1", "r2", "r3", "r4"} {
		edit(t, filepath.Join(fleetDir, "bundles/db/files/schema.sql"), func(s string) string { return s + "-- " + ref + "\n" })
		_, _, prev = publish(t, k, load(t, fleetDir), BuildOptions{Ref: ref, Previous: prev, Now: t0.Add(clock.Duration(i) * clock.Hour)})
	}
	var got []string
	for _, m := range prev.Resolved.Value().Channels["stable"].Manifests {
		got = append(got, m.Rollout)
	}
	if want := []string{"stable@r4", "stable@r3", "stable@r2"}; !slices.Equal(got, want) {
		t.Errorf("listed %v, want %v", got, want)
	}
	if slices.ContainsFunc(prev.Names, func(n string) bool { return strings.Contains(n, "@r1") && strings.Contains(n, "stable") }) {
		t.Errorf("files of a manifest that is no longer listed: %v", prev.Names)
	}
}

func TestRefIsNeverTakenTwice(t *testing.T) {
	fleetDir := example(t, "quickstart")
	k := newKeys(t, "acme")
	_, _, v1 := publish(t, k, load(t, fleetDir), BuildOptions{Ref: "main", Now: t0})
	edit(t, filepath.Join(fleetDir, "bundles/db/files/schema.sql"), func(s string) string { return s + "\n" })
	rel, ps := Build(load(t, fleetDir), BuildOptions{Ref: "main", Previous: v1, Now: t0})
	if rel != nil || !strings.Contains(lines(ps), `ref "main" already names another manifest of channel "stable"`) {
		t.Errorf("got release %v and %q", rel, lines(ps))
	}
	for _, bad := range []string{"Main", "a/b", "..", "x@y"} {
		if rel, _ := Build(load(t, fleetDir), BuildOptions{Ref: bad, Now: t0}); rel != nil {
			t.Errorf("ref %q was taken", bad)
		}
	}
}

func TestNewEpochEndsEarlierManifests(t *testing.T) {
	src := load(t, example(t, "quickstart"))
	k := newKeys(t, "acme")
	_, _, v1 := publish(t, k, src, BuildOptions{Ref: "r1", Now: t0})
	k.addRoot(t, "acme", 2, signer(t, 9))
	_, rel, v2 := publish(t, k, src, BuildOptions{Ref: "r2", Previous: v1, Epoch: 2, Now: t0})
	if len(rel.Changed) != 2 || len(v2.Manifests["stable"]) != 1 {
		t.Errorf("changed %v, listed %d", rel.Changed, len(v2.Manifests["stable"]))
	}
}

func TestNewReleaseKeySignsKeptManifestsAgain(t *testing.T) {
	src := load(t, example(t, "quickstart"))
	k := newKeys(t, "acme")
	_, _, v1 := publish(t, k, src, BuildOptions{Ref: "r1", Now: t0})
	k.addRoot(t, "acme", 1, signer(t, 9))
	_, rel, v2 := publish(t, k, src, BuildOptions{Ref: "r2", Previous: v1, Now: t0})
	if len(rel.Changed) != 0 || v2.Manifests["stable"][0].Header.Digest() != v1.Manifests["stable"][0].Header.Digest() {
		t.Error("a new release key changed a manifest")
	}
}

func TestMassChangeNeedsConsent(t *testing.T) {
	fleetDir := example(t, "quickstart")
	k := newKeys(t, "acme")
	_, _, v1 := publish(t, k, load(t, fleetDir), BuildOptions{Ref: "r1", Now: t0})
	fleetFile := filepath.Join(fleetDir, fleetdir.FleetFile)
	edit(t, fleetFile, func(s string) string {
		for _, h := range []string{"web-2", "web-3"} {
			i := strings.Index(s, "  "+h+":")
			s = s[:i] + s[i+strings.Index(s[i:], "\n")+1:]
		}
		return s
	})
	_, ps := Build(load(t, fleetDir), BuildOptions{Ref: "r2", Previous: v1, Now: t0})
	if want := "fleet.yaml:8:1: 2 of 6 hosts of version 1 are removed or lose their bundle: expected at most 20 % at once, or --allow-removal hosts=stable:web-2,web-3 if these are meant"; !strings.HasPrefix(lines(ps), want) {
		t.Errorf("got  %swant %s", lines(ps), want)
	}
	build(t, load(t, fleetDir), BuildOptions{Ref: "r2", Previous: v1, Now: t0, Removals: []fleet.Removal{{What: fleet.RemovedHosts, Of: "stable", Names: []string{"web-2", "web-3"}}}})
	edit(t, fleetFile, func(s string) string { return s + "allowMassChange: true\n" })
	build(t, load(t, fleetDir), BuildOptions{Ref: "r2", Previous: v1, Now: t0})
}

// TestRemovalIsSignedAndStays: a host that is wiped is given a bundle which names that
// critical, and going back to an earlier release does not give it its old one.
func TestRemovalIsSignedAndStays(t *testing.T) {
	fleetDir := example(t, "quickstart")
	k := newKeys(t, "acme")
	_, _, v1 := publish(t, k, load(t, fleetDir), BuildOptions{Ref: "r1", Now: t0})
	fleetFile := filepath.Join(fleetDir, fleetdir.FleetFile)
	edit(t, fleetFile, func(s string) string {
		i := strings.Index(s, "  web-2:")
		return s[:i] + s[i+strings.Index(s[i:], "\n")+1:] + "removed: {web-2: {workloads: wipe}}\n"
	})
	_, _, v2 := publish(t, k, load(t, fleetDir), BuildOptions{Ref: "r2", Previous: v1, Now: t0})
	h := v2.Roster.Value().Hosts["web-2"]
	if b := v2.Bundles[h.Bundle]; h.Removed != fleet.Wipe || !b.Wipe || !slices.Contains(b.Critical, fleet.CriticalWipe) {
		t.Fatalf("web-2 is %+v with bundle %+v", h, b)
	}
	_, moves, err := Rollback(RollbackOptions{Current: v2, From: v1, Channel: h.Channel, To: "r1", Now: t0})
	if err == nil || !strings.Contains(err.Error(), "no host of channel") {
		t.Fatalf("going back moves %+v, %v", moves, err)
	}
}

func TestFleetResolvedHashIsOfThePlanWithoutManifests(t *testing.T) {
	src := load(t, example(t, "quickstart"))
	_, _, v := publish(t, newKeys(t, "acme"), src, BuildOptions{Ref: "r1", Now: t0})
	want := testkit.Value(FleetResolvedHash(v.Resolved.Value()))(t)
	for ch, list := range v.Manifests {
		if got := list[0].Header.Value().FleetResolvedHash; got != want {
			t.Errorf("channel %s: %s, want %s", ch, got, want)
		}
	}
}

func TestBudgetMembersBytesAreCanonical(t *testing.T) {
	b := fleet.BudgetMembers{Type: fleet.TypeBudget, Hosts: []string{"a-1", "b.2", "c_3"}}
	want := testkit.Value(trust.Canonical(b))(t)
	if got := b.Bytes(); !bytes.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRefreshRaisesTheTimestampAlone(t *testing.T) {
	src := load(t, example(t, "quickstart"))
	k := newKeys(t, "acme")
	dir, _, v1 := publish(t, k, src, BuildOptions{Ref: "r1", Now: t0})
	later := t0.Add(30 * clock.Hour)
	window := v1.Resolved.Value().Channels["stable"].FreshnessWindow
	if err := v1.Verifier.Fresh(v1.Timestamp, window, later); trust.CodeOf(err) != trust.Stale {
		t.Errorf("an old timestamp gave %v", err)
	}
	v2 := testkit.Value(Refresh(dir, RefreshOptions{State: v1.State, Now: later, Signers: []trust.Signer{k.timestamp}}))(t)
	if err := v2.Verifier.Fresh(v2.Timestamp, window, later); err != nil {
		t.Error(err)
	}
	if v2.Timestamp.Value().Version != 2 || v2.Resolved.Digest() != v1.Resolved.Digest() {
		t.Errorf("timestamp version %d over snapshot %s", v2.Timestamp.Value().Version, v2.Resolved.Digest())
	}
	if _, err := Refresh(dir, RefreshOptions{State: v1.State, Now: later, Signers: []trust.Signer{k.release}}); err == nil {
		t.Error("the release key refreshed the timestamp")
	}
}

func TestSignFinishesWhatWasCutShort(t *testing.T) {
	src := load(t, example(t, "quickstart"))
	k := newKeys(t, "acme")
	rel := build(t, src, BuildOptions{Ref: "r1", Now: t0})
	dir := filepath.Join(t.TempDir(), "release")
	testkit.Must(t, Write(dir, rel.Files))
	if _, err := VerifyDir(dir, k.state(t), t0); err == nil || !strings.Contains(err.Error(), "is not signed yet") {
		t.Errorf("an unsigned release verified: %v", err)
	}
	o := SignOptions{Release: []trust.Signer{k.release}, Timestamp: []trust.Signer{k.timestamp}, Roots: k.roots, Now: t0}
	testkit.Must(t, signFile(dir, "rollouts/stable@r1.payload.json", o))
	before := testkit.Value(readIn(dir, "rollouts/stable@r1.json"))(t)
	v := k.sign(t, dir, t0)
	if !bytes.Equal(v.Manifests["stable"][0].Envelope, before) {
		t.Error("what was signed already was signed again")
	}
}

func TestSignRefusesTheWrongKeys(t *testing.T) {
	src := load(t, example(t, "quickstart"))
	k := newKeys(t, "acme")
	dir := filepath.Join(t.TempDir(), "release")
	testkit.Must(t, Write(dir, build(t, src, BuildOptions{Ref: "r1", Now: t0}).Files))
	o := SignOptions{Release: []trust.Signer{k.timestamp}, Timestamp: []trust.Signer{k.timestamp}, Roots: k.roots, Now: t0}
	if _, err := Sign(dir, o); trust.CodeOf(err) != trust.ManifestVerifyFailed {
		t.Errorf("got %v", err)
	}
	if _, err := Sign(t.TempDir(), o); err == nil || !strings.Contains(err.Error(), "is no release folder") {
		t.Errorf("got %v", err)
	}
}

func TestWriteReplacesOnlyReleases(t *testing.T) {
	rel := build(t, load(t, example(t, "quickstart")), BuildOptions{Ref: "r1", Now: t0})
	parent := t.TempDir()
	dir := filepath.Join(parent, "release")
	for range 2 {
		testkit.Must(t, Write(dir, rel.Files))
	}
	names, err := namesIn(dir)
	if err != nil || !slices.Equal(names, slices.Sorted(maps.Keys(rel.Files))) {
		t.Errorf("wrote %v, error %v, want %v", names, err, slices.Sorted(maps.Keys(rel.Files)))
	}
	other := filepath.Join(parent, "photos")
	testkit.Must(t, os.MkdirAll(other, 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(other, "cat.jpg"), nil, 0o644))
	if err := Write(other, rel.Files); err == nil || !strings.Contains(err.Error(), "is no release folder") {
		t.Errorf("a folder of photos: %v", err)
	}
	if err := Write(filepath.Join(parent, "bad"), map[string][]byte{"../x": nil}); err == nil {
		t.Error("a name outside the folder was written")
	}
	left, err := os.ReadDir(parent)
	if err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

// Every byte of a release is covered: whichever is flipped, the release is
// refused.
func TestFlippedByteIsRefused(t *testing.T) {
	k := newKeys(t, "acme")
	dir, _, v := publish(t, k, load(t, example(t, "quickstart")), BuildOptions{Ref: "r1", Now: t0})
	files := map[string][]byte{}
	for _, name := range v.Names {
		raw := testkit.Value(readIn(dir, name))(t)
		files[name] = raw
	}
	state := k.state(t)
	testkit.Value(Verify(mapFS(files), state, t0))(t)
	for _, name := range v.Names {
		raw := files[name]
		for _, at := range []int{0, len(raw) / 4, len(raw) / 3, len(raw) / 2, len(raw) * 3 / 4, len(raw) - 1} {
			for _, flip := range []byte{0x01, 0x20, 0x80} {
				bad := bytes.Clone(raw)
				bad[at] ^= flip
				changed := maps.Clone(files)
				changed[name] = bad
				if _, err := Verify(mapFS(changed), state, t0); err == nil {
					t.Errorf("%s: byte %d xor %#x was not noticed", name, at, flip)
				}
			}
		}
		missing := maps.Clone(files)
		delete(missing, name)
		if _, err := Verify(mapFS(missing), state, t0); err == nil {
			t.Errorf("%s: its absence was not noticed", name)
		}
	}
	stranger := maps.Clone(files)
	stranger[BlobPath(digest.Of([]byte("x")))] = []byte("x")
	if _, err := Verify(mapFS(stranger), state, t0); err == nil || !strings.Contains(err.Error(), "nothing signed names") {
		t.Errorf("a stranger's blob: %v", err)
	}
}

func TestVerifyRefusesOlderAndForeign(t *testing.T) {
	fleetDir := example(t, "quickstart")
	k := newKeys(t, "acme")
	old, _, v1 := publish(t, k, load(t, fleetDir), BuildOptions{Ref: "r1", Now: t0})
	_, _, v2 := publish(t, k, load(t, fleetDir), BuildOptions{Ref: "r2", Previous: v1, Now: t0.Add(clock.Hour)})
	if _, err := VerifyDir(old, v2.State, t0.Add(clock.Hour)); trust.CodeOf(err) != trust.Rollback {
		t.Errorf("an older release: %v", err)
	}
	other := &keyset{root: signer(t, 11), release: signer(t, 12), timestamp: signer(t, 13)}
	other.addRoot(t, "acme", 1, other.release)
	if _, err := VerifyDir(old, other.state(t), t0); err == nil || !strings.Contains(err.Error(), "does not contain the trusted one") {
		t.Errorf("a release under other roots: %v", err)
	}
}

func TestRefIsTheCommitOfACleanCheckout(t *testing.T) {
	testkit.Needs(t, testkit.Git)
	dir := example(t, "quickstart")
	ref := func(now clock.Instant, untracked ...string) string {
		src, ps := fleetdir.Load(dir, untracked...)
		if Fatal(ps) {
			t.Fatalf("load:\n%s", lines(ps))
		}
		return build(t, src, BuildOptions{Now: now}).Ref
	}
	byHash := ref(t0)
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "fleet")
	commit := git("rev-parse", "HEAD")
	if got := ref(t0); got != commit[:12] {
		t.Errorf("clean checkout: ref %q, want %q", got, commit[:12])
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o644))
	stray := "bundles/web/stray"
	testkit.Must(t, os.WriteFile(filepath.Join(dir, stray), nil, 0o644))
	if got := ref(t0); got != commit[:12] {
		t.Errorf("files that are no part of the release changed the ref to %q", got)
	}
	if got := ref(t0, stray); got != byHash {
		t.Errorf("a release with an untracked file: ref %q, want the plan's hash %q", got, byHash)
	}
	edit(t, filepath.Join(dir, fleetdir.FleetFile), func(s string) string { return s + "# changed\n" })
	if got := ref(t0); got != byHash || len(got) != 12 {
		t.Errorf("changed checkout: ref %q, want the plan's hash %q", got, byHash)
	}
	if got := ref(t0.Add(clock.Hour)); got != byHash {
		t.Errorf("the plan's hash depends on the time: %q and %q", got, byHash)
	}
}

// Going back to an earlier commit gives the same plan another name: hosts know
// the earlier name as another manifest.
func TestRefOfAnEarlierCommitGetsASuffix(t *testing.T) {
	b := builder{o: BuildOptions{Previous: nil}}
	if b.refInUse("r1") {
		t.Error("a first release has no earlier refs")
	}
	fleetDir := example(t, "quickstart")
	_, _, v1 := publish(t, newKeys(t, "acme"), load(t, fleetDir), BuildOptions{Ref: "r1", Now: t0})
	b.o.Previous = v1
	if !b.refInUse("r1") || b.refInUse("r2") {
		t.Error("the refs of the previous release are not seen")
	}
}
