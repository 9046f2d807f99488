package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/keyring"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/trust"
)

const (
	fleetName   = "bench"
	channelName = "stable"
)

func hostName(i int) string { return fmt.Sprintf("host-%05d", i) }

// fleetDir is the benchmark's fleet: its folder, its keys and its newest
// release.
type fleetDir struct {
	dir      string
	hosts    int
	roots    [][]byte
	sign     release.SignOptions
	previous *release.Verified
	count    int // of releases
}

// newFleet makes the keys of a fleet below dir.
func newFleet(dir string, hosts int) (*fleetDir, trust.Signer, error) {
	keys := filepath.Join(dir, "keys")
	if _, err := keyring.Init(keys, fleetName, keyring.RootLife, now()); err != nil {
		return nil, trust.Signer{}, err
	}
	roots, err := keyring.Roots(keys)
	if err != nil {
		return nil, trust.Signer{}, err
	}
	signers := map[trust.Role]trust.Signer{}
	for _, role := range []trust.Role{trust.RoleRelease, trust.RoleTimestamp, trust.RoleEnrol} {
		if signers[role], err = keyring.Signer(keys, role); err != nil {
			return nil, trust.Signer{}, err
		}
	}
	f := &fleetDir{dir: filepath.Join(dir, "fleet"), hosts: hosts, roots: roots, sign: release.SignOptions{
		Release: []trust.Signer{signers[trust.RoleRelease]}, Timestamp: []trust.Signer{signers[trust.RoleTimestamp]}, Roots: roots,
	}}
	return f, signers[trust.RoleEnrol], os.MkdirAll(filepath.Join(f.dir, "web"), 0o755)
}

// rootFile is the document that a server begins with.
func (f *fleetDir) rootFile() string {
	return filepath.Join(filepath.Dir(f.dir), "keys", keyring.RootFile(1))
}

// change is a signed release that changes every host's only file.
type change struct {
	dir      string
	rollout  string
	manifest digest.Digest
	policy   bool
}

// waveShares are the shares of the fleet in the waves of the policy, in percent;
// the rest is in the last one.
var waveShares = []int{1, 10}

// budgetPercent of all hosts may be in flight at once under the policy.
const budgetPercent = 25

// waveOf returns the tag of a host.
func waveOf(i, hosts int) string {
	end := 0
	for w, share := range waveShares {
		if end += max(1, hosts*share/100); i < end {
			return fmt.Sprintf("wave-%d", w+1)
		}
	}
	return "rest"
}

// declare writes the fleet with or without the wave policy.
func (f *fleetDir) declare(policy bool) error {
	var b bytes.Buffer
	name := "at-once"
	if policy {
		name = "waves"
	}
	fmt.Fprintf(&b, "apiVersion: steady/v1\nkind: Fleet\nmetadata: {name: %s}\n", fleetName)
	fmt.Fprintf(&b, "channels: {%s: {rolloutPolicy: %s, freshnessWindow: 24h}}\n", channelName, name)
	b.WriteString("rolloutPolicies:\n  at-once: {waves: [{name: all, selector: {all: true}}]}\n  waves:\n    waves:\n")
	for w := range waveShares {
		fmt.Fprintf(&b, "      - {name: wave-%d, selector: {tags: [wave-%d]}, soak: 0s, minSoaked: 1}\n", w+1, w+1)
	}
	b.WriteString("      - {name: rest, selector: {all: true}, soak: 0s}\n")
	if policy {
		fmt.Fprintf(&b, "disruptionBudgets: [{selector: {all: true}, maxInFlightPct: %d}]\n", budgetPercent)
	}
	b.WriteString("bundles: {web: {path: web}}\nhosts:\n")
	for i := range f.hosts {
		fmt.Fprintf(&b, "  %s: {channel: %s, tags: [%s], bundle: web}\n", hostName(i), channelName, waveOf(i, f.hosts))
	}
	return os.WriteFile(filepath.Join(f.dir, fleetdir.FleetFile), b.Bytes(), 0o644)
}

// release builds and signs the next change.
func (f *fleetDir) release(policy bool) (change, error) {
	f.count++
	ref := fmt.Sprintf("r%d", f.count)
	if err := f.declare(policy); err != nil {
		return change{}, err
	}
	bundle := fmt.Sprintf("files: [{path: etc/release, content: \"%s\\n\"}]\n", ref)
	if err := os.WriteFile(filepath.Join(f.dir, "web", "bundle.yaml"), []byte(bundle), 0o644); err != nil {
		return change{}, err
	}
	src, problems := fleetdir.Load(f.dir)
	if release.Fatal(problems) {
		return change{}, problemsError(problems)
	}
	built, problems := release.Build(src, release.BuildOptions{Ref: ref, Previous: f.previous, Now: now()})
	if release.Fatal(problems) {
		return change{}, problemsError(problems)
	}
	c := change{dir: filepath.Join(filepath.Dir(f.dir), "releases", ref), rollout: fleet.RolloutName(channelName, ref), policy: policy}
	if err := release.Write(c.dir, built.Files, built.NarList()...); err != nil {
		return change{}, err
	}
	f.sign.Now = now()
	v, err := release.Sign(c.dir, f.sign)
	if err != nil {
		return change{}, err
	}
	ms := v.Manifests[channelName]
	if len(ms) == 0 || ms[0].Header.Value().Ref != ref {
		return change{}, fmt.Errorf("release %s has no manifest of its own", ref)
	}
	c.manifest, f.previous = ms[0].Header.Digest(), v
	return c, nil
}

func problemsError(ps []release.Problem) error {
	var words []string
	for _, p := range ps {
		words = append(words, fmt.Sprint(p))
	}
	return errors.New("the benchmark's own fleet does not build: " + strings.Join(words, "; "))
}
