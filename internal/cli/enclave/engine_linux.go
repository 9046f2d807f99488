package enclave

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/docker/daemon"
)

// Bounds of the engine's start and end.
const (
	upIn   = 3 * time.Minute
	downIn = time.Minute
)

// Engine is a dockerd inside.
type Engine struct {
	Socket string // unix:// URL
	cmd    *exec.Cmd
	log    string
	dead   chan struct{}
}

// Start starts an engine that keeps its data below dir. Call it inside only.
func Start(ctx context.Context, dir string) (*Engine, error) {
	if !Inside() {
		return nil, errors.New("an engine of its own starts inside of an enclave only")
	}
	for _, d := range []string{base, dir} {
		if err := os.MkdirAll(d, 0o711); err != nil {
			return nil, err
		}
	}
	config := filepath.Join(dir, "daemon.json")
	if err := os.WriteFile(config, []byte(fmt.Sprintf("{%q: %q}\n", "deprecated-key-path", filepath.Join(dir, "key.json"))), 0o600); err != nil {
		return nil, err
	}
	e := &Engine{Socket: "unix://" + base + "/docker.sock", log: filepath.Join(dir, "log"), dead: make(chan struct{})}
	log, err := os.OpenFile(e.log, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	e.cmd = exec.Command("dockerd",
		"--config-file", config,
		"--data-root", filepath.Join(dir, "data"),
		"--exec-root", filepath.Join(base, "exec"),
		"--pidfile", filepath.Join(base, "dockerd.pid"),
		"--host", e.Socket,
		"--storage-driver", storageDriver(dir),
		"--shutdown-timeout", "1")
	e.cmd.Stdout, e.cmd.Stderr = log, log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the demonstration
	if err := e.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start dockerd: %w", err)
	}
	go func() {
		defer close(e.dead)
		_ = e.cmd.Wait() // how it ended is in its log
	}()
	if err := e.await(ctx); err != nil {
		said, _ := os.ReadFile(e.log) // none is shown as none
		return nil, errors.Join(fmt.Errorf("start dockerd: %w; it printed:\n%s", err, said[max(0, len(said)-2000):]), e.Stop())
	}
	return e, nil
}

// storageDriver is overlay2 where an overlay can be mounted on dir, which it cannot
// on another overlay, such as in a container. Copies (vfs) work everywhere.
func storageDriver(dir string) string {
	try, err := os.MkdirTemp(dir, "overlay-")
	if err != nil {
		return "vfs"
	}
	defer os.RemoveAll(try)
	for _, d := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(try, d), 0o700); err != nil {
			return "vfs"
		}
	}
	merged := filepath.Join(try, "merged")
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", try)
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		return "vfs"
	}
	if err := unix.Unmount(merged, 0); err != nil {
		return "vfs"
	}
	return "overlay2"
}

// await waits for the first answer.
func (e *Engine) await(ctx context.Context) error {
	api, err := daemon.Open(daemon.Options{Socket: e.Socket})
	if err != nil {
		return err
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, upIn)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := api.Ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-e.dead:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("it did not answer within %s: %w", upIn, err)
		case <-tick.C:
		}
	}
}

// Stop ends the engine, in good order if it takes no longer than a minute.
func (e *Engine) Stop() error {
	_ = e.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	timeout := time.NewTimer(downIn)
	defer timeout.Stop()
	select {
	case <-e.dead:
		return nil
	case <-timeout.C:
		err := e.cmd.Process.Kill()
		<-e.dead
		return err
	}
}
