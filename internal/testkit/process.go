package testkit

import (
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Process is a program that runs until it is killed, or the test ends.
type Process struct {
	cmd  *exec.Cmd
	kill func()
	mu   sync.Mutex
	out  []byte
	done chan struct{}
}

// shown is how much of what a program wrote is shown when the test fails, in bytes.
const shown = 8 << 10

// Start runs a program in a group of its own, which ends with the test.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = true, syscall.SIGKILL
	cmd.Stdout, cmd.Stderr = p, p
	cmd.WaitDelay = time.Second // a child that left the group may keep them open
	Must(t, cmd.Start())
	go func() { _ = cmd.Wait(); close(p.done) }() // how it ended is no concern: Running says whether it did
	p.kill = sync.OnceFunc(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
		<-p.done
	})
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			out := p.Output()
			t.Logf("%s wrote at the end:\n%s", cmd.Path, out[max(0, len(out)-shown):])
		}
	})
	return p
}

// Kill ends it at once, and returns when it has ended.
func (p *Process) Kill() { p.kill() }

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether it has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Write keeps what the program writes.
func (p *Process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = append(p.out, b...)
	return len(b), nil
}

// Output is what it wrote so far.
func (p *Process) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(p.out)
}
