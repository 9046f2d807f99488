package agent

import (
	"context"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/agent/client"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// DefaultReboot is the command that reboots a machine with systemd.
var DefaultReboot = []string{"systemctl", "reboot"}

const (
	// rebootTries bounds how often the command is tried before the host fails.
	rebootTries = 3
	rebootPause = 2 * time.Second
)

// rebootFailed says that the reboot command did not succeed.
type rebootFailed struct{ detail string }

func (m rebootFailed) apply(_ context.Context, r *reducer, t *turn) error {
	return r.step(t, host.RebootFailed{Detail: m.detail})
}

// takeReboot makes an offer of a dispatch. What is booted is what is staged, which
// the host's verified plan named; the plan is verified again, so that nothing is
// booted that a newer release withdrew or that is not fresh.
func (a *Agent) takeReboot(ctx context.Context, d *wire.Dispatch) (offered, error) {
	m := a.status.Load().Machine
	if d.Manifest != m.Manifest || m.Manifest == "" {
		o := a.offerOfRepair(d)
		o.Purpose, o.Plan.Manifest = host.Reboot, d.Manifest
		return offered{offer: o}, nil // the reducer declines it
	}
	return a.takeForward(ctx, d)
}

func (d *durable) BeginReboot(host.BeginReboot) error { return nil }

// BeginReboot runs the reboot command, which ends this process with the machine.
func (c *carrying) BeginReboot(e host.BeginReboot) error {
	a, ctx := c.r.a, c.ctx
	a.cfg.Log.Warn("the machine is rebooted", "reason", e.Reason, "command", strings.Join(a.cfg.Reboot, " "))
	c.r.workers.Go(func() error {
		detail := ""
		for try := range rebootTries {
			if try > 0 && client.Pause(ctx, rebootPause<<try) != nil {
				return nil
			}
			if s := a.status.Load(); !s.Machine.Rebooting() {
				return nil
			}
			out, err := runReboot(ctx, a.cfg.Reboot)
			if err == nil || ctx.Err() != nil {
				return nil // the machine goes down, or the deadline tells that it did not
			}
			detail = system.Scrub(strings.Join(a.cfg.Reboot, " ")+": "+err.Error()+": "+out, 1024)
			a.cfg.Log.Warn("the reboot command failed", "error", detail)
		}
		a.post(ctx, rebootFailed{detail})
		return nil
	})
	return nil
}

// runReboot starts the command in a session of its own, so that it outlives this
// process, and waits for it.
func runReboot(ctx context.Context, argv []string) (string, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return out.String(), err
	case <-ctx.Done():
		return "", nil
	}
}

// staged names what a part of the generation left for a reboot, or is empty.
func (a *Agent) staged(ctx context.Context, generation *engine.Row) (string, error) {
	if generation.Phase != engine.Waiting {
		return "", nil
	}
	rows, err := a.rows.List(context.WithoutCancel(ctx), reconcile.Filter{Phases: []engine.Phase{engine.Waiting}})
	for i := range rows {
		if rows[i].Parent != system.Current || rows[i].Reason.Code != system.CodeNeedsReboot {
			continue
		}
		run, _, err := a.store.Step(context.WithoutCancel(ctx), rows[i].Ref.ID)
		if err != nil {
			return "", err
		}
		if system.StagedBoot(run) == a.time.BootID() { // else it waits to be looked at after the reboot
			return system.Scrub(rows[i].Reason.Words, 256), nil
		}
	}
	return "", err
}
