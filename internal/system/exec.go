package system

import (
	"cmp"
	"context"
	"fmt"
	"os"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of steps.
const (
	CodeNotRun      engine.Code = "step_not_run"
	CodeCheckFails  engine.Code = "check_fails"
	CodeStepFailed  engine.Code = "step_failed"
	CodeUndoFailed  engine.Code = "undo_failed"
	CodeUndoStep    engine.Code = "undo_step"
	CodeStepTimeout engine.Code = "step_timed_out"
)

// Activate runs a step's command; Undo runs its revert command.
type (
	Activate struct {
		Run string `json:"run"`
		// Again says that it ran and is no longer in effect.
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
	// Done says that its command succeeded in that run.
	Done bool
	// CheckFailed says that there is a check and that it does not pass.
	CheckFailed bool
	Check       string // how the check ended
}

type execs struct{ host Host }

// Observe reads the ledger, and runs the check of a step that has run: a check
// shows whether a step is still in effect, it does not stand in for running it.
func (m *execs) Observe(ctx context.Context, r engine.Resource[ExecDesired]) (StepObserved, error) {
	var o StepObserved
	var err error
	if o.Run, o.Done, err = m.host.Ledger.Step(ctx, r.Ref.ID); err != nil {
		return o, err
	}
	d := r.Desired
	if r.Retire || len(d.Exec.Check) == 0 || !o.Done || o.Run != d.Run {
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

// Decide activates what has not run in this run or is no longer in effect, and
// undoes what was begun when the step is left.
func (m *execs) Decide(v engine.View[ExecDesired, StepObserved]) engine.Decision {
	o, want := v.Observed, v.Resource.Desired
	switch {
	case v.Resource.Retire && o.Run != want.Run:
		return engine.IsConverged(engine.Reason{}) // never begun as desired, or undone
	case v.Resource.Retire:
		return engine.Do(Undo{}, engine.Because(CodeUndoStep, ""))
	case !o.Done || o.Run != want.Run:
		return engine.Do(Activate{Run: want.Run}, engine.Because(CodeNotRun, ""))
	case o.CheckFailed:
		return engine.Do(Activate{Run: want.Run, Again: true}, engine.Because(CodeCheckFails, o.Check))
	}
	return engine.IsConverged(engine.Reason{})
}

// Act runs the command. What was begun is recorded first: a step that was
// interrupted is run again or undone, never taken as done.
func (m *execs) Act(ctx context.Context, r engine.Resource[ExecDesired], a engine.Action) error {
	d := r.Desired
	// What happened is recorded even if the run is called off meanwhile.
	record := context.WithoutCancel(ctx)
	switch a.(type) {
	case Activate:
		if err := m.host.Ledger.SetStep(record, r.Ref.ID, d.Run, false); err != nil {
			return err
		}
		if err := m.run(ctx, d, d.Exec.Activate, CodeStepFailed); err != nil {
			return err
		}
		return m.host.Ledger.SetStep(record, r.Ref.ID, d.Run, true)
	case Undo:
		if len(d.Exec.Revert) > 0 {
			if err := m.run(ctx, d, d.Exec.Revert, CodeUndoFailed); err != nil {
				return err
			}
		}
		return m.host.Ledger.ForgetStep(record, r.Ref.ID)
	}
	return reconcile.Terminal(engine.CodeBadIntent, fmt.Errorf("a step has no action %s", a.ActionName()))
}

func (m *execs) run(ctx context.Context, d ExecDesired, argv []string, code engine.Code) error {
	out, err := Run(ctx, m.command(d, argv))
	if err != nil {
		return fmt.Errorf("%s: %w", code, err)
	}
	m.host.Log.Info("command ended", "step", d.Exec.Name, "command", argv[0], "outcome", out.String())
	if out.TimedOut {
		code = CodeStepTimeout
	}
	if !out.OK() {
		return fmt.Errorf("%s: %s: %s", code, argv[0], out)
	}
	return nil
}

func (m *execs) command(d ExecDesired, argv []string) Command {
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
