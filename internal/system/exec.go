package system

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of steps.
const (
	CodeNotRun      engine.Code = "step-not-run"
	CodeCheckFails  engine.Code = "check-fails"
	CodeStepFailed  engine.Code = "step-failed"
	CodeUndoFailed  engine.Code = "undo-failed"
	CodeUndoStep    engine.Code = "undo-step"
	CodeStepTimeout engine.Code = "step-timed-out"
)

// Activate runs a step's command; Undo runs its revert command.
type (
	Activate struct {
		Run string `json:"run"`
		// Again means that it ran and is no longer in effect.
		Again bool `json:"again,omitempty"`
	}
	Undo struct{}
)

// ActionName names the actions.
func (Activate) ActionName() string { return "activate" }
func (Undo) ActionName() string     { return "undo" }

// Disrupts reports whether the step is done over: what it started may run. One
// that was begun and interrupted has to end.
func (a Activate) Disrupts() bool { return a.Again }

// StepObserved is what is known of a step.
type StepObserved struct {
	// Run is where it was last begun; empty if never, or if it has been undone.
	Run string
	// Done means that its command succeeded in that run.
	Done bool
	// CheckFailed means that there is a check and that it does not pass.
	CheckFailed bool
	Check       string // how the check ended
	// Staged names what the command left for a reboot, if it did; Booted means that
	// the machine was rebooted since.
	Staged string
	Booted bool
}

// ExitReboot is the exit code of a command that staged what it does and needs a
// reboot for it, as switch-to-configuration of NixOS has it.
const ExitReboot = 100

// CodeNotBooted is of a step that is not in effect after the reboot it asked for.
const CodeNotBooted engine.Code = "not-in-effect-after-reboot"

// stagedRun is what the ledger keeps of a run that waits for a reboot: the run, the
// boot that it staged in, and what it staged.
func stagedRun(run, boot, what string) string { return run + "\n" + boot + "\n" + what }

// StagedBoot is the boot in which a run of the ledger was staged; empty for another.
func StagedBoot(run string) string {
	if parts := strings.SplitN(run, "\n", 3); len(parts) == 3 {
		return parts[1]
	}
	return ""
}

func (o *StepObserved) unstage(boot string) {
	if parts := strings.SplitN(o.Run, "\n", 3); len(parts) == 3 {
		o.Run, o.Staged, o.Booted, o.Done = parts[0], parts[2], parts[1] != boot, true
	}
}

type execs struct{ host Host }

// Observe reads the ledger, and runs the check of a step that has run: a check
// shows whether a step is still in effect, it does not replace running it.
func (m *execs) Observe(ctx context.Context, r engine.Resource[SystemDesired]) (StepObserved, error) {
	var o StepObserved
	var err error
	if o.Run, o.Done, err = m.host.Ledger.Step(ctx, r.Ref.ID); err != nil {
		return o, err
	}
	d := r.Desired
	if o.unstage(m.host.BootID); o.Staged != "" && !o.Booted {
		return o, nil
	}
	if r.Delete || len(d.Exec.Check) == 0 || !o.Done || o.Run != d.Run {
		return o, nil
	}
	out, err := Run(ctx, m.command(d, d.Exec.Check))
	switch {
	case ctx.Err() != nil:
		return o, context.Cause(ctx)
	case err != nil:
		o.CheckFailed, o.Check = true, err.Error()
	case !out.OK():
		o.CheckFailed, o.Check = true, out.String()
	}
	return o, nil
}

// decideStep activates what has not run in this run or is no longer in effect, and
// undoes what was begun when the step is left.
func decideStep(r engine.Resource[SystemDesired], o StepObserved) engine.Decision {
	want := r.Desired
	switch {
	case r.Delete && o.Run != want.Run:
		return engine.IsConverged(engine.Reason{}) // never begun as desired, or undone
	case r.Delete:
		return engine.Do(Undo{}, engine.NewReason(CodeUndoStep, ""))
	case !o.Done || o.Run != want.Run:
		return engine.Do(Activate{Run: want.Run}, engine.NewReason(CodeNotRun, ""))
	case o.Staged != "" && !o.Booted:
		return engine.Wait(engine.NewReason(CodeNeedsReboot, o.Staged))
	case o.Staged != "" && o.CheckFailed && r.Status.ConvergedGeneration != r.Generation:
		return engine.Fail(engine.NewReason(CodeNotBooted, o.Check))
	case o.CheckFailed:
		return engine.Do(Activate{Run: want.Run, Again: true}, engine.NewReason(CodeCheckFails, o.Check))
	}
	return engine.IsConverged(engine.Reason{})
}

// Act runs the command. What was begun is recorded first: a step that was
// interrupted is run again or undone, never assumed done.
func (m *execs) Act(ctx context.Context, r engine.Resource[SystemDesired], a engine.Action) error {
	d := r.Desired
	// What happened is recorded even if the run is called off meanwhile.
	record := context.WithoutCancel(ctx)
	switch a.(type) {
	case Activate:
		if err := m.host.Ledger.SetStep(record, r.Ref.ID, d.Run, false); err != nil {
			return err
		}
		staged, err := m.run(ctx, d, d.Exec.Activate, CodeStepFailed)
		if err != nil {
			return err
		}
		if staged != "" {
			return m.host.Ledger.SetStep(record, r.Ref.ID, stagedRun(d.Run, m.host.BootID, staged), false)
		}
		return m.host.Ledger.SetStep(record, r.Ref.ID, d.Run, true)
	case Undo:
		if len(d.Exec.Revert) > 0 {
			if _, err := m.run(ctx, d, d.Exec.Revert, CodeUndoFailed); err != nil {
				return err
			}
		}
		return m.host.Ledger.ForgetStep(record, r.Ref.ID)
	}
	return reconcile.Terminal(engine.CodeBadIntent, fmt.Errorf("a step has no action %s", a.ActionName()))
}

func (m *execs) run(ctx context.Context, d SystemDesired, argv []string, code engine.Code) (staged string, err error) {
	out, err := Run(ctx, m.command(d, argv))
	if err != nil {
		return "", fmt.Errorf("%s: %w", code, err)
	}
	m.host.Log.Info("command ended", "step", d.Exec.Name, "command", argv[0], "outcome", out.String())
	if out.TimedOut {
		code = CodeStepTimeout
	}
	if code == CodeStepFailed && out.ExitCode == ExitReboot && m.host.BootID != "" {
		return cmp.Or(strings.TrimSpace(out.Tail[strings.LastIndexByte(out.Tail, '\n')+1:]), "step "+d.Exec.Name), nil
	}
	if !out.OK() {
		return "", fmt.Errorf("%s: %s: %s", code, argv[0], out)
	}
	return "", nil
}

func (m *execs) command(d SystemDesired, argv []string) Command {
	return Command{Argv: argv, Dir: m.host.Root, Env: Environment(m.host.Root, m.host.Name, d.Bundle), Timeout: d.Exec.Timeout}
}

// Environment is all that commands on a host are given: the agent's own PATH
// and HOME, and where they run.
func Environment(root, host string, bundle digest.Digest) []string {
	return []string{
		"PATH=" + cmp.Or(os.Getenv("PATH"), "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
		"HOME=" + cmp.Or(os.Getenv("HOME"), "/"),
		"STEADY_ROOT=" + root,
		"STEADY_HOST=" + host,
		"STEADY_BUNDLE=" + string(bundle),
	}
}
