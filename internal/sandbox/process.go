package sandbox

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
	"syscall"
	"time"
)

// tailLines is how much of a process's log is shown when it fails.
const tailLines = 12

// Process is a child with a log. It leads a process group of its own, so that Ctrl-C
// reaches only this program, and where the kernel can it ends with this program.
type Process struct {
	Exited <-chan struct{} // closed when the child has ended and all of its output is in the log

	name  string
	log   string // file
	cmd   *exec.Cmd
	ready chan string
	err   error // of Wait; read after Exited
}

// Start starts a child. Its output is appended to the log, a file. The first line of
// its stdout that begins with "{" is its ready line, see WaitReady. A stdout that is
// set already stays as it is.
func Start(name, log string, cmd *exec.Cmd) (*Process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if cmd.Stdout == nil {
		cmd.Stdout = w
	}
	cmd.Stderr, cmd.SysProcAttr = f, childAttr()
	exited, started := make(chan struct{}), make(chan error, 1)
	p := &Process{Exited: exited, name: name, log: log, cmd: cmd, ready: make(chan string, 1)}
	go func() {
		defer close(exited)
		// The child dies with the thread that started it: keep the thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := errors.Join(cmd.Start(), w.Close())
		started <- err
		if err == nil {
			p.follow(r, f)
			err = cmd.Wait()
		}
		p.err = errors.Join(err, r.Close(), f.Close())
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

func (p *Process) follow(r io.Reader, log io.Writer) {
	lines := bufio.NewReader(r)
	for ready := false; ; {
		line, err := lines.ReadString('\n')
		_, werr := io.WriteString(log, line)
		if !ready && strings.HasPrefix(line, "{") {
			ready = true
			p.ready <- line
		}
		if err != nil || werr != nil {
			return
		}
	}
}

// WaitReady returns the ready line.
func (p *Process) WaitReady(ctx context.Context, within time.Duration) (string, error) {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case line := <-p.ready:
		return line, nil
	case <-p.Exited:
		if len(p.ready) > 0 {
			return <-p.ready, nil
		}
		return "", p.Failure("ended before it was ready")
	case <-timeout.C:
		return "", p.Failure(fmt.Sprintf("was not ready within %s", within))
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Failure is an error of what the process did, with the end of its log.
func (p *Process) Failure(what string) error {
	select {
	case <-p.Exited:
		if p.err != nil {
			what += " (" + p.err.Error() + ")"
		}
	default:
	}
	return fmt.Errorf("%s %s; the end of its log %s:\n%s", p.name, what, p.log, p.Tail())
}

// Tail is the end of the log, indented.
func (p *Process) Tail() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return "  " + err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-tailLines):], "\n  ")
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// End sends a signal to the child alone and waits until it has ended, with SIGKILL
// after a time. What the child started may live on.
func (p *Process) End(s syscall.Signal, within time.Duration) {
	p.end(func(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }, s, within) // gone is fine
}

// Stop ends the child and all of its process group: in good order within a time, else
// at once.
func (p *Process) Stop(within time.Duration) {
	p.end(func(s syscall.Signal) { _ = syscall.Kill(-p.PID(), s) }, syscall.SIGTERM, within) // gone is fine
}

func (p *Process) end(send func(syscall.Signal), s syscall.Signal, within time.Duration) {
	send(s)
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	select {
	case <-p.Exited:
	case <-timeout.C:
	}
	send(syscall.SIGKILL)
	<-p.Exited
}
