package daemon

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// nixStore is a store of the real Nix for one test.
type nixStore struct {
	t   testing.TB
	dir string
}

func newNixStore(t *testing.T) *nixStore {
	testkit.Needs(t, testkit.Nix)
	s := &nixStore{t, testkit.Value(filepath.EvalSymlinks(t.TempDir()))(t)}
	for _, name := range []string{"home", "store", "var", "log", "conf"} {
		testkit.Must(t, os.Mkdir(filepath.Join(s.dir, name), 0o755))
	}
	t.Setenv("HOME", filepath.Join(s.dir, "home"))
	t.Setenv("NIX_STORE_DIR", filepath.Join(s.dir, "store"))
	t.Setenv("NIX_STATE_DIR", filepath.Join(s.dir, "var"))
	t.Setenv("NIX_LOG_DIR", filepath.Join(s.dir, "log"))
	t.Setenv("NIX_CONF_DIR", filepath.Join(s.dir, "conf"))
	t.Setenv("NIX_REMOTE", "")
	testkit.Must(t, os.WriteFile(filepath.Join(s.dir, "conf", "nix.conf"), []byte("build-users-group =\nsandbox = false\nsubstituters =\n"), 0o644))
	t.Cleanup(func() { testkit.Must(t, exec.Command("chmod", "-R", "u+w", s.dir).Run()) }) // a store is read-only
	return s
}

func (s *nixStore) run(argv ...string) string {
	s.t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if err != nil {
		s.t.Fatalf("%s: %v: %s", argv, err, out)
	}
	return strings.TrimSpace(string(out))
}

// system builds a toy system: its switch writes down what it was asked for in the
// root folder of the host, and ends as the script says. It refers to another path.
func (s *nixStore) system(version, script string) string { return s.systemOf(version, script) }

// systemOf has parts too, each NAME=CONTENT or NAME=:SIZE.
func (s *nixStore) systemOf(version, script string, parts ...string) string {
	src := filepath.Join(s.t.TempDir(), "toy")
	testkit.Must(s.t, os.MkdirAll(filepath.Join(src, "bin"), 0o755))
	text := "#!/bin/sh\necho " + version + " $1 >> \"$STEADY_ROOT/switched\"\n" + script + "\n"
	testkit.Must(s.t, os.WriteFile(filepath.Join(src, "bin", "switch-to-configuration"), []byte(text), 0o755))
	for _, part := range parts {
		name, content, _ := strings.Cut(part, "=")
		file := filepath.Join(src, name)
		testkit.Must(s.t, os.MkdirAll(filepath.Dir(file), 0o755))
		testkit.Must(s.t, os.WriteFile(file, []byte(content), 0o644))
		if size, sized := strings.CutPrefix(content, ":"); sized {
			s.run("truncate", "-s", size, file)
		}
	}
	dep := s.run("nix-store", "--add", src)
	drv := s.run("nix-instantiate", "-E", fmt.Sprintf(`derivation { name = "toy-%s"; system = builtins.currentSystem;
		builder = "/bin/sh"; PATH = "/bin:/usr/bin"; dep = builtins.storePath %s; args = [ "-c" "mkdir $out; ln -s $dep/* $out/" ]; }`, version, dep))
	return s.run("nix-store", "--realise", drv)
}

func (s *nixStore) profile() string { return filepath.Join(s.dir, "profiles", "system") }

// at is the generation and the path that the profile points at.
func (s *nixStore) at() string {
	link, _ := os.Readlink(s.profile())
	return link + " " + testkit.Value(filepath.EvalSymlinks(s.profile()))(s.t)
}

func (s *nixStore) desired(path string) *fleet.Nix {
	return &fleet.Nix{Name: "system", Profile: s.profile(), Path: path, Running: filepath.Join(s.dir, "running"),
		Reboot: []int{fleet.DefaultNixReboot}, Timeout: 2 * clock.Minute}
}

// pack is a bundle with a Nix system, and its closure where one is given.
func (s *nixStore) pack(n *fleet.Nix, closure []byte) pack {
	p := newPack(s.t, "web", []file{{path: "a", content: n.Path}})
	if closure != nil {
		n.Closure = &spec.Blob{Digest: digest.Of(closure), Size: int64(len(closure))}
		p.blobs[n.Closure.Digest] = closure
	}
	p.bundle.Nix, p.bundle.NixModes = n, n.OwnModes()
	p.bundle.Critical = p.bundle.Criticals()
	p.raw = testkit.Value(trust.Canonical(p.bundle))(s.t)
	p.digest = digest.Of(p.raw)
	return p
}

