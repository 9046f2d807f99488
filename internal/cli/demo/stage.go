package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/sandbox"
)

// Bounds of the waits, each for one step, far above what a busy machine takes.
const (
	commandIn = 2 * time.Minute
	onlineIn  = 2 * time.Minute
	openIn    = 2 * time.Minute
	rolloutIn = 5 * time.Minute
	readyIn   = 2 * time.Minute
	stopIn    = 30 * time.Second
	pollEvery = 50 * time.Millisecond
)

// channel is the one channel of the sample fleets.
const channel = "stable"

// stage is a server and agents below a temporary folder, and what is typed there.
type stage struct {
	Options
	dir    string
	server *sandbox.Process
	agents map[string]*sandbox.Process
	client *operator.Client
	result result
}

func newStage(o Options) (*stage, error) {
	dir, err := os.MkdirTemp("", "steady-demo-")
	if err != nil {
		return nil, err
	}
	return &stage{Options: o, dir: dir, agents: map[string]*sandbox.Process{}}, nil
}

func (s *stage) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

func (s *stage) root(host string) string { return s.path("hosts", host, "root") }

func (s *stage) startServer(ctx context.Context) error {
	if err := s.Report.step("A server on an embedded database"); err != nil {
		return err
	}
	cmd := s.command(context.WithoutCancel(ctx), "server", "--data", "data", "--root", "keys/1.root.json", "--listen", "127.0.0.1:0", "--heartbeat", "5s", "-o", "json")
	if err := s.Report.types(cmd.Args); err != nil {
		return err
	}
	var err error
	if s.server, err = sandbox.Start("the server", s.path("server.log"), cmd); err != nil {
		return err
	}
	line, err := s.server.WaitReady(ctx, readyIn)
	if err != nil {
		return err
	}
	var ready struct{ Context string }
	if err := json.Unmarshal([]byte(line), &ready); err != nil {
		return s.server.Failure("said something else than where it listens: " + err.Error())
	}
	raw, err := os.ReadFile(ready.Context)
	if err != nil {
		return err
	}
	var where struct{ Server, Token, CA string }
	if err := json.Unmarshal(raw, &where); err != nil {
		return fmt.Errorf("%s: %w", ready.Context, err)
	}
	if s.client, err = operator.NewClient(operator.Options{URL: where.Server, Token: where.Token, ServerCA: []byte(where.CA)}); err != nil {
		return err
	}
	link, err := s.link(ctx)
	if err != nil || link == "" {
		return err
	}
	return s.Report.print("Watch it in a browser, with a link that is good once and for a minute:\n  %s", link)
}

// link logs a browser in, or is empty where none gets in: in namespaces of its own.
func (s *stage) link(ctx context.Context) (string, error) {
	if s.Report.Inside != 0 {
		return "", nil
	}
	l, err := s.client.UILink(ctx)
	return l.URL, err
}

