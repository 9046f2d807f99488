package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/testkit"
)

// machine is a container in which systemd runs as on a machine of its own, on this machine's files: what it writes
// goes into memory and outlives its reboots.
type machine struct {
	t      *testing.T
	dir    string // of its log
	root   string // its /
	group  string // the name of its control groups
	cmd    *exec.Cmd
	exited chan error
	leader string // its first process
}

// controlGroups are where nspawn may make groups, on whatever this machine has mounted.
var controlGroups = []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"}

// newMachine lays this machine's files below others that can be written, without the services that it starts.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir(), group: "steady-test-" + rand.Text()}
	above := filepath.Join(m.dir, "above")
	m.root = filepath.Join(m.dir, "root")
	for _, d := range []string{above, m.root} {
		testkit.Must(t, os.Mkdir(d, 0o755))
	}
	testkit.Must(t, unix.Mount("tmpfs", above, "tmpfs", 0, ""))
	t.Cleanup(func() { testkit.Must(t, unix.Unmount(above, unix.MNT_DETACH)) })
	for _, d := range []string{"upper", "work"} {
		testkit.Must(t, os.Mkdir(filepath.Join(above, d), 0o755))
	}
	testkit.Must(t, unix.Mount("overlay", m.root, "overlay", 0, "lowerdir=/,upperdir="+above+"/upper,workdir="+above+"/work"))
	t.Cleanup(func() { testkit.Must(t, unix.Unmount(m.root, unix.MNT_DETACH)) })
	for _, pattern := range []string{"etc/systemd/system/*", "etc/machine-id", "usr/local/bin/steady*", "var/lib/steady*", "etc/fstab"} {
		for _, path := range testkit.Value(filepath.Glob(filepath.Join(m.root, pattern)))(t) {
			testkit.Must(t, os.RemoveAll(path))
		}
	}
	testkit.Must(t, os.WriteFile(filepath.Join(m.root, "etc/machine-id"), nil, 0o644))
	t.Cleanup(m.off)
	return m
}

// boot starts it and waits until systemd has started all.
func (m *machine) boot() {
	m.t.Helper()
	log := testkit.Value(os.OpenFile(filepath.Join(m.dir, "console"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644))(m.t)
	defer log.Close()
	script := fmt.Sprintf(`for at in %s; do if [ -e $at/cgroup.procs ]; then mkdir -p $at/%s; echo $$ >$at/%[2]s/cgroup.procs; fi; done
exec systemd-nspawn --quiet --boot --register=no --keep-unit --console=pipe --link-journal=no --resolv-conf=off --timezone=off --directory %s`,
		strings.Join(controlGroups, " "), m.group, m.root)
	m.cmd = exec.Command("sh", "-c", script)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	testkit.Must(m.t, m.cmd.Start())
	m.exited = make(chan error, 1)
	go func(cmd *exec.Cmd, exited chan error) { exited <- cmd.Wait() }(m.cmd, m.exited)
	var state, jobs string
	defer func() {
		if m.t.Failed() {
			m.t.Logf("systemd: %s\n%s", state, jobs)
		}
	}()
	m.until("systemd to have started all", func() bool {
		if m.leader = m.first(); m.leader == "" {
			return false
		}
		state, _ = m.try("systemctl", "is-system-running")
		jobs, _ = m.try("systemctl", "list-jobs", "--no-pager")
		return strings.HasPrefix(state, "running") || strings.HasPrefix(state, "degraded")
	})
}

// first is the first process of the machine, once it is systemd: before, what nspawn and the shell that starts it
// need on their way is their child.
func (m *machine) first() string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", m.cmd.Process.Pid))
	for _, pid := range strings.Fields(string(raw)) {
		if comm, err := os.ReadFile("/proc/" + pid + "/comm"); err == nil && strings.TrimSpace(string(comm)) == "systemd" {
			return pid
		}
	}
	return ""
}

// until waits, and ends the test with what the console shows where the machine ends.
func (m *machine) until(what string, there func() bool) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); !there(); {
		select {
		case err := <-m.exited:
			m.exited <- err
			m.t.Fatalf("the machine ended before: %s: %v\n%s", what, err, m.console())
		case <-ctx.Done():
			m.t.Fatalf("waited in vain for: %s\n%s", what, m.console())
		case <-tick.C:
		}
	}
}

func (m *machine) console() string {
	raw, err := os.ReadFile(filepath.Join(m.dir, "console"))
	return fmt.Sprintf("%s%v", raw, err)
}

// try runs a command in the machine.
func (m *machine) try(command ...string) (string, error) {
	out, err := exec.CommandContext(m.t.Context(), "nsenter", append([]string{"--target", m.leader, "--all", "--wdns=/"}, command...)...).CombinedOutput()
	return string(out), err
}

func (m *machine) run(command ...string) string {
	m.t.Helper()
	out, err := m.try(command...)
	if err != nil {
		journal, _ := m.try("journalctl", "--no-pager", "-n", "50", "-u", "steady-agent")
		m.t.Fatalf("%s: %v\n%s\n%s", strings.Join(command, " "), err, out, journal)
	}
	return out
}

