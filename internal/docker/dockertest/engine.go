package dockertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/sandbox"
	"github.com/steadyfleet/steady/internal/testkit"
)

// timeout is how long an engine may take to come up or to go down.
const timeout = 3 * time.Minute

// Daemon is one engine in the hands of one test.
type Daemon struct {
	t testing.TB
	*daemon
}

// daemon is one engine with its client. The tests of a process share it.
type daemon struct {
	*sandbox.Engine
	private bool
	api     *client.Client
	busybox func() error // imports the image once
}

var (
	shared  = sync.OnceValues(func() (*daemon, error) { return launch(false) })
	counter atomic.Int64
)

// number gives each engine and registry of this process its own number.
func number() int { return int(counter.Add(1)) }

// Engine is the engine that all tests of this process share, with bridge
// networks and firewall rules. Do not break it: see Private.
func Engine(t testing.TB) *Daemon {
	t.Helper()
	require(t)
	e := testkit.Value(shared())(t)
	return &Daemon{t: t, daemon: e}
}

// Private is an engine of this test alone, to be stopped, killed and frozen. It
// has networks and publishes ports, but no firewall rules, which would be those
// of the shared engine: its networks reach each other.
func Private(t testing.TB) *Daemon {
	t.Helper()
	require(t)
	e := testkit.Value(launch(true))(t)
	t.Cleanup(func() { e.End(syscall.SIGKILL) })
	return &Daemon{t: t, daemon: e}
}

func require(t testing.TB) {
	t.Helper()
	testkit.Needs(t, Here)
	if outside != nil {
		t.Fatal(outside)
	}
}

func launch(private bool) (*daemon, error) {
	n := number()
	bridge, err := addBridge(n)
	if err != nil {
		return nil, err
	}
	flags := []string{
		"--default-address-pool", fmt.Sprintf("base=10.%d.0.0/16,size=24", 64+n%128),
		"--dns", nameServer, // see unknownNames
		"--bridge=" + bridge,
	}
	if private {
		flags = append(flags, "--iptables=false", "--ip-masq=false")
	}
	dir := filepath.Join(base, strconv.Itoa(n))
	e := &daemon{Engine: sandbox.NewEngine(dir, filepath.Join(dir, "data"), flags...), private: private}
	if e.api, err = client.New(client.WithHost("unix://" + e.Socket())); err != nil {
		return nil, err
	}
	e.busybox = sync.OnceValue(func() error { return importBusybox(e.api) })
	return e, e.Start(context.Background())
}

// addBridge makes the default bridge of an engine. Engines without one of their
// own would share docker0, and each removes it when it starts again.
func addBridge(n int) (string, error) {
	name := "bridge" + strconv.Itoa(n)
	for _, args := range [][]string{
		{"brctl", "addbr", name},
		{"ip", "addr", "add", fmt.Sprintf("10.%d.0.1/24", 192+n%60), "dev", name},
		{"ip", "link", "set", name, "up"},
	} {
		if err := busybox(args...); err != nil {
			return "", err
		}
	}
	return name, nil
}

func busybox(args ...string) error {
	if out, err := exec.Command("busybox", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("busybox %v: %w: %s", args, err, out)
	}
	return nil
}

// Client is a plain client of the engine, for set-up and for changes from outside.
func (e *daemon) Client() *client.Client { return e.api }

// Start starts the engine again after Kill or Shutdown, with its objects.
func (d *Daemon) Start() {
	d.t.Helper()
	d.requirePrivate("Start")
	testkit.Must(d.t, d.daemon.Start(context.Background()))
}

// Kill ends the engine at once. Containers go on.
func (d *Daemon) Kill() { d.t.Helper(); d.requirePrivate("Kill"); d.End(syscall.SIGKILL) }

// Shutdown ends the engine in good order. Containers stop.
func (d *Daemon) Shutdown() { d.t.Helper(); d.requirePrivate("Shutdown"); d.End(syscall.SIGTERM) }

// Restart ends the engine in good order and starts it again, as a reboot does: what an
// engine that was in a hurry left mounted is gone. One that finds it counts it as its own,
// and can never remove the container.
func (d *Daemon) Restart() {
	d.t.Helper()
	d.Shutdown()
	mounts := testkit.Value(os.ReadFile("/proc/self/mounts"))(d.t)
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if at := fields[1]; strings.HasPrefix(at, d.DataRoot()+"/") {
			testkit.Must(d.t, unix.Unmount(at, unix.MNT_DETACH))
		}
	}
	d.Start()
}

// Stop freezes the engine: it accepts connections and answers nothing.
func (d *Daemon) Stop() {
	d.t.Helper()
	d.signal("Stop", syscall.SIGSTOP)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !frozen(d.t, d.PID()) {
		<-tick.C
	}
}

// frozen reports that every thread of a process is stopped.
func frozen(t testing.TB, pid int) bool {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(tasks) == 0 {
		t.Fatalf("dockertest: no threads of process %d: %v", pid, err)
	}
	for _, task := range tasks {
		stat, err := os.ReadFile(task)
		if err != nil {
			continue // it ended meanwhile
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		if !strings.HasPrefix(after, "T") {
			return false
		}
	}
	return true
}

// Continue lets a frozen engine go on.
func (d *Daemon) Continue() { d.t.Helper(); d.signal("Continue", syscall.SIGCONT) }

func (d *Daemon) signal(call string, s syscall.Signal) {
	d.t.Helper()
	d.requirePrivate(call)
	if err := d.Signal(s); err != nil {
		d.t.Fatalf("dockertest: %s: %v", call, err)
	}
}

func (d *Daemon) requirePrivate(call string) {
	d.t.Helper()
	if !d.private {
		d.t.Fatalf("dockertest: %s would break the engine for other tests: use Private(t)", call)
	}
}
