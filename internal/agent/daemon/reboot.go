package daemon

import (
	"context"
	"os/exec"
	"strings"
	"syscall"

	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// DefaultReboot is the command that reboots a machine with systemd.
var DefaultReboot = []string{"systemctl", "reboot"}

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

// staged names what a part of the waiting generation left for a reboot, or is empty.
func (a *Agent) staged(ctx context.Context) (string, error) {
	rows, err := a.rows.List(ctx, reconcile.Filter{Phases: []engine.Phase{engine.Waiting}})
	for i := range rows {
		if rows[i].Parent != system.Current || rows[i].Reason.Code != system.CodeNeedsReboot {
			continue
		}
		run, _, err := a.store.Step(ctx, rows[i].Ref.ID)
		if err != nil {
			return "", err
		}
		if system.StagedBoot(run) == a.time.BootID() { // else it waits to be looked at after the reboot
			return system.Scrub(rows[i].Reason.Message, 256), nil
		}
	}
	return "", err
}