// reboot has systemd in it reboot, as the command of an agent does.
func (m *machine) reboot() {
	m.t.Helper()
	_, _ = m.try("systemctl", "reboot") // it may be gone before it answers
	const rebooted = 133                // what nspawn ends with then, with --keep-unit
	err := <-m.exited
	m.exited <- err
	if e, is := errors.AsType[*exec.ExitError](err); !is || e.ExitCode() != rebooted {
		m.t.Fatalf("the machine did not reboot: %v\n%s", err, m.console())
	}
	m.boot()
}

// off ends it as a power cut does.
func (m *machine) off() {
	if m.cmd == nil {
		return
	}
	if pid, err := strconv.Atoi(m.first()); err == nil {
		_ = unix.Kill(pid, unix.SIGKILL) // all that runs there ends with it
	}
	_ = m.cmd.Process.Kill()
	<-m.exited
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); !m.ungrouped(); {
		select {
		case <-ctx.Done():
			m.t.Errorf("control groups of %s are left", m.group)
			return
		case <-tick.C: // processes are still ending
		}
	}
}

// ungrouped removes the machine's control groups, and reports whether none is left.
func (m *machine) ungrouped() bool {
	all := true
	for _, at := range controlGroups {
		var groups []string
		_ = filepath.WalkDir(filepath.Join(at, m.group), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				groups = append(groups, path)
			}
			return nil
		})
		for _, path := range slices.Backward(groups) {
			all = os.Remove(path) == nil && all
		}
	}
	return all
}

// TestInstallUnderSystemd: a host is installed in a real systemd, comes back by itself after a reboot, and is upgraded to
// the other program without a token, with its flags; every time it takes a release.
func TestInstallUnderSystemd(t *testing.T) {
	testkit.Only(t, testkit.Nightly(), "boots a machine: STEADY_NIGHTLY=1")
	testkit.Needs(t, testkit.Root, testkit.Tmpfs, testkit.Nspawn)
	m := newMachine(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(m.root, "root")+"/", "./cmd/steady", "./cmd/steady-agent")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	y := newYard(t, testkit.Value(os.Executable())(t))
	version := 0
	release := func() {
		t.Helper()
		version++
		ref := fmt.Sprintf("v%d", version)
		y.push(y.estate.release(ref, declare{"fleet.yaml": compatFleet("box-1"), "bundles/web/bundle.yaml": fmt.Sprintf("files:\n  - {path: srv/web/index.html, content: %q}\n", ref)}))
		for !y.follow("stable@"+ref, 1) {
		}
		if got := testkit.Value(os.ReadFile(filepath.Join(m.root, "srv/web/index.html")))(t); string(got) != ref {
			t.Errorf("the file of release %s is %q", ref, got)
		}
	}
	has := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("there is no %q in\n%s", w, out)
			}
		}
	}

	m.boot()
	token := y.estate.token("box-1", y.where.Server, []byte(readContext(t, y.where.Context).CA))
	testkit.Must(t, os.WriteFile(filepath.Join(m.root, "root/box-1.token"), []byte(token), 0o600))
	has(m.run("/root/steady-agent", "install", "/root/box-1.token", "--", "--http", "127.0.0.1:28580", "--engine", "none"),
		"enrolled as incarnation 1", "systemctl enable steady-agent.service", "systemctl restart steady-agent.service", "The agent runs")
	release()

	m.reboot()
	has(m.run("systemctl", "is-active", "steady-agent"), "active")
	release()

	has(m.run("/root/steady", "agent", "install"), "Host box-1 of fleet "+fleetName+", enrolled", "kept; no token is needed",
		"flags kept: --engine none, --http 127.0.0.1:28580", "systemctl restart steady-agent.service", "removed   /usr/local/bin/steady-agent")
	has(m.run("systemctl", "show", "--property", "ExecStart", "steady-agent"), "/usr/local/bin/steady agent --state /var/lib/steady --root / --http 127.0.0.1:28580 --engine none")
	release()

	m.reboot()
	has(m.run("systemctl", "is-active", "steady-agent"), "active")
	release()
	has(m.run("/usr/local/bin/steady", "agent", "install"), "program   /usr/local/bin/steady: this one", "systemctl start steady-agent.service")

	m.run("/usr/local/bin/steady", "agent", "uninstall")
	if out, err := m.try("systemctl", "is-active", "steady-agent"); err == nil {
		t.Errorf("after its removal the service is %s", out)
	}
	has(m.run("ls", "/usr/local/bin", "/var/lib/steady"), "agent.db")

	// The token is used up: what an installation began is gone again.
	m.run("/root/steady", "agent", "uninstall", "--purge")
	out, err := m.try("/root/steady", "agent", "install", "/root/box-1.token")
	if err == nil {
		t.Errorf("a token was used twice:\n%s", out)
	}
	has(out, "systemctl enable steady-agent.service", "the token was used already", "systemctl disable --now steady-agent.service")
	if out, err := m.try("systemctl", "cat", "steady-agent"); err == nil {
		t.Errorf("the refused installation left\n%s", out)
	}
	if out, err := m.try("ls", "/var/lib/steady"); err == nil {
		t.Errorf("the refused installation left %s", out)
	}
}
