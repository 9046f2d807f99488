package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	readyIn = 2 * time.Minute
	stopIn  = 30 * time.Second
	// tailLines is how much of a process's log is shown when it fails.
	tailLines = 12
)

// spawner starts processes from one thread that lives as long as it does: the
// kernel sends a child its parent-death signal when the thread that started it
// ends.
type spawner struct {
	jobs chan func()
	once sync.Once
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	s.jobs <- func() { done <- cmd.Start() }
	return <-done
}

// close ends the thread. Call it when every child has ended.
func (s *spawner) close() { s.once.Do(func() { close(s.jobs) }) }

// process is a child with its log.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string // file
	ready  chan string
	exited chan struct{}
	err    error // of Wait; read after exited
}

// spawn starts a child. Its stderr goes to the log, and so does its stdout, of
// which the first line that begins with "{" is its ready line.
func (s *spawner) spawn(name, log string, cmd *exec.Cmd) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	cmd.Stdout, cmd.Stderr = w, f
	cmd.SysProcAttr = childAttr()
	err = s.start(cmd)
	err = errors.Join(err, w.Close())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), r.Close(), f.Close())
	}
	p := &process{name: name, cmd: cmd, log: log, ready: make(chan string, 1), exited: make(chan struct{})}
	go p.follow(r, f)
	return p, nil
}

func (p *process) follow(r *os.File, f *os.File) {
	lines := bufio.NewReader(r)
	for announced := false; ; {
		line, err := lines.ReadString('\n')
		_, werr := io.WriteString(f, line)
		if !announced && strings.HasPrefix(line, "{") {
			announced = true
			p.ready <- line
		}
		if err != nil || werr != nil {
			break
		}
	}
	p.err = errors.Join(p.cmd.Wait(), r.Close(), f.Close())
	close(p.exited)
}

// waitReady returns the ready line.
func (p *process) waitReady(ctx context.Context) (string, error) {
	timeout := time.NewTimer(readyIn)
	defer timeout.Stop()
	select {
	case line := <-p.ready:
		return line, nil
	case <-p.exited:
		return "", p.failure("ended before it was ready")
	case <-timeout.C:
		return "", p.failure(fmt.Sprintf("was not ready within %s", readyIn))
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// failure says what went wrong with a process, with the end of its log.
func (p *process) failure(what string) error {
	select {
	case <-p.exited:
		if p.err != nil {
			what += " (" + p.err.Error() + ")"
		}
	default:
	}
	return fmt.Errorf("%s %s; the end of its log %s:\n%s", p.name, what, p.log, tail(p.log))
}

func tail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "  " + err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "  " + strings.Join(lines, "\n  ")
}

// stop ends the child and all that it started: kindly, then not.
func (p *process) stop() {
	signal := func(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) } // gone is fine
	signal(syscall.SIGTERM)
	timeout := time.NewTimer(stopIn)
	defer timeout.Stop()
	select {
	case <-p.exited:
	case <-timeout.C:
	}
	signal(syscall.SIGKILL)
	<-p.exited
}