// startAgents starts the agents of hosts, each with flags of its own, and waits
// until all are online.
func (s *stage) startAgents(ctx context.Context, names []string, flags func(host string) []string) error {
	for _, name := range names {
		if err := os.MkdirAll(s.root(name), 0o755); err != nil {
			return err
		}
		token, err := s.steady(ctx, "token", "create", name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(s.path("hosts", name, "token"), []byte(token), 0o600); err != nil {
			return err
		}
		args := []string{"agent", "--state", filepath.Join("hosts", name, "state"), "--root", filepath.Join("hosts", name, "root"), "--token", filepath.Join("hosts", name, "token")}
		cmd := s.command(context.WithoutCancel(ctx), append(args, flags(name)...)...)
		if err := s.Report.types(cmd.Args); err != nil {
			return err
		}
		p, err := sandbox.Start("the agent of "+name, s.path("hosts", name, "agent.log"), cmd)
		if err != nil {
			return err
		}
		s.agents[name] = p
	}
	for _, name := range names {
		if _, err := s.agents[name].WaitReady(ctx, readyIn); err != nil {
			return err
		}
	}
	return s.waitOnline(ctx, names)
}

// waitOnline waits until the server has heard from every host: those that are
// not there when a rollout opens would be left out of its waves.
func (s *stage) waitOnline(ctx context.Context, names []string) error {
	var missing []string
	err := s.poll(ctx, onlineIn, func(ctx context.Context) (bool, error) {
		list, err := s.client.Hosts(ctx)
		missing = missing[:0]
		for _, name := range names {
			if !slices.ContainsFunc(list, func(o operator.Host) bool { return o.Name == name && o.Online }) {
				missing = append(missing, name)
			}
		}
		return len(missing) == 0, err
	})
	if errors.Is(err, errTooLate) {
		return s.agents[missing[0]].Failure("did not reach the server within " + onlineIn.String())
	}
	return err
}

// roll makes and pushes a release of the fleet folder as it is now, and follows
// its rollout to the end.
func (s *stage) roll(ctx context.Context, r release) error {
	for _, args := range [][]string{
		{"release", "build", "fleet", "--ref", r.name},
		{"release", "sign"},
		{"release", "push"},
	} {
		if _, err := s.steady(ctx, args...); err != nil {
			return err
		}
	}
	name := fleet.RolloutName(channel, r.name)
	if err := s.waitOpen(ctx, name); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, rolloutIn)
	defer cancel()
	end, err := watch.Watch(bounded, s.client, name, watch.On(s.Report.Out, s.Report.Screen, s.Report.JSON).Moving())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return s.server.Failure(fmt.Sprintf("did not end rollout %s within %s (%s)", name, rolloutIn, status(end)))
	case err != nil:
		return fmt.Errorf("watch %s: %w", name, err)
	}
	want := rollout.Reverted
	if r.converges {
		want = rollout.Terminal
	}
	if end.Phase != string(want) {
		return s.server.Failure(fmt.Sprintf("ended rollout %s %s, expected %s (%s)", name, end.Phase, want, status(end)))
	}
	return nil
}

func status(r *watch.Rollout) string {
	if r == nil {
		return "nothing is known of it"
	}
	var parts []string
	for _, h := range r.Hosts {
		parts = append(parts, strings.TrimSpace(h.Name+" "+h.Status+" "+h.Message))
	}
	return strings.Join(parts, "; ")
}

func (s *stage) waitOpen(ctx context.Context, name string) error {
	err := s.poll(ctx, openIn, func(ctx context.Context) (bool, error) {
		_, err := s.client.Rollout(ctx, name)
		if refusal, ok := errors.AsType[*operator.Error](err); ok && refusal.Status == 404 {
			return false, nil
		}
		return err == nil, err
	})
	if errors.Is(err, errTooLate) {
		return s.server.Failure(fmt.Sprintf("did not open rollout %s within %s", name, openIn))
	}
	return err
}

var errTooLate = errors.New("too late")

// poll asks again and again, for a bounded time.
func (s *stage) poll(ctx context.Context, limit time.Duration, ask func(context.Context) (bool, error)) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		done, err := ask(bounded)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case bounded.Err() != nil:
			return errTooLate
		case done || err != nil:
			return err
		}
		select {
		case <-tick.C:
		case <-bounded.Done():
		}
	}
}

// command makes a command of this program in the demonstration's folder.
func (s *stage) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := s.Command(ctx, args...)
	cmd.Dir = s.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "STEADY_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "STEADY_CONTEXT="+s.path("data", "operator.json"))
	return cmd
}

// steady runs a command to its end and returns what it printed.
func (s *stage) steady(ctx context.Context, args ...string) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, commandIn)
	defer cancel()
	cmd := s.command(bounded, args...)
	if err := s.Report.types(cmd.Args); err != nil {
		return "", err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if err != nil {
		return "", fmt.Errorf("steady %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// end ends what was started, agents first. The folder stays.
func (s *stage) end() {
	if s.client != nil {
		s.client.Close()
	}
	done := make(chan struct{})
	for _, p := range s.agents {
		go func() { p.Stop(stopIn); done <- struct{}{} }()
	}
	for range s.agents {
		<-done
	}
	if s.server != nil {
		s.server.Stop(stopIn)
	}
}

// program is how to call this program from a shell.
func program() string {
	exe, err := os.Executable()
	if err != nil || strings.Contains(exe, "go-build") {
		return "go run ./cmd/steady"
	}
	return exe
}
