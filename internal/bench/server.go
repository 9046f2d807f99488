package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
)

const (
	readyIn = time.Minute
	stopIn  = time.Minute
)

// server is the server under test, in a process of its own.
type server struct {
	cmd    *exec.Cmd
	log    string // file
	url    string // for agents
	ca     []byte // PEM
	op     *operator.Client
	ended  chan struct{}
	result error // of Wait, after ended
}

// ready is the line that says where a server listens.
type ready struct {
	Ready   bool   `json:"ready"`
	Server  string `json:"server"`
	Context string `json:"context"`
}

// startServer runs `exe server` and waits until it listens. Ending ctx stops
// it; the caller must wait for ended.
func startServer(ctx context.Context, exe, dir, rootFile string) (*server, error) {
	s := &server{log: filepath.Join(dir, "server.log"), ended: make(chan struct{})}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own
	s.cmd = exec.CommandContext(ctx, exe, "server", "--data", filepath.Join(dir, "server"), "--root", rootFile,
		"--listen", "127.0.0.1:0", "--log-level", "warn", "-o", "json")
	s.cmd.Stderr = log
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	s.cmd.WaitDelay = stopIn
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	first := make(chan string, 1)
	go func() {
		r := bufio.NewReader(out)
		line, err := r.ReadString('\n')
		if err == nil {
			first <- line
		}
		_, _ = io.Copy(io.Discard, r) // so that it never blocks on its output
		s.result = s.cmd.Wait()
		close(s.ended)
	}()
	timer := time.NewTimer(readyIn)
	defer timer.Stop()
	select {
	case line := <-first:
		err = s.connect(line)
	case <-s.ended:
		return nil, s.why()
	case <-timer.C:
		err = fmt.Errorf("the server was not ready within %s", readyIn)
	}
	if err != nil {
		return nil, errors.Join(err, s.cmd.Process.Kill())
	}
	return s, nil
}

func (s *server) connect(line string) error {
	var r ready
	if err := json.Unmarshal([]byte(line), &r); err != nil || !r.Ready {
		return fmt.Errorf("the server began with %q instead of the line that it is ready", strings.TrimSpace(line))
	}
	raw, err := os.ReadFile(r.Context)
	if err != nil {
		return fmt.Errorf("the server's operator context: %w", err)
	}
	var c struct{ Server, Token, CA string }
	if err := json.Unmarshal(raw, &c); err != nil {
		return fmt.Errorf("the server's operator context: %w", err)
	}
	s.url, s.ca = r.Server, []byte(c.CA)
	s.op, err = operator.NewClient(operator.Options{URL: c.Server, Token: c.Token, ServerCA: s.ca})
	return err
}

// why says how the server ended, with the end of its log.
func (s *server) why() error {
	tail := ""
	if raw, err := os.ReadFile(s.log); err == nil {
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		tail = strings.Join(lines[max(0, len(lines)-5):], "\n")
	}
	return fmt.Errorf("the server ended early (%v); the end of %s:\n%s", s.result, s.log, tail)
}

func (s *server) pid() int { return s.cmd.Process.Pid }

// askEvery is how often the server is asked whether a rollout has ended, once
// every host has converged. The log itself says when it did.
const askEvery = 10 * time.Millisecond

// terminal waits until a rollout is terminal and returns when the log says it was.
func (s *server) terminal(ctx context.Context, rollout string, limit time.Duration) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("rollout %s was not terminal %s after every host had converged", rollout, limit))
	defer cancel()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	phase := "unknown"
	for {
		all, err := s.op.Rollouts(ctx)
		if err != nil {
			return time.Time{}, errors.Join(context.Cause(ctx), fmt.Errorf("ask for rollout %s, which is %s: %w", rollout, phase, err))
		}
		for _, r := range all {
			if r.Name != rollout {
				continue
			}
			switch phase = r.Phase; phase {
			case "terminal":
				return time.UnixMilli(int64(r.EndedAt)), nil
			case "failed", "reverted", "superseded":
				return time.Time{}, fmt.Errorf("rollout %s is %s: %s", rollout, phase, r.Reason)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return time.Time{}, context.Cause(ctx)
		}
	}
}
