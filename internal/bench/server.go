package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/sandbox"
)

const (
	readyIn = time.Minute
	stopIn  = time.Minute
)

// server is the server under test, in a process of its own.
type server struct {
	*sandbox.Process
	url string // for agents
	ca  []byte // PEM
	op  *operator.Client
	// options are those of op.
	options operator.Options
	// planned says that it is killed as part of the run.
	planned atomic.Bool
}

// ready is the line that says where a server listens.
type ready struct {
	Ready   bool   `json:"ready"`
	Server  string `json:"server"`
	Context string `json:"context"`
}

// startServer runs `exe server` and waits until it listens. The caller must stop it.
func startServer(ctx context.Context, exe, dir, rootFile, listen, keepLog string) (*server, error) {
	args := []string{"server", "--data", filepath.Join(dir, "server"), "--root", rootFile, "--listen", listen, "--log-level", "warn", "-o", "json"}
	if keepLog != "" {
		args = append(args, "--keep-log", keepLog)
	}
	p, err := sandbox.Start("the server", filepath.Join(dir, "server.log"), exec.Command(exe, args...))
	if err != nil {
		return nil, err
	}
	s := &server{Process: p}
	line, err := p.WaitReady(ctx, readyIn)
	if err == nil {
		err = s.connect(line)
	}
	if err != nil {
		p.Stop(stopIn)
		return nil, err
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
	s.options = operator.Options{URL: c.Server, Token: c.Token, ServerCA: s.ca}
	s.op, err = operator.NewClient(s.options)
	return err
}

// pollEvery is how often the server is asked whether a rollout has ended, once
// every host has converged. The log itself says when it did.
const pollEvery = 10 * time.Millisecond

// terminal waits until a rollout is terminal and returns when the log says it was.
func (s *server) terminal(ctx context.Context, rollout string, limit time.Duration) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("rollout %s was not terminal %s after every host had converged", rollout, limit))
	defer cancel()
	tick := time.NewTicker(pollEvery)
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
			case "halted", "reverted", "superseded":
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
