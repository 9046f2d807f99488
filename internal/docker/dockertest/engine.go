package dockertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/need"
)

// patience is how long an engine may take to come up or to go down.
const patience = 3 * time.Minute

// Daemon is one engine in the hands of one test.
type Daemon struct {
	t testing.TB
	*engine
}

// engine is one dockerd and its folder. The tests of a process share it.
type engine struct {
	dir     string
	args    []string
	private bool
	api     *client.Client

	mu   sync.Mutex
	cmd  *exec.Cmd
	dead chan struct{} // closed when cmd has ended

	busybox func() error // imports the image once
}

var (
	shared  = sync.OnceValues(func() (*engine, error) { return launch(false) })
	counter struct {
		sync.Mutex
		n int
	}
)

// number gives each engine and registry of this process its own number.
func number() int {
	counter.Lock()
	defer counter.Unlock()
	counter.n++
	return counter.n
}

// Engine is the engine that all tests of this process share, with bridge
// networks and firewall rules. Do not break it: see Private.
func Engine(t testing.TB) *Daemon {
	t.Helper()
	require(t)
	e, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return &Daemon{t: t, engine: e}
}

// Private is an engine of this test alone, to be stopped, killed and frozen. It
// has networks and publishes ports, but no firewall rules, which would be those
// of the shared engine: its networks reach each other.
func Private(t testing.TB) *Daemon {
	t.Helper()
	require(t)
	e, err := launch(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.kill() })
	return &Daemon{t: t, engine: e}
}

// require leaves the test out when this machine cannot run an engine, and with
// -short: engines take their time, many times as much under the race detector.
func require(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("an engine takes its time; run without -short")
	}
	need.Root(t, "a container engine needs root")
	for _, name := range []string{"dockerd", "containerd", "runc", "iptables", "busybox"} {
		need.Command(t, name, Install)
	}
	if outside != nil {
		if errors.Is(outside, errNotCalled) {
			t.Fatal(outside)
		}
		need.Missing(t, outside.Error())
	}
}

func launch(private bool) (*engine, error) {
	n := number()
	e := &engine{dir: filepath.Join(base, strconv.Itoa(n)), private: private}
	if err := os.MkdirAll(e.dir, 0o755); err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{"deprecated-key-path": filepath.Join(e.dir, "key.json")})
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(e.dir, "daemon.json"), config, 0o644); err != nil {
		return nil, err
	}
	e.args = []string{
		"--config-file", filepath.Join(e.dir, "daemon.json"),
		"--data-root", filepath.Join(e.dir, "data"),
		"--exec-root", filepath.Join(e.dir, "exec"),
		"--pidfile", filepath.Join(e.dir, "pid"),
		"--host", e.url(),
		"--storage-driver", StorageDriver(),
		"--default-address-pool", fmt.Sprintf("base=10.%d.0.0/16,size=24", 64+n%128),
		"--shutdown-timeout", "1",
		"--dns", nameServer, // see unknownNames
	}
	bridge, err := addBridge(n)
	if err != nil {
		return nil, err
	}
	e.args = append(e.args, "--bridge="+bridge)
	if private {
		e.args = append(e.args, "--iptables=false", "--ip-masq=false")
	}
	if e.api, err = client.New(client.WithHost(e.url())); err != nil {
		return nil, err
	}
	e.busybox = sync.OnceValue(func() error { return importBusybox(e.api) })
	return e, e.start()
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
		if out, err := exec.Command("busybox", args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("busybox %v: %w: %s", args, err, out)
		}
	}
	return name, nil
}

func (e *engine) url() string { return "unix://" + e.Socket() }

// Socket is the path of the engine's unix socket.
func (e *engine) Socket() string { return filepath.Join(e.dir, "docker.sock") }

// Client is a plain client of the engine, for set-up and for changes from outside.
func (e *engine) Client() *client.Client { return e.api }

// DataRoot is the folder of images, containers and volumes.
func (e *engine) DataRoot() string { return filepath.Join(e.dir, "data") }

// LogFile is what the engine prints.
func (e *engine) LogFile() string { return filepath.Join(e.dir, "log") }

// PID is the process of the engine, 0 while there is none.
func (e *engine) PID() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cmd == nil {
		return 0
	}
	return e.cmd.Process.Pid
}

func (e *engine) start() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cmd != nil {
		return nil
	}
	log, err := os.OpenFile(e.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("dockerd", e.args...)
	// Each start of a container runs a dozen short Go programs, dockerd itself among
	// them: collecting their garbage is a seventh of what they cost.
	cmd.Env = append(os.Environ(), "GOGC=400")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		_ = cmd.Wait() // how it ended is in its log
	}()
	if err := e.await(dead); err != nil {
		_ = cmd.Process.Kill()
		<-dead
		tail, _ := os.ReadFile(e.LogFile())
		return fmt.Errorf("start dockerd: %w; it printed:\n%s", err, tail[max(0, len(tail)-4000):])
	}
	e.cmd, e.dead = cmd, dead
	return nil
}

// await waits for the first answer of the engine.
func (e *engine) await(dead <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := e.api.Ping(ctx, client.PingOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-dead:
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("it did not come up within %s: %w", patience, err)
		case <-tick.C:
		}
	}
}

func (e *engine) end(s syscall.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cmd == nil {
		return
	}
	_ = e.cmd.Process.Signal(s) // it may have ended by itself
	select {
	case <-e.dead:
	case <-time.After(patience):
		_ = e.cmd.Process.Kill()
		<-e.dead
	}
	e.cmd = nil
}

func (e *engine) kill() { e.end(syscall.SIGKILL) }

// Start starts the engine again after Kill or Shutdown, with its objects.
func (d *Daemon) Start() {
	d.t.Helper()
	d.own("Start")
	if err := d.start(); err != nil {
		d.t.Fatal(err)
	}
}

// Kill ends the engine at once. Containers go on.
func (d *Daemon) Kill() { d.t.Helper(); d.own("Kill"); d.kill() }

// Shutdown ends the engine in good order. Containers stop.
func (d *Daemon) Shutdown() { d.t.Helper(); d.own("Shutdown"); d.end(syscall.SIGTERM) }

// Restart ends the engine in good order and starts it again.
func (d *Daemon) Restart() { d.t.Helper(); d.Shutdown(); d.Start() }

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
	d.own(call)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil {
		d.t.Fatalf("dockertest: %s of an engine that does not run", call)
	}
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatalf("dockertest: %s: %v", call, err)
	}
}

func (d *Daemon) own(call string) {
	d.t.Helper()
	if !d.private {
		d.t.Fatalf("dockertest: %s would break the engine for other tests: use Private(t)", call)
	}
}
