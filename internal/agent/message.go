package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/agent/probe"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// message is what a worker tells the reducer. It is applied on the reducer's
// goroutine and fails only for what must end the process.
type message interface {
	apply(ctx context.Context, r *reducer, t *turn) error
}

type (
	// offered is a grant whose plan is verified.
	offered struct {
		offer   host.Offer
		payload []byte // of the manifest; nil for a revert
		ordered ordered
	}
	// prepared and unprepared end the preparation of a grant.
	prepared   struct{ grant string }
	unprepared struct {
		grant  string
		detail string
	}
	// answered is the server's answer to a claim.
	answered struct {
		grant    string
		accepted bool
		reason   string
	}
	// refused is what the server gave and trust refused.
	refused struct {
		rollout string
		err     error
	}
	// contacted is an accepted request that began in an era.
	contacted struct{ era int64 }
	// probed is one look of a round of probes.
	probed struct {
		round  int64
		result probe.Result
	}
	// looked asks where the generation stands.
	looked struct{}
	// elapsed says that an instant has come.
	elapsed struct{}
)

func (m offered) apply(ctx context.Context, r *reducer, t *turn) error {
	if err := m.ordered.apply(ctx, r, t); err != nil {
		return err
	}
	term := r.state.MaxTerm
	old := r.state.Offer
	t.add(r.state.Granted(m.offer, t.now))
	t.save = t.save || term != r.state.MaxTerm
	if r.state.Offer != old && m.payload != nil {
		t.manifest, t.payload = m.offer.Plan.Manifest, m.payload
	}
	clear(r.refused)
	if r.lastRefused != "" {
		r.lastRefused, t.save = "", true
	}
	return nil
}

func (m prepared) apply(_ context.Context, r *reducer, t *turn) error {
	t.add(r.state.Prepared(m.grant, t.now))
	return nil
}

func (m unprepared) apply(_ context.Context, r *reducer, t *turn) error {
	t.add(r.state.PrepareFailed(m.grant, system.Scrub(m.detail, 1024)))
	return nil
}

func (m answered) apply(_ context.Context, r *reducer, t *turn) error {
	if r.state.Offer == nil || r.state.Offer.Grant != m.grant {
		return nil
	}
	if !m.accepted {
		r.a.cfg.Log.Info("claim refused", "grant", m.grant, "reason", m.reason)
	}
	t.save = true
	if r.state.Offer.Purpose == host.Repair {
		t.add(r.state.RepairAnswered(m.grant, m.accepted, t.now))
		return nil
	}
	in := r.state.ClaimAnswered(m.grant, m.accepted, r.a.time.BootID())
	if in == nil {
		return nil
	}
	return r.step(t, in)
}

func (m refused) apply(_ context.Context, r *reducer, t *turn) error {
	check := string(trust.ManifestVerifyFailed)
	var te *trust.Error
	if errors.As(m.err, &te) {
		check = te.Report()
	}
	// Words may hold an age; the code and the rollout are the cause.
	cause := check + " " + string(trust.CodeOf(m.err)) + " " + m.rollout
	r.lastRefused = system.Scrub(m.err.Error(), 1024)
	if r.refused[cause] {
		return nil
	}
	r.refused[cause] = true
	r.a.cfg.Log.Warn("refused what the server gave", "check", check, "rollout", m.rollout, "error", m.err)
	t.report(event.TrustRefused{Check: check, Detail: r.lastRefused, Rollout: system.Scrub(m.rollout, 512)})
	return nil
}

func (m contacted) apply(_ context.Context, r *reducer, t *turn) error {
	if s := &r.state.Machine; m.era != r.a.era.Load() || (s.ConfirmBy == 0 && s.BlameBy == 0) {
		return nil
	}
	return r.step(t, host.Contact{})
}

func (m probed) apply(_ context.Context, r *reducer, t *turn) error {
	if m.round != r.round {
		return nil
	}
	return r.step(t, host.ProbeObserved{Name: m.result.Name, Pass: m.result.Pass, Reason: m.result.Reason, Results: m.result.Results})
}

func (elapsed) apply(ctx context.Context, r *reducer, t *turn) error {
	t.add(r.state.Expire(t.now))
	if r.state.Repairs.Due().Reached(t.now) {
		if err := r.lookAtDrift(ctx, t); err != nil {
			return err
		}
	}
	if !host.Due(&r.state.Machine, &r.state.Plan).Reached(t.now) {
		return nil
	}
	return r.step(t, host.Elapsed{})
}

// apply compares where the generation stands with what the machine waits for.
// It asks for the present and not for a history, so that nothing is lost by a
// crash between the two.
func (looked) apply(ctx context.Context, r *reducer, t *turn) error {
	row, err := r.a.rows.Get(context.WithoutCancel(ctx), system.Current)
	if errors.Is(err, reconcile.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var g system.Generation
	if err := json.Unmarshal(row.Desired, &g); err != nil {
		return fmt.Errorf("the generation in agent.db is not what this version wrote: %w", err)
	}
	staged, err := r.a.staged(ctx, &row)
	if err != nil {
		return err
	}
	if in := generationInput(&r.state.Machine, &row, g, staged); in != nil {
		if err := r.step(t, in); err != nil {
			return err
		}
	}
	return r.lookAtDrift(ctx, t)
}

// generationInput is what the generation's phase means to the machine, or nil.
// staged names what of it waits for a reboot.
func generationInput(m *host.State, row *engine.Row, g system.Generation, staged string) host.Input {
	// Degraded is as desired in all that is declared; what could not be taken
	// away is reported on its own.
	complete := (row.Phase == engine.Converged || row.Phase == engine.Degraded) && row.ConvergedGen == row.Generation
	failed := row.Phase == engine.Failed
	code, detail := string(row.Reason.Code), system.Scrub(row.Reason.Words, 1024)
	switch {
	case m.Phase == host.Activating && g.Same(forward(m)):
		if complete {
			return host.Activated{Observed: g.Bundle}
		}
		if failed {
			return host.ActivationFailed{Code: code, Detail: detail}
		}
		if staged != "" {
			return host.ActivationDeferred{Component: staged}
		}
	case m.Phase == host.Failed && m.Reverting && g.Same(back(m)):
		if complete {
			return host.RevertCompleted{Observed: g.Bundle}
		}
		if failed {
			return host.RevertFailed{Code: code, Detail: detail}
		}
		if staged != "" && !m.Rebooting() {
			return host.RevertDeferred{Component: staged}
		}
	}
	return nil
}

// forward is the run that an activation asks for; it is the same after a
// restart and another one for another grant.
func forward(m *host.State) system.Generation {
	return system.Generation{Bundle: m.Target, Run: m.Grant, Keep: m.From}
}

// back is the run of one attempt to go back.
func back(m *host.State) system.Generation {
	return system.Generation{
		Bundle: m.From, Revert: true, Leaving: m.Target, Keep: m.Target,
		Run: fmt.Sprintf("%s back %d", m.Grant, m.RevertFailures+1),
	}
}

// bundleOf is what commands are told to run in.
func bundleOf(m *host.State) digest.Digest {
	if m.Phase == host.Reverted || m.Reverting {
		return m.From
	}
	return m.Target
}
