// Package demo shows a whole fleet on one machine: real keys, signed releases, a
// server and six agents as processes of their own over mutual TLS on loopback.
// It types the commands that an operator would, and then checks in the server's
// log and on the hosts that what was promised happened.
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
	"github.com/steadyfleet/steady/internal/cli/live"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Bounds of the waits, each for one step.
const (
	commandIn = 30 * time.Second
	onlineIn  = 20 * time.Second
	openIn    = 15 * time.Second
	rolloutIn = 60 * time.Second
	pollEvery = 50 * time.Millisecond
)

// Options of a demonstration.
type Options struct {
	// Command makes a command that runs this program again with arguments.
	Command func(ctx context.Context, args ...string) *exec.Cmd
	Report  Report
	// Keep leaves everything running until ctx ends.
	Keep bool
}

// Run runs the demonstration. It is an error if anything went otherwise than
// promised. Whatever it started has ended when it returns.
func Run(ctx context.Context, o Options) (err error) {
	began := time.Now()
	dir, err := os.MkdirTemp("", "steady-demo-")
	if err != nil {
		return err
	}
	d := &demo{Options: o, dir: dir, spawner: newSpawner(), services: map[string]*service{}}
	defer func() { err = errors.Join(err, d.clean()) }()
	tallies, err := d.run(ctx)
	if err == nil {
		err = d.check(tallies)
	}
	if rerr := o.Report.result(tallies, time.Since(began), err); rerr != nil || err != nil {
		return errors.Join(err, rerr)
	}
	if !o.Keep {
		return nil
	}
	if err := o.Report.kept(d.path("data", "operator.json"), d.dir, program()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

type demo struct {
	Options
	dir      string
	spawner  *spawner
	server   *process
	agents   []*process
	services map[string]*service
	client   *operator.Client
}

func (d *demo) path(parts ...string) string {
	return filepath.Join(append([]string{d.dir}, parts...)...)
}

func (d *demo) root(host string) string { return d.path("hosts", host, "root") }

func (d *demo) run(ctx context.Context) ([]tally, error) {
	for _, step := range []func(context.Context) error{d.startServices, d.makeKeys, d.startServer, d.startAgents} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	for i := range releases {
		if err := d.roll(ctx, i); err != nil {
			return nil, err
		}
	}
	return d.tally(ctx)
}

func (d *demo) startServices(context.Context) error {
	for _, h := range hosts {
		if err := os.MkdirAll(d.root(h.name), 0o755); err != nil {
			return err
		}
		s, err := serve(d.root(h.name))
		if err != nil {
			return err
		}
		d.services[h.name] = s
	}
	return nil
}

func (d *demo) addresses() map[string]string {
	addresses := map[string]string{}
	for name, s := range d.services {
		addresses[name] = s.addr
	}
	return addresses
}

func (d *demo) makeKeys(ctx context.Context) error {
	if err := writeFleet(d.path("fleet"), releases[0].name, releases[0].status, d.addresses()); err != nil {
		return err
	}
	if err := d.Report.step("A fleet of %d hosts, and its keys", len(hosts)); err != nil {
		return err
	}
	_, err := d.steady(ctx, "keys", "init", "--dir", "keys", "--fleet", "demo")
	return err
}

func (d *demo) startServer(ctx context.Context) error {
	if err := d.Report.step("A server on an embedded database"); err != nil {
		return err
	}
	cmd := d.command(context.WithoutCancel(ctx), "server", "--data", "data", "--root", "keys/1.root.json", "--listen", "127.0.0.1:0", "--heartbeat", "5s", "-o", "json")
	if err := d.Report.types(cmd.Args); err != nil {
		return err
	}
	var err error
	if d.server, err = d.spawner.spawn("the server", d.path("server.log"), cmd); err != nil {
		return err
	}
	line, err := d.server.waitReady(ctx)
	if err != nil {
		return err
	}
	var ready struct{ Context string }
	if err := json.Unmarshal([]byte(line), &ready); err != nil {
		return d.server.failure("said something else than where it listens: " + err.Error())
	}
	raw, err := os.ReadFile(ready.Context)
	if err != nil {
		return err
	}
	var where struct{ Server, Token, CA string }
	if err := json.Unmarshal(raw, &where); err != nil {
		return fmt.Errorf("%s: %w", ready.Context, err)
	}
	d.client, err = operator.NewClient(operator.Options{URL: where.Server, Token: where.Token, ServerCA: []byte(where.CA)})
	return err
}

func (d *demo) startAgents(ctx context.Context) error {
	if err := d.Report.step("%d agents, each with its own identity, state folder and root folder", len(hosts)); err != nil {
		return err
	}
	for _, h := range hosts {
		token, err := d.steady(ctx, "token", "create", h.name)
		if err != nil {
			return err
		}
		file := d.path("hosts", h.name, "token")
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			return err
		}
		cmd := d.command(context.WithoutCancel(ctx), "agent", "--state", filepath.Join("hosts", h.name, "state"), "--root", filepath.Join("hosts", h.name, "root"), "--token", filepath.Join("hosts", h.name, "token"))
		if err := d.Report.types(cmd.Args); err != nil {
			return err
		}
		p, err := d.spawner.spawn("the agent of "+h.name, d.path("hosts", h.name, "agent.log"), cmd)
		if err != nil {
			return err
		}
		d.agents = append(d.agents, p)
	}
	for _, p := range d.agents {
		if _, err := p.waitReady(ctx); err != nil {
			return err
		}
	}
	return d.waitOnline(ctx)
}

// waitOnline waits until the server has heard from every host: those that are
// not there when a rollout opens would be left out of its waves.
func (d *demo) waitOnline(ctx context.Context) error {
	var missing []string
	err := d.poll(ctx, onlineIn, func(ctx context.Context) (bool, error) {
		list, err := d.client.Hosts(ctx)
		missing = missing[:0]
		for _, h := range hosts {
			if !slices.ContainsFunc(list, func(o operator.Host) bool { return o.Name == h.name && o.Online }) {
				missing = append(missing, h.name)
			}
		}
		return len(missing) == 0, err
	})
	if errors.Is(err, errTooLate) {
		i := slices.IndexFunc(hosts, func(h host) bool { return h.name == missing[0] })
		return d.agents[i].failure("did not reach the server within " + onlineIn.String())
	}
	return err
}

// roll makes and pushes a release, and follows its rollout to the end.
func (d *demo) roll(ctx context.Context, i int) error {
	r := releases[i]
	if err := d.Report.step("Release %s: %s", r.name, r.about); err != nil {
		return err
	}
	if err := writeFleet(d.path("fleet"), r.name, r.status, d.addresses()); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"release", "build", "fleet", "--ref", r.name},
		{"release", "sign"},
		{"release", "push"},
	} {
		if _, err := d.steady(ctx, args...); err != nil {
			return err
		}
	}
	name := fleet.RolloutName(channel, r.name)
	if err := d.waitOpen(ctx, name); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, rolloutIn)
	defer cancel()
	end, err := live.Watch(bounded, d.client, name, d.Report.view())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return d.server.failure(fmt.Sprintf("did not end rollout %s within %s (%s)", name, rolloutIn, standing(end)))
	case err != nil:
		return fmt.Errorf("watch %s: %w", name, err)
	}
	want := rollout.Reverted
	if r.converges {
		want = rollout.Terminal
	}
	if end.Phase != string(want) {
		return d.server.failure(fmt.Sprintf("ended rollout %s %s, expected %s (%s)", name, end.Phase, want, standing(end)))
	}
	if !r.converges {
		return d.onRelease(hosts[0].name, releases[i-1].name, releases[i-1].status)
	}
	return nil
}

