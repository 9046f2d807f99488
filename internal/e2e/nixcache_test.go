package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

const nixFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  gw-1: {channel: stable, bundle: gateway}
  gw-2: {channel: stable, bundle: gateway}
  gw-3: {channel: stable, bundle: gateway}
channels:
  stable: {rolloutPolicy: all, freshnessWindow: 24h}
rolloutPolicies:
  all:
    waves: [{name: all, selector: {all: true}, soak: 0s}]
bundles: {gateway: {path: bundles/gateway}}
`

// site is a machine that builds systems, and hosts that each have a store of their own at the
// same path: a mount namespace shows each its own folder there.
type site struct {
	t     *testing.T
	dir   string
	store string // the folder of Nix, for each process
	env   []string
}

func newSite(t *testing.T) *site {
	s := &site{t: t, dir: testkit.Value(filepath.EvalSymlinks(t.TempDir()))(t)}
	s.store = filepath.Join(s.dir, "nix")
	s.nixFolder(s.store)
	s.env = append(os.Environ(), actAsSteady+"=1", "STEADY_CONTEXT="+filepath.Join(s.dir, "data", "operator.json"), "HOME="+filepath.Join(s.store, "home"),
		"NIX_STORE_DIR="+filepath.Join(s.store, "store"), "NIX_STATE_DIR="+filepath.Join(s.store, "var"), "NIX_LOG_DIR="+filepath.Join(s.store, "log"),
		"NIX_CONF_DIR="+filepath.Join(s.store, "conf"), "NIX_REMOTE=")
	t.Cleanup(func() { testkit.Must(t, exec.Command("chmod", "-R", "u+w", s.dir).Run()) })
	return s
}

// nixFolder makes an empty store, of which nothing substitutes.
func (s *site) nixFolder(dir string) {
	for _, name := range []string{"home", "store", "var", "log", "conf"} {
		testkit.Must(s.t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	testkit.Must(s.t, os.WriteFile(filepath.Join(dir, "conf", "nix.conf"), []byte("build-users-group =\nsandbox = false\nsubstituters =\n"), 0o644))
}

// run runs a program in the folder of the site, and returns what it prints and says.
func (s *site) run(program string, args ...string) (out, said string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), program, args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		s.t.Fatalf("%s %s: %v\n%s%s", filepath.Base(program), args, err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String()), stderr.String()
}

func (s *site) steady(args ...string) (out, said string) {
	s.t.Helper()
	return s.run(testkit.Value(os.Executable())(s.t), args...)
}

// write puts text into a file of the site.
func (s *site) write(name, text string) {
	testkit.Must(s.t, os.MkdirAll(filepath.Dir(filepath.Join(s.dir, name)), 0o755))
	testkit.Must(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644))
}

// blob is a store path of so many bytes that do not compress.
func (s *site) blob(name string, size int64) string {
	at := filepath.Join(s.dir, name)
	var seed [32]byte
	copy(seed[:], name)
	f := testkit.Value(os.Create(at))(s.t)
	_, err := io.CopyN(f, rand.NewChaCha8(seed), size)
	testkit.Must(s.t, err)
	testkit.Must(s.t, f.Close())
	path, _ := s.run("nix-store", "--add", at)
	testkit.Must(s.t, os.Remove(at))
	return path
}

// system builds a toy system that needs other paths.
func (s *site) system(version string, needs ...string) string {
	refs := ""
	for _, n := range needs {
		refs += " (builtins.storePath " + n + ")"
	}
	drv, _ := s.run("nix-instantiate", "-E", fmt.Sprintf(`derivation { name = "toy-%s"; system = builtins.currentSystem; builder = "/bin/sh"; PATH = "/bin:/usr/bin"; needs = [%s ];
		args = [ "-c" "mkdir -p $out/bin; echo $needs > $out/needs; printf '#!/bin/sh\necho %s $1 >> \"$STEADY_ROOT/switched\"\n' > $out/bin/switch-to-configuration; chmod +x $out/bin/switch-to-configuration" ]; }`, version, refs, version))
	path, _ := s.run("nix-store", "--realise", drv)
	return path
}

// peak is the most memory that a process had, in bytes.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	raw := testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	m := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(raw)
	if m == nil {
		t.Fatalf("no VmHWM in\n%s", raw)
	}
	return testkit.Value(strconv.ParseInt(string(m[1]), 10, 64))(t) << 10
}

// TestNixFromTheServerAlone: a system is built, pushed and converged by three hosts whose
// stores are empty and know no other cache. Each path goes to the server once and to each host
// once; the next release brings what is new in it. Neither server nor agents have an archive in
// memory. At night the system has 2 GiB.
func TestNixFromTheServerAlone(t *testing.T) {
	testkit.Needs(t, testkit.Nix, testkit.Root)
	sizes := []int64{48 << 20, 4 << 20}
	if testkit.Nightly() {
		sizes = []int64{1 << 30, 512 << 20, 512 << 20}
	}
	s := newSite(t)
	var needs []string
	for i, size := range sizes {
		needs = append(needs, s.blob(fmt.Sprintf("blob%d", i), size))
	}
	v1 := s.system("v1", needs...)
	s.write("fleet/fleet.yaml", nixFleet)
	declare := func(version, path, source string) {
		s.write("fleet/bundles/gateway/bundle.yaml", fmt.Sprintf("system: {driver: nix, path: %s, %s, profile: %s/profiles/system, running: %s/running, timeout: 1m}\n", path, source, s.store, s.store))
	}
	s.steady("keys", "init", "--fleet", "acme")
	server := launchAs(t, s, "server", "server", "--data", "data", "--root", "keys/1.root.json", "--listen", "127.0.0.1:0")
	testkit.Eventually(t, "the server runs", func() bool {
		_, err := os.Stat(filepath.Join(s.dir, "data", "operator.json"))
		return err == nil
	})
	hosts := map[string]*process{}
	for _, name := range []string{"gw-1", "gw-2", "gw-3"} {
		folder := filepath.Join(s.dir, name)
		s.nixFolder(filepath.Join(folder, "nix"))
		testkit.Must(t, os.MkdirAll(filepath.Join(folder, "root"), 0o755))
		token, _ := s.steady("token", "create", name)
		s.write(name+".token", token)
		hosts[name] = launchProgramAs(t, s, name, "unshare", "--mount", "sh", "-c", `mount --bind "$1" "$2" && shift 2 && exec "$@"`, "sh", filepath.Join(folder, "nix"), s.store,
			testkit.Value(os.Executable())(t), "agent", "--state", filepath.Join(folder, "state"), "--root", filepath.Join(folder, "root"), "--token", name+".token", "--engine", "none")
	}
	idle := peak(t, server.cmd.Process.Pid)
	publish := func(ref string) string {
		_, said := s.steady("release", "publish", "fleet", "--keys", "keys", "--ref", ref)
		out, _ := s.steady("rollout", "watch", "stable@"+ref)
		if !strings.Contains(out, "converged") {
			t.Fatalf("the rollout ended:\n%s", out)
		}
		return said
	}
	runs := func(path, switched string) {
		for name := range hosts {
			own := filepath.Join(s.dir, name, "nix")
			if at, err := os.Readlink(filepath.Join(own, "profiles", "system")); err != nil || !strings.HasPrefix(at, "system-") {
				t.Errorf("the profile of %s: %s, %v", name, at, err)
			}
			if _, err := os.Stat(filepath.Join(own, "store", filepath.Base(path), "needs")); err != nil {
				t.Error(err)
			}
			log := testkit.Value(os.ReadFile(filepath.Join(s.dir, name, "root", "switched")))(t)
			if string(log) != switched {
				t.Errorf("%s switched: %s", name, log)
			}
		}
	}
	declare("v1", v1, "copy: true")
	said := publish("v1")
	if want := fmt.Sprintf("The server has 0 of %d store paths; sending %d, ", len(needs)+1, len(needs)+1); !strings.Contains(said, want) {
		t.Errorf("the push said:\n%s", said)
	}
	runs(v1, "v1 switch\n")
	if grew := peak(t, server.cmd.Process.Pid) - idle; grew > 40<<20 {
		t.Errorf("the server took %d MiB more to serve archives of up to %d", grew>>20, sizes[0]>>20)
	}
	for name, p := range hosts {
		if most := peak(t, p.cmd.Process.Pid); most > idle+40<<20 {
			t.Errorf("agent %s took %d MiB, and the server at rest %d", name, most>>20, idle>>20)
		}
	}

	// The next one changes one path, and comes out of a binary cache with compressed archives.
	v2 := s.system("v2", append(needs[:len(needs):len(needs)], s.blob("more", 1<<20))...)
	s.run("nix", "--extra-experimental-features", "nix-command", "copy", "--to", "file://"+s.dir+"/fleet/bundles/gateway/cache?compression=none", v2)
	declare("v2", v2, "closure: cache")
	said = publish("v2")
	if want := fmt.Sprintf("The server has %d of %d store paths; sending 2, 1.0 MiB", len(needs)+1, len(needs)+3); !strings.Contains(said, want) {
		t.Errorf("the second push said:\n%s", said)
	}
	runs(v2, "v1 switch\nv2 switch\n")
	for name := range hosts {
		log := string(testkit.Value(os.ReadFile(filepath.Join(s.dir, name+".log")))(t))
		if m := regexp.MustCompile(`fetching store paths.*paths=2.*bytes=(\d+)`).FindStringSubmatch(log); m == nil || len(m[1]) != len("1048576") {
			t.Errorf("%s fetched:\n%s", name, log)
		}
	}

	// What the folder of the release does not have and the server has need not travel again.
	testkit.Must(t, os.RemoveAll(filepath.Join(s.dir, "release", "nars")))
	out, _ := s.steady("release", "push", "release")
	if !strings.Contains(out, "unchanged") {
		t.Errorf("the push without archives: %s", out)
	}
	for _, p := range hosts {
		p.stop()
	}
	server.stop()
}

// launchAs starts a steady process of a site.
func launchAs(t *testing.T, s *site, name string, args ...string) *process {
	t.Helper()
	return launchProgramAs(t, s, name, testkit.Value(os.Executable())(t), args...)
}

func launchProgramAs(t *testing.T, s *site, name, program string, args ...string) *process {
	t.Helper()
	return launchCommand(t, s.dir, name, func(cmd *exec.Cmd) { cmd.Dir, cmd.Env = s.dir, s.env }, program, args...)
}
