package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
)

const (
	// DefaultTimeout is for commands that declare none.
	DefaultTimeout = 60 * clock.Second
	// MaxTimeout bounds what a step may ask for.
	MaxTimeout = clock.Hour
	// MaxTail bounds the output that is kept of a command, in bytes.
	MaxTail = 4 << 10
)

// Command is a program to run without a shell.
type Command struct {
	Argv    []string
	Dir     string
	Env     []string
	Timeout clock.Duration // zero takes DefaultTimeout
	Stdin   io.Reader      // nil is empty
	Stdout  io.Writer      // gets what it prints; nil leaves that to the tail of its output
}

// Outcome is how a command that could be started ended.
type Outcome struct {
	ExitCode int    // -1 if it was killed
	TimedOut bool   // its time was up and its process group was killed
	Tail     string // the end of its output, control characters removed
}

// OK reports whether the command exited with code 0 in time.
func (o Outcome) OK() bool { return o.ExitCode == 0 && !o.TimedOut }

// String reports how it ended, with the last output.
func (o Outcome) String() string {
	s := fmt.Sprintf("exit code %d", o.ExitCode)
	switch {
	case o.TimedOut:
		s = "killed when its time was up"
	case o.ExitCode < 0:
		s = "killed"
	}
	if o.Tail == "" {
		return s
	}
	return s + ": " + o.Tail
}

// Run runs a command in a process group of its own. When its time is up, ctx
// ends, or this process is killed, it is killed; in the first two cases with
// all of its group. What it leaves in the background when it exits by itself
// goes on. The error means that it could not be started or that ctx ended.
func Run(ctx context.Context, c Command) (Outcome, error) {
	if len(c.Argv) == 0 {
		return Outcome{}, errors.New("there is no command")
	}
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	timed, cancel := context.WithTimeout(ctx, min(timeout, MaxTimeout).Std())
	defer cancel()
	cmd := exec.CommandContext(timed, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdin = c.Dir, c.Env, c.Stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	if err := cmd.Start(); err != nil {
		return Outcome{}, fmt.Errorf("start %s: %w", c.Argv[0], err)
	}
	spareNone(cmd.Process.Pid)
	err := cmd.Wait()
	o := Outcome{ExitCode: cmd.ProcessState.ExitCode(), Tail: Scrub(string(out.b), MaxTail)}
	if ctx.Err() != nil {
		return o, fmt.Errorf("%s was killed: %w", c.Argv[0], context.Cause(ctx))
	}
	o.TimedOut = timed.Err() != nil && o.ExitCode != 0
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) && !o.TimedOut {
		return o, fmt.Errorf("wait for %s: %w", c.Argv[0], err)
	}
	return o, nil
}

// spareNone has a process killed for lack of memory like any other: what a step leaves running is not the agent,
// whose unit spares it. It is of no matter where the kernel or a container does not let the agent.
func spareNone(pid int) {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("0"), 0)
}

// tail keeps the last MaxTail bytes.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > MaxTail {
		p = p[n-MaxTail:]
	}
	t.b = append(t.b, p...)
	if over := len(t.b) - MaxTail; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return n, nil
}

// Scrub makes foreign text fit for logs and events: valid UTF-8 without control
// characters other than newline and tab, and its last limit bytes.
func Scrub(s string, limit int) string {
	s = strings.TrimSpace(prose.Lines(s))
	if len(s) > limit {
		s = s[len(s)-limit:]
		for len(s) > 0 && !utf8.RuneStart(s[0]) {
			s = s[1:]
		}
	}
	return s
}
