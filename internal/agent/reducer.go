package agent

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/agent/journal"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

// reducer owns the host's state. Only its goroutine touches it.
type reducer struct {
	a       *Agent
	state   host.Agent
	workers *errgroup.Group

	// refused holds what was refused and reported, so that a cause is reported
	// once and not at every poll; lastRefused is for people.
	refused     map[string]bool
	lastRefused string

	round   int64 // of probes
	probing bool
	worker  worker // of the offer
}

// worker is what is done about an offer outside the reducer.
type worker struct {
	grant  string
	cancel context.CancelFunc
}

func newReducer(a *Agent, s host.Agent) *reducer {
	r := &reducer{a: a, state: s, refused: map[string]bool{}, worker: worker{cancel: func() {}}}
	r.publish()
	return r
}

// turn collects what one message causes.
type turn struct {
	now     clock.Instant
	save    bool // the state changed in a way that must be durable
	events  []event.Event
	effects []host.Effect
	// manifest is the payload of a manifest that the offer is of.
	manifest digest.Digest
	payload  []byte
}

func (t *turn) report(e event.Event) {
	t.events = append(t.events, e)
	t.save = true
}

func (t *turn) add(effects []host.Effect) {
	t.effects = append(t.effects, effects...)
	t.save = t.save || len(effects) > 0
}

// begin takes the first turn: the agent started. Nothing else runs yet.
func (r *reducer) begin(ctx context.Context) error {
	t := &turn{now: r.a.time.Now(), save: true}
	if err := r.step(t, host.Booted{BootID: r.a.time.BootID(), Current: r.state.Machine.Current}); err != nil {
		return err
	}
	t.add(r.state.Resume())
	if err := r.finish(ctx, t); err != nil {
		return err
	}
	r.sweep()
	nudge(r.a.look)
	return nil
}

// run handles messages one by one until ctx ends.
func (r *reducer) run(ctx context.Context) error {
	defer r.worker.stop()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := time.Hour
		if due := r.state.Due(); due != 0 {
			wait = max(time.Millisecond, due.Sub(r.a.time.Now()).Std())
		}
		timer.Reset(min(wait, time.Hour))
		var m message
		select {
		case <-ctx.Done():
			return nil
		case m = <-r.a.inbox:
		case <-r.a.look:
			m = looked{}
		case <-r.a.contact:
			m = contacted{r.a.contactEra.Load()}
		case <-timer.C:
			m = elapsed{}
		}
		if err := r.handle(ctx, m); err != nil {
			return err
		}
	}
}

func (w worker) stop() { w.cancel() }

func (r *reducer) handle(ctx context.Context, m message) error {
	t := &turn{now: r.a.time.Now()}
	if err := m.apply(ctx, r, t); err != nil {
		return err
	}
	return r.finish(ctx, t)
}

// step moves the machine. An input that is not legal now is dropped and logged:
// it was true when it was sent and is not any more.
func (r *reducer) step(t *turn, in host.Input) error {
	before := r.state.Machine
	effects, notable, err := r.state.Step(in, t.now)
	if illegal := (*host.IllegalError)(nil); errors.As(err, &illegal) {
		r.a.cfg.Log.Debug("dropped an input", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	if notable {
		e, err := event.NewHostStepped(&before, &r.state.Machine, in)
		if err != nil {
			return err
		}
		t.report(e)
	}
	if after := &r.state.Machine; before.Phase != after.Phase {
		r.a.cfg.Log.Info("host moved", "from", before.Phase, "to", after.Phase, "input", in.Kind(),
			"rollout", after.Rollout, "cause", after.Cause, "detail", after.Detail)
	}
	t.add(effects)
	return nil
}

// finish makes the turn durable in one transaction, then carries it out.
func (r *reducer) finish(ctx context.Context, t *turn) error {
	if !t.save {
		return nil
	}
	before, after := r.a.status.Load().Machine, &r.state.Machine
	r.awaitContact(&before, after)
	if err := r.commit(context.WithoutCancel(ctx), t); err != nil {
		return err
	}
	if r.a.cut != nil {
		if err := r.a.cut(); err != nil {
			return err
		}
	}
	r.publish()
	if r.state.Offer == nil || r.state.Offer.Grant != r.worker.grant {
		r.worker.stop()
	}
	run := &carrying{r: r, ctx: ctx}
	for _, e := range t.effects {
		if err := e.Run(run); err != nil {
			return err
		}
	}
	if r.probing && (len(after.Probes) == 0 || after.Reverting) {
		r.startProbes(nil)
	}
	if len(t.events) > 0 {
		r.a.report()
	}
	if before.Phase != after.Phase || before.Manifest != after.Manifest {
		r.a.hosting.Changed()
	}
	if before.Phase != after.Phase && (after.Phase == host.Converged || after.Phase == host.Reverted) {
		r.sweep()
	}
	return nil
}

// awaitContact says what is contact after this turn. It comes before the commit: from
// there on the courier may bring this turn's events, and that nothing follows them for
// a whole interval of heartbeats must not make their acceptance count for nothing.
func (r *reducer) awaitContact(before, after *host.State) {
	if before.CompletedAt != after.CompletedAt || before.RevertedAt != after.RevertedAt {
		r.a.era.Add(1)
	}
	r.a.wantContact.Store(after.ConfirmBy != 0 || after.BlameBy != 0)
}

func (r *reducer) commit(ctx context.Context, t *turn) error {
	return r.a.store.Tx(ctx, func(tx *sql.Tx) error {
		d := &durable{r: r, ctx: ctx, tx: tx, t: t}
		for _, e := range t.events {
			if err := journal.Append(ctx, tx, t.now, e); err != nil {
				return err
			}
		}
		for _, e := range t.effects {
			if err := e.Run(d); err != nil {
				return err
			}
		}
		if t.manifest != "" {
			if err := r.keepManifest(ctx, tx, t); err != nil {
				return err
			}
		}
		return state.Put(ctx, tx, keyAgent, agentDoc{Agent: r.state, Now: t.now})
	})
}

// keepManifest stores the offer's manifest, for a proof or a revert later, and
// drops those that are of no use any more.
func (r *reducer) keepManifest(ctx context.Context, tx *sql.Tx, t *turn) error {
	r.a.follower.Hold(t.manifest, r.state.Machine.Manifest)
	if err := state.Drop(ctx, tx, keyManifest, t.manifest.Hex(), r.state.Machine.Manifest.Hex()); err != nil {
		return err
	}
	return state.Put(ctx, tx, keyManifest+t.manifest.Hex(), t.payload)
}

// publish makes the state readable for others.
func (r *reducer) publish() {
	m := r.state.Machine
	m.Probes = slices.Clone(m.Probes)
	s := &Status{
		Fleet: r.a.id.Fleet, Host: r.a.id.Host, Incarnation: r.a.id.Incarnation, BootID: r.a.time.BootID(),
		Machine: m, Quarantine: slices.Clone(r.state.Quarantine), MaxTerm: r.state.MaxTerm, Repairs: r.state.Repairs,
		Overrides: r.state.Overrides,
		Refused:   r.lastRefused, Current: m.Current, plan: r.state.Plan,
	}
	if r.state.Offer != nil {
		o := *r.state.Offer
		s.Offer = &o
	}
	r.a.status.Store(s)
}

// sweep removes blobs that neither what runs, nor a revert, nor an offer needs.
func (r *reducer) sweep() {
	if r.state.Offer != nil {
		return
	}
	m := &r.state.Machine
	if err := r.a.content.Sweep(m.Current, m.From, m.Target); err != nil {
		r.a.cfg.Log.Warn("old content was not removed", "error", err)
	}
}