func (b *box) runs(p pack) {
	b.t.Helper()
	testkit.Eventually(b.t, "bundle converged", func() bool {
		m := b.agent.Status().Machine
		return m.Current == p.digest && m.Phase == host.Converged
	})
}

// TestNixGenerations takes a host with the real Nix through what a system can do: a
// first switch, a second while the agent is away, a failing probe that goes back to
// the profile's generation, a failing switch, and one that needs a reboot.
func TestNixGenerations(t *testing.T) {
	nix := newNixStore(t)
	v1, v2 := nix.system("v1", "true"), nix.system("v2", `while [ ! -e "$STEADY_ROOT/go" ]; do sleep 0.02; done`)
	v3, bad := nix.system("v3", "touch $STEADY_ROOT/sick"), nix.system("bad", "echo units failed; exit 4")
	v4 := nix.system("v4", `if [ "$1" = switch ]; then exit 100; fi; echo kernel`)
	b := newBox(t, newServer(t), "web-1").start()

	// The first comes with the bundle: what the store has of it is collected.
	closure := []byte(nix.run("sh", "-c", "nix-store --export $(nix-store -qR "+v1+") | base64 -w0"))
	closure = testkit.Value(base64.StdEncoding.DecodeString(string(closure)))(t)
	nix.run("nix-store", "--delete", "--ignore-liveness", v1)
	one := nix.pack(nix.desired(v1), closure)
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.runs(one)
	b.want("switched", "v1 switch\n")

	// The agent stops while the second is switched, and finds it at the next start.
	two := nix.pack(nix.desired(v2), nil)
	b.roll(single("web-1", 2, "r2", two), "g2", two)
	testkit.Eventually(t, "the switch began", func() bool { return b.content("switched") == "v1 switch\nv2 switch\n" })
	b.stop()
	testkit.Must(t, os.WriteFile(b.root+"/go", nil, 0o644))
	b.start()
	b.runs(two)
	b.want("switched", "v1 switch\nv2 switch\n")
	if want := "system-2-link " + v2; nix.at() != want {
		t.Fatalf("the profile is at %s, expected %s", nix.at(), want)
	}

	// The probe of the third fails: back to generation 2 of the profile.
	three := nix.pack(nix.desired(v3), nil)
	p := single("web-1", 3, "r3", three)
	p.probes = []fleet.Probe{{Name: "well", Mode: fleet.Enforce, Interval: 50 * clock.Millisecond, Timeout: clock.Minute,
		Exec: &fleet.ExecProbe{Command: []string{"test", "!", "-e", "sick"}}}}
	p.soak, p.policy.SustainedFailure = clock.Hour, 100*clock.Millisecond
	b.roll(p, "g3", three)
	b.phase(host.Reverted)
	b.want("switched", "v1 switch\nv2 switch\nv3 switch\nv2 switch\n")
	if want := "system-2-link " + v2; nix.at() != want {
		t.Fatalf("after the revert the profile is at %s, expected %s", nix.at(), want)
	}

	// A switch that fails is a failed activation.
	four := nix.pack(nix.desired(bad), nil)
	b.roll(single("web-1", 4, "r4", four), "g4", four)
	testkit.Eventually(t, "the failed switch", func() bool {
		m := b.agent.Status().Machine
		return m.Phase == host.Reverted && m.Grant == "g4"
	})
	if m := b.agent.Status().Machine; m.Cause != host.ActivationFailedCause || !strings.Contains(m.Detail, "units failed") {
		t.Errorf("cause %s: %s", m.Cause, m.Detail)
	}
	if want := "system-2-link " + v2; nix.at() != want {
		t.Fatalf("after the failed switch the profile is at %s, expected %s", nix.at(), want)
	}

	// One that cannot be switched is staged, and runs after the granted reboot.
	five := nix.pack(nix.desired(v4), nil)
	b.roll(single("web-1", 5, "r5", five), "g5", five)
	b.phase(host.Deferred)
	if m := b.agent.Status().Machine; m.Detail != "kernel" {
		t.Errorf("waits for %+v", m)
	}
	b.s.grant("boot-1", host.Reboot)
	testkit.Eventually(t, "the reboot command", func() bool { return b.content("reboot") == "" && b.agent.Status().Machine.Reboot == "boot-1" })
	b.stop()
	b.clock.reboot("boot-2")
	testkit.Must(t, os.Symlink(v4, filepath.Join(nix.dir, "running")))
	b.start()
	b.runs(five)
	if log := b.content("switched"); !strings.HasSuffix(log, "v4 switch\nv4 boot\n") {
		t.Errorf("switched:\n%s", log)
	}
	if n := len(reported[event.GrantDeclined](b.s)); n != 0 {
		t.Errorf("%d grants were declined", n)
	}
}

