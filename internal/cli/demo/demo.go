// Package demo shows a whole fleet on one machine: real keys, signed releases, a
// server and agents as processes of their own over mutual TLS on loopback; one
// fleet of files and commands, and one of containers. It types the commands that
// an operator would, and then checks in the server's log and on the hosts that
// what was promised happened.
package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// demonstration is what is shown on a stage.
type demonstration interface {
	// run shows it, and writes what it found into the stage's result.
	run(ctx context.Context) error
	// remove ends what was started and removes what was made.
	remove(ctx context.Context) error
	// summary is what the result means, and playground what can be done with what is
	// left running.
	summary() string
	playground() string
}

// play runs a demonstration. It is an error if anything went otherwise than
// promised. Whatever it started has ended when it returns, and what it made is gone.
func (s *stage) play(ctx context.Context, d demonstration) (err error) {
	began, removed := time.Now(), false
	remove := func() error {
		if removed {
			return nil
		}
		removed = true
		return errors.Join(d.remove(context.WithoutCancel(ctx)), os.RemoveAll(s.dir))
	}
	defer func() { err = errors.Join(err, remove()) }()
	err = d.run(ctx)
	if err == nil && !s.Keep {
		err = remove()
	}
	if rerr := s.Report.end(s.result, time.Since(began), err, d.summary()); rerr != nil || err != nil {
		return errors.Join(err, rerr)
	}
	if !s.Keep {
		return nil
	}
	link, err := s.link(ctx)
	if err != nil {
		return err
	}
	if err := s.Report.kept(link, d.playground()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// Run runs the demonstration of files and commands.
func Run(ctx context.Context, o Options) error {
	s, err := newStage(o)
	if err != nil {
		return err
	}
	return s.play(ctx, &demo{stage: s, services: map[string]*service{}})
}

type demo struct {
	*stage
	services map[string]*service
}

func (d *demo) run(ctx context.Context) error {
	for _, step := range []func(context.Context) error{d.startServices, d.makeKeys, d.startServer, d.startHosts} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for i := range releases {
		if err := d.rollOut(ctx, i); err != nil {
			return err
		}
	}
	if err := d.tally(ctx, releases); err != nil {
		return err
	}
	return d.check()
}

func (d *demo) summary() string {
	return `checked in the server's log and in the files of every host. The bad
release never left its canary, and every host runs the last one.

Try next:
  steady demo --keep         the same, left running to play with
  steady init fleet          a fleet of your own, then the long way in the README
  steady help exit-codes     what each exit code means
`
}

func (d *demo) playground() string {
	return fmt.Sprintf(`  export STEADY_CONTEXT=%s
  %[2]s ui                    # another link for a browser
  %[2]s status
  %[2]s why web-1
  %[2]s events -f
  echo changed by hand > %[3]s     # and see the agent put it back
`, d.path("data", "operator.json"), program(), filepath.Join(d.root("web-1"), "www", "index.html"))
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
	return d.startAgents(ctx, names(), func(string) []string { return []string{"--engine", "none"} })
}

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

func (d *demo) remove(context.Context) error {
	d.end()
	var err error
	for _, s := range d.services {
		err = errors.Join(err, s.stop())
	}
	return err
}
