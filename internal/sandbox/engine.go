package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/client"
)

// timeout is how long an engine may take to come up or to go down.
const timeout = 3 * time.Minute

// Engine is a dockerd inside. It can be ended and started again with its objects.
type Engine struct {
	dir, data string
	flags     []string

	mu      sync.Mutex
	process *Process // nil while there is none
}

// NewEngine is an engine, not started yet, that keeps its objects in the folder data,
// and its socket, log and locks in the folder dir, whose path has to be short. Flags
// are given to dockerd after those that keep it away from everything else.
func NewEngine(dir, data string, flags ...string) *Engine {
	return &Engine{dir: dir, data: data, flags: flags}
}

// Socket is the path of the engine's unix socket.
func (e *Engine) Socket() string { return filepath.Join(e.dir, "docker.sock") }

// DataRoot is the folder of images, containers and volumes.
func (e *Engine) DataRoot() string { return e.data }

// LogFile is what the engine prints.
func (e *Engine) LogFile() string { return filepath.Join(e.dir, "log") }

// Start starts the engine if it does not run, and waits for its first answer.
func (e *Engine) Start(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process != nil {
		return nil
	}
	for _, dir := range []string{e.dir, e.data} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	config := filepath.Join(e.dir, "daemon.json")
	if err := os.WriteFile(config, fmt.Appendf(nil, "{%q: %q}\n", "deprecated-key-path", filepath.Join(e.dir, "key.json")), 0o644); err != nil {
		return err
	}
	cmd := exec.Command("dockerd", append([]string{
		"--config-file", config,
		"--data-root", e.data,
		"--exec-root", filepath.Join(e.dir, "exec"),
		"--pidfile", filepath.Join(e.dir, "pid"),
		"--host", "unix://" + e.Socket(),
		"--storage-driver", StorageDriver(e.data),
		"--shutdown-timeout", "1",
	}, e.flags...)...)
	// Each start of a container runs a dozen short Go programs, dockerd itself among
	// them: collecting their garbage is a seventh of what they cost.
	cmd.Env = append(os.Environ(), "GOGC=400")
	// What it starts outlives it with its output, for whose end nobody must wait.
	log, err := os.OpenFile(e.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout = log
	p, err := Start("dockerd", e.LogFile(), cmd)
	if err != nil {
		return err
	}
	if err := e.await(ctx, p); err != nil {
		p.End(syscall.SIGTERM, timeout)
		return err
	}
	e.process = p
	return nil
}

// await waits for the first answer.
func (e *Engine) await(ctx context.Context, p *Process) error {
	api, err := client.New(client.WithHost("unix://" + e.Socket()))
	if err != nil {
		return err
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := api.Ping(ctx, client.PingOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-p.Exited:
			return p.Failure("ended before it answered")
		case <-ctx.Done():
			return errors.Join(ctx.Err(), p.Failure(fmt.Sprintf("did not answer within %s: %v", timeout, err)))
		case <-tick.C:
		}
	}
}

// PID is the process of the engine, 0 while there is none.
func (e *Engine) PID() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process == nil {
		return 0
	}
	return e.process.PID()
}

// Signal sends a signal to the engine.
func (e *Engine) Signal(s syscall.Signal) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process == nil {
		return errors.New("the engine does not run")
	}
	return e.process.cmd.Process.Signal(s)
}

// End ends the engine with a signal: SIGTERM stops its containers, they outlive SIGKILL.
func (e *Engine) End(s syscall.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process != nil {
		e.process.End(s, timeout)
		e.process = nil
	}
}
