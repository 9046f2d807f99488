package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
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

// staged names what a part of the waiting generation left for a reboot, or is empty. A part that
// waits still for the run before says nothing of this one; one that is undone keeps the run that it had.
func (a *Agent) staged(ctx context.Context, run string) (string, error) {
	rows, err := a.rows.List(ctx, reconcile.Filter{Phases: []engine.Phase{engine.Waiting}})
	if err != nil {
		return "", err
	}
	found, err := a.stagedIn(ctx, rows)
	for i := range rows {
		var d struct {
			Run string `json:"run"`
		}
		if what := found[rows[i].Ref]; what != "" && json.Unmarshal(rows[i].Desired, &d) == nil && (d.Run == run || rows[i].Delete) {
			return what, err
		}
	}
	return "", err
}

// stagedIn has, of the parts of the generation that wait for the next boot, what they left for it.
func (a *Agent) stagedIn(ctx context.Context, rows []engine.Row) (map[engine.Ref]string, error) {
	out := map[engine.Ref]string{}
	for i := range rows {
		row := &rows[i]
		if row.Parent != system.Current || row.Phase != engine.Waiting || row.Reason.Code != system.CodeNeedsReboot {
			continue
		}
		run, _, err := a.store.Step(ctx, row.Ref.ID)
		if err != nil {
			return nil, err
		}
		if system.StagedBoot(run) == a.time.BootID() { // else it waits to be looked at after the reboot
			out[row.Ref] = cmp.Or(system.Scrub(row.Reason.Message, 256), "system")
		}
	}
	return out, nil
}

// hadSystem reports whether a Nix system was ever prepared on this host.
func (a *Agent) hadSystem() bool {
	_, err := os.Stat(filepath.Join(a.cfg.StateDir, "systems"))
	return err == nil
}

// needsReboot names what the machine runs otherwise than the system of its bundle has it, and what
// waits for its next boot. What cannot be read is not known.
func (a *Agent) needsReboot(ctx context.Context) (out []string) {
	d := a.committed.Load().Machine.Current
	if d == "" {
		return nil
	}
	if b, err := a.content.Bundle(ctx, d); err == nil && b.Nix != nil {
		out = system.PendingBoot(b.Nix)
	}
	rows, err := a.rows.List(ctx, reconcile.Filter{Phases: []engine.Phase{engine.Waiting}})
	if err != nil {
		return out
	}
	staged, err := a.stagedIn(ctx, rows)
	if err != nil {
		return out
	}
	for _, what := range staged { // order-free: the facts are sorted
		out = append(out, strings.Split(strings.TrimPrefix(what, system.BootMode+": "), ", ")...)
	}
	return out
}