// TestNixSwitchThatHangs is killed when its time is up, and a bundle whose system
// nobody has is declined before anything changes.
func TestNixSwitchThatHangs(t *testing.T) {
	nix := newNixStore(t)
	b := newBox(t, newServer(t), "web-1").start()
	lacks := nix.pack(nix.desired(filepath.Join(nix.dir, "store", strings.Repeat("a", 32)+"-gone")), nil)
	b.roll(single("web-1", 1, "r1", lacks), "g1", lacks)
	testkit.Eventually(t, "the grant declined", func() bool { return len(reported[event.GrantDeclined](b.s)) > 0 })
	b.want("a", gone)

	n := nix.desired(nix.system("slow", "exec sleep 600"))
	n.Timeout = 300 * clock.Millisecond
	slow := nix.pack(n, nil)
	b.roll(single("web-1", 2, "r2", slow), "g2", slow)
	b.phase(host.Reverted)
	if m := b.agent.Status().Machine; !strings.Contains(m.Detail, "it ran for longer than 300ms") {
		t.Errorf("cause %s: %s", m.Cause, m.Detail)
	}
}

// TestNixGoesBackAfterACollection: Nix's own collection of old generations while a system soaks does not take the one
// that the host goes back to. The store has no substituter: what is gone stays gone.
func TestNixGoesBackAfterACollection(t *testing.T) {
	nix := newNixStore(t)
	v1, v2 := nix.system("v1", "true"), nix.system("v2", "touch $STEADY_ROOT/soaks")
	b := newBox(t, newServer(t), "web-1").start()
	one, two := nix.pack(nix.desired(v1), nil), nix.pack(nix.desired(v2), nil)
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.runs(one)
	p := single("web-1", 2, "r2", two)
	p.probes = []fleet.Probe{{Name: "well", Mode: fleet.Enforce, Interval: 50 * clock.Millisecond, Timeout: clock.Minute,
		Exec: &fleet.ExecProbe{Command: []string{"test", "!", "-e", "sick"}}}}
	p.soak, p.policy.SustainedFailure = clock.Hour, 100*clock.Millisecond
	b.roll(p, "g2", two)
	b.phase(host.Soaking)
	nix.run("nix-env", "-p", nix.profile(), "--delete-generations", "old")
	nix.run("nix-store", "--gc")
	testkit.Must(t, os.WriteFile(filepath.Join(b.root, "sick"), nil, 0o644))
	b.phase(host.Reverted)
	if at := nix.at(); !strings.HasSuffix(at, " "+v1) {
		t.Errorf("the profile is at %s, expected %s", at, v1)
	}
	b.want("switched", "v1 switch\nv2 switch\nv1 switch\n")
}

// TestNixInhibitor: a switch that NixOS refuses since something cannot be changed while the system runs is staged for
// the next boot, as one that asks for a reboot by its exit code. Another check that fails fails the release.
func TestNixInhibitor(t *testing.T) {
	nix := newNixStore(t)
	const refuses = `if [ "$1" = switch ]; then echo "Pre-switch checks failed"; echo "Pre-switch check '%s' failed"; exit 1; fi`
	inhibited, broken := nix.system("v1", fmt.Sprintf(refuses, "switchInhibitors")), nix.system("v2", fmt.Sprintf(refuses, "quota"))
	b := newBox(t, newServer(t), "web-1").start()
	two := nix.pack(nix.desired(broken), nil)
	b.roll(single("web-1", 1, "r1", two), "g1", two)
	b.phase(host.Reverted)
	one := nix.pack(nix.desired(inhibited), nil)
	b.roll(single("web-1", 2, "r2", one), "g2", one)
	b.phase(host.Deferred)
	if log := b.content("switched"); !strings.HasSuffix(log, "v1 switch\nv1 boot\n") {
		t.Errorf("switched:\n%s", log)
	}
}