func standing(r *live.Rollout) string {
	if r == nil {
		return "nothing is known of it"
	}
	var parts []string
	for _, h := range r.Hosts {
		parts = append(parts, strings.TrimSpace(h.Name+" "+h.Status+" "+h.Words))
	}
	return strings.Join(parts, "; ")
}

func (d *demo) waitOpen(ctx context.Context, name string) error {
	err := d.poll(ctx, openIn, func(ctx context.Context) (bool, error) {
		_, err := d.client.Rollout(ctx, name)
		if refusal, ok := errors.AsType[*operator.Error](err); ok && refusal.Status == 404 {
			return false, nil
		}
		return err == nil, err
	})
	if errors.Is(err, errTooLate) {
		return d.server.failure(fmt.Sprintf("did not open rollout %s within %s", name, openIn))
	}
	return err
}

var errTooLate = errors.New("too late")

// poll asks again and again, for a bounded time.
func (d *demo) poll(ctx context.Context, limit time.Duration, ask func(context.Context) (bool, error)) error {
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
func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := d.Command(ctx, args...)
	cmd.Dir = d.dir
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "STEADY_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "STEADY_CONTEXT="+d.path("data", "operator.json"))
	return cmd
}

// steady runs a command to its end and returns what it printed.
func (d *demo) steady(ctx context.Context, args ...string) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, commandIn)
	defer cancel()
	cmd := d.command(bounded, args...)
	if err := d.Report.types(cmd.Args); err != nil {
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

// clean ends what was started, agents first, and removes the folder.
func (d *demo) clean() error {
	var err error
	if d.client != nil {
		d.client.Close()
	}
	done := make(chan struct{})
	for _, p := range d.agents {
		go func() { p.stop(); done <- struct{}{} }()
	}
	for range d.agents {
		<-done
	}
	if d.server != nil {
		d.server.stop()
	}
	d.spawner.close()
	for _, h := range hosts {
		if s := d.services[h.name]; s != nil {
			err = errors.Join(err, s.stop())
		}
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

// program is how to call this program from a shell.
func program() string {
	exe, err := os.Executable()
	if err != nil || strings.Contains(exe, "go-build") {
		return "go run ./cmd/steady"
	}
	return exe
}
