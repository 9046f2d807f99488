// Package demo shows a whole fleet on one machine: real keys, signed releases, a
// server and agents as processes of their own over mutual TLS on loopback; one
// fleet of files and commands, and one of containers. It types the commands that
// an operator would, and then checks in the server's log and on the hosts that
// what was promised happened.
package demo

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"
)

// Options of a demonstration.
type Options struct {
	// Command makes a command that runs this program again with arguments.
	Command func(ctx context.Context, args ...string) *exec.Cmd
	Report  Report
	// Keep leaves everything running until ctx ends.
	Keep bool
}

// Run runs the demonstration of files and commands. It is an error if anything
// went otherwise than promised. Whatever it started has ended when it returns.
func Run(ctx context.Context, o Options) (err error) {
	began := time.Now()
	s, err := newStage(o)
	if err != nil {
		return err
	}
	d := &demo{stage: s, services: map[string]*service{}}
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
	*stage
	services map[string]*service
}

func (d *demo) run(ctx context.Context) ([]tally, error) {
	for _, step := range []func(context.Context) error{d.startServices, d.makeKeys, d.startServer, d.startHosts} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	for i := range releases {
		if err := d.rollOut(ctx, i); err != nil {
			return nil, err
		}
	}
	return d.tally(ctx, releases)
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
	if err := writeFleet(d.path("fleet"), releases[0], d.addresses()); err != nil {
		return err
	}
	if err := d.Report.step("A fleet of %d hosts, and its keys", len(hosts)); err != nil {
		return err
	}
	_, err := d.steady(ctx, "keys", "init", "--dir", "keys", "--fleet", "demo")
	return err
}

func (d *demo) startHosts(ctx context.Context) error {
	if err := d.Report.step("%d agents, each with its own identity, state folder and root folder", len(hosts)); err != nil {
		return err
	}
	var names []string
	for _, h := range hosts {
		names = append(names, h.name)
	}
	return d.startAgents(ctx, names, func(string) []string { return []string{"--engine", "none"} })
}

// rollOut rolls out one of the releases.
func (d *demo) rollOut(ctx context.Context, i int) error {
	r := releases[i]
	if err := d.Report.step("Release %s: %s", r.name, r.about); err != nil {
		return err
	}
	if err := writeFleet(d.path("fleet"), r, d.addresses()); err != nil {
		return err
	}
	if err := d.roll(ctx, r); err != nil {
		return err
	}
	if !r.converges {
		return d.onRelease(hosts[0].name, releases[i-1].name, releases[i-1].status)
	}
	return nil
}

// clean ends what was started and removes the folder.
func (d *demo) clean() error {
	d.end()
	var err error
	for _, h := range hosts {
		if s := d.services[h.name]; s != nil {
			err = errors.Join(err, s.stop())
		}
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}
