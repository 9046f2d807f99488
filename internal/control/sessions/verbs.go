package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// by is the cause of what an operator asks for.
func by(actor string) engine.Cause {
	return engine.Cause{Trigger: engine.TriggerOperator, ID: actor}
}

// Create asks for a session, of a template with parameters if it names one. One of that name must not be
// there, unless it is retired.
func (r *Runner) Create(ctx context.Context, name string, s session.Spec, parameters map[string]any, actor string) error {
	s, err := r.made(ctx, name, s, parameters)
	if err != nil {
		return err
	}
	release, err := r.oneAtATime(ctx, actor)
	if err != nil {
		return err
	}
	defer release()
	if err := r.begin(ctx, name, &s, actor); err != nil {
		return err
	}
	_, err = r.loop.Apply(ctx, session.Intent(name, &s).WithGeneration(0).Because("asked for by "+actor), by(actor))
	if errors.Is(err, engine.ErrConflict) {
		return wire.Refuse(wire.ErrConflict, "session %s is there already; choose another name, or stop it first: steady session stop %s", name, name)
	}
	return err
}

// Preview says where the pods of a session would go now, and reserves nothing. Pods of parts that
// wait for others are placed as if they came up at once. Room is when the pod that is refused is likely to get a host;
// zero if that is not known.
func (r *Runner) Preview(ctx context.Context, name string, s session.Spec, parameters map[string]any, actor string) (out place.Placement, room time.Time, err error) {
	s, err = r.made(ctx, name, s, parameters)
	if err != nil {
		return out, room, err
	}
	if err := r.begin(ctx, name, &s, actor); err != nil {
		return out, room, err
	}
	if err := r.learn(ctx); err != nil {
		return out, room, err
	}
	var requests []place.Request
	for _, p := range s.Parts {
		for _, pod := range p.Pods {
			spec := session.PodSpec{Pod: pod, Timeslot: s.Timeslot}
			request := spec.Request(engine.Ref{Kind: session.KindPod, ID: name + "/" + p.Name + "/" + pod.Name})
			request.OutOfBounds, _ = r.outOfBounds(name, &pod)
			requests = append(requests, request)
		}
	}
	in, err := r.scene(ctx)
	if err != nil {
		return out, room, err
	}
	calendar := in.ready()
	out = calendar.PlaceAll(requests)
	for _, request := range requests {
		if out.Refused == nil || request.Owner != out.Refused.Owner {
			continue
		}
		request.Slot.From = max(request.Slot.From, clock.FromTime(r.now()))
		if at, found := calendar.Earliest(request, request.Slot.From.Add(clock.FromStd(session.MaxLength))); found && at > request.Slot.From {
			room = at.Time()
		}
	}
	return out, room, nil
}

func unknown(name string) error {
	return wire.Refuse(wire.ErrNotFound, "there is no session %s; steady session list shows those there are", name)
}

// maxChanges bounds how often a change is decided anew, because the session was stopped or ended meanwhile.
const maxChanges = 10

// change rewrites what is desired of a session that is not over, as it is when that is set. Why is what was done, for
// the history.
func (r *Runner) change(ctx context.Context, name, actor, why string, edit func(*session.Spec) error) error {
	r.admission.Lock()
	defer r.admission.Unlock()
	for range maxChanges {
		in, err := r.changed(ctx, name, edit)
		if err != nil {
			return err
		}
		if _, err := r.loop.Apply(ctx, in.Because(why+" by "+actor), by(actor)); !errors.Is(err, engine.ErrConflict) {
			return err
		}
	}
	return wire.Refuse(wire.ErrConflict, "session %s changes all the while; try again", name)
}

func (r *Runner) changed(ctx context.Context, name string, edit func(*session.Spec) error) (in engine.Intent, err error) {
	row, err := r.loop.Get(ctx, session.Ref(name))
	switch {
	case errors.Is(err, reconcile.ErrNotFound):
		return in, unknown(name)
	case err != nil:
		return in, err
	case row.Delete || row.Phase.Terminal():
		return in, over(&row)
	}
	var s session.Spec
	if err := json.Unmarshal(row.Desired, &s); err != nil {
		return in, fmt.Errorf("read session %s: %w", name, err)
	}
	if err := edit(&s); err != nil {
		return in, err
	}
	return session.Intent(name, &s).WithGeneration(row.Generation), r.check(name, &s)
}

// over refuses what is asked of a session that is being taken down, or was.
func over(row *engine.Row) error {
	why := row.Reason.WhyDeleted()
	if row.Phase.Terminal() {
		why = row.Reason.Text()
	}
	if why != "" {
		why = ": " + why
	}
	return wire.Refuse(wire.ErrConflict, "session %s is over%s", row.Ref.ID, why)
}

// Extend moves the end of a session, and its cleanup deadline by as much. It is refused where its hosts are
// booked by others then.
func (r *Runner) Extend(ctx context.Context, name string, end time.Time, actor string) error {
	_, err := r.moveEnd(ctx, name, actor, func(time.Time) time.Time { return end })
	return err
}

// ExtendBy moves the end of a session by a span from where it is when that is decided, and returns where it is then.
func (r *Runner) ExtendBy(ctx context.Context, name string, by time.Duration, actor string) (end time.Time, err error) {
	return r.moveEnd(ctx, name, actor, func(end time.Time) time.Time { return end.Add(by) })
}

func (r *Runner) moveEnd(ctx context.Context, name, actor string, to func(time.Time) time.Time) (end time.Time, err error) {
	err = r.change(ctx, name, actor, "its end was moved", func(s *session.Spec) error {
		end = to(s.Timeslot.End)
		grow := end.Sub(s.Timeslot.End)
		s.Timeslot.End, s.Timeslot.CleanupDeadline = end, s.Timeslot.CleanupDeadline.Add(grow)
		if err := r.admit(ctx, name, s); err != nil {
			return err
		}
		return r.fits(ctx, name, s)
	})
	return end, err
}

// fits refuses a timeslot for which the hosts of a session have no room.
func (r *Runner) fits(ctx context.Context, name string, s *session.Spec) error {
	var taken []string
	err := r.srv.ViewState(ctx, func(st *server.State) {
		for ref, b := range st.Booked.All() { // order-free: sorted below
			if session.Of(ref) != name {
				continue
			}
			pod := session.PodSpec{Timeslot: s.Timeslot}
			want := b
			want.Slot = pod.Request(ref).Slot
			if !r.books(st, ref, &want) {
				taken = append(taken, b.Host)
			}
		}
	})
	if err != nil || len(taken) == 0 {
		return err
	}
	slices.Sort(taken)
	return wire.Refuse(wire.ErrConflict, "session %s cannot have that timeslot: others have booked %s between %s and %s", name,
		strings.Join(slices.Compact(taken), ", "), s.Timeslot.ProvisionAt.Format(time.RFC3339), s.Timeslot.CleanupDeadline.Format(time.RFC3339))
}

// Start has a session that was to come up later come up now. It is refused where its hosts are booked by others.
func (r *Runner) Start(ctx context.Context, name, actor string) error {
	return r.change(ctx, name, actor, "started before its time", func(s *session.Spec) error {
		now := r.now().UTC()
		if !now.Before(s.Timeslot.ProvisionAt) {
			return wire.Refuse(wire.ErrConflict, "session %s was not changed: its timeslot began at %s", name, s.Timeslot.ProvisionAt.Format(time.RFC3339))
		}
		s.Timeslot.ProvisionAt, s.Timeslot.Start = now, now
		if err := r.admit(ctx, name, s); err != nil {
			return err
		}
		return r.fits(ctx, name, s)
	})
}

// Cancel takes back a session of which nothing has come up.
func (r *Runner) Cancel(ctx context.Context, name, actor string) error {
	err := r.change(ctx, name, actor, "checked", func(s *session.Spec) error {
		if !r.now().Before(s.Timeslot.ProvisionAt) {
			return wire.Refuse(wire.ErrConflict, "session %s was not cancelled: its timeslot began at %s; steady session stop %s ends it", name, s.Timeslot.ProvisionAt.Format(time.RFC3339), name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.end(ctx, name, actor, "cancelled")
}

// SetPart stops or starts one part of a session.
func (r *Runner) SetPart(ctx context.Context, name, part string, stopped bool, actor string) error {
	done := "started"
	if stopped {
		done = "stopped"
	}
	return r.change(ctx, name, actor, "part "+part+" was "+done, func(s *session.Spec) error {
		for i := range s.Parts {
			if s.Parts[i].Name == part {
				if s.Parts[i].Stopped == stopped {
					return wire.Refuse(wire.ErrConflict, "part %s of session %s was not changed: it is %s already", part, name, done)
				}
				s.Parts[i].Stopped, s.Parts[i].Late = stopped, !r.now().Before(s.Timeslot.Start)
				return nil
			}
		}
		return wire.Refuse(wire.ErrNotFound, "session %s has no part %s", name, part)
	})
}

// Stop takes a session down, whatever of it is there.
func (r *Runner) Stop(ctx context.Context, name, actor string) error {
	return r.end(ctx, name, actor, "stopped")
}

func (r *Runner) end(ctx context.Context, name, actor, why string) error {
	switch row, err := r.loop.Get(ctx, session.Ref(name)); {
	case errors.Is(err, reconcile.ErrNotFound):
		return unknown(name)
	case err == nil && row.Phase.Terminal():
		return over(&row)
	}
	_, err := r.loop.Apply(ctx, engine.Delete(session.Ref(name)).Because(why+" by "+actor), by(actor))
	return err
}

// Reconcile has everything of a session looked at now, orphans too: a host may have returned.
func (r *Runner) Reconcile(ctx context.Context, name, actor string) error {
	var refs, orphans []engine.Ref
	if err := r.srv.ViewState(ctx, func(s *server.State) {
		for _, row := range s.Rows.List(engine.Filter{}) {
			switch {
			case session.Of(row.Ref) != name:
			case row.Phase == engine.Orphaned:
				orphans = append(orphans, row.Ref)
			default:
				refs = append(refs, row.Ref)
			}
		}
	}); err != nil {
		return err
	}
	if len(refs)+len(orphans) == 0 {
		return unknown(name)
	}
	for _, ref := range orphans {
		if _, err := r.loop.Apply(ctx, engine.Retry(ref).Because("checked again by "+actor), by(actor)); err != nil {
			return err
		}
	}
	for _, ref := range refs {
		r.loop.Enqueue(ref, by(actor))
	}
	return nil
}

// RetryPhase has a phase, PART/PHASE, begin anew.
func (r *Runner) RetryPhase(ctx context.Context, name, phase, id, actor string) error {
	switch row, err := r.loop.Get(ctx, session.Ref(name)); {
	case errors.Is(err, engine.ErrNotFound):
		return unknown(name)
	case err == nil && (row.Delete || row.Phase.Terminal()):
		return over(&row)
	}
	ref := engine.Ref{Kind: session.KindPhase, ID: name + "/" + phase}
	if row, err := r.loop.Get(ctx, ref); err == nil && (row.Delete || row.Phase.Terminal()) {
		return wire.Refuse(wire.ErrConflict, "phase %s of session %s does not begin anew: its part is stopped or failed; steady session stop %[2]s PART, then steady session start %[2]s PART, has it come up again", phase, name)
	}
	err := r.loop.Deliver(ctx, ref, engine.Event{Source: "steady", ID: "retry-" + id, Type: session.RetryEvent})
	if err == nil {
		_, err = r.loop.Apply(ctx, engine.Retry(ref).Because("to begin anew, asked for by "+actor), by(actor))
	}
	if errors.Is(err, engine.ErrNotFound) {
		return wire.Refuse(wire.ErrNotFound, "session %s has no phase %s that has begun", name, phase)
	}
	return err
}

// Receive takes an event for a session, or for a phase PART/PHASE of it, which is durable when Receive
// returns. One that was received before is taken again without effect.
func (r *Runner) Receive(ctx context.Context, name, phase string, e engine.Event) error {
	if session.Reserved(e.Type) || e.Source == "steady" {
		return wire.Refuse(wire.ErrInvalid, "events of steady itself are not accepted from outside")
	}
	ref := session.Ref(name)
	if phase != "" {
		ref = engine.Ref{Kind: session.KindPhase, ID: name + "/" + phase}
	}
	row, err := r.loop.Get(ctx, ref)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		return wire.Refuse(wire.ErrNotFound, "there is no session or phase %s that takes events", ref.ID)
	case err != nil:
		return err
	case row.Delete || row.Phase.Terminal() || ref.Kind == session.KindPhase && row.Phase == engine.Converged && !r.known(ctx, ref, e):
		return wire.Refuse(wire.ErrConflict, "%s %s is over", ref.Kind, ref.ID)
	}
	if err := r.wanted(ctx, row, e); err != nil {
		return err
	}
	err = r.loop.Deliver(ctx, ref, e)
	switch {
	case errors.Is(err, engine.ErrEventTooLarge):
		return wire.Refuse(wire.ErrInvalid, "%v", err)
	case errors.Is(err, engine.ErrEventUnnamed):
		return wire.Refuse(wire.ErrInvalid, "%v", err)
	case errors.Is(err, engine.ErrInboxFull):
		return wire.Refuse(wire.ErrTooMuch, "%v", err)
	}
	return err
}

// wanted refuses an event that nothing waits for where it could take the place of one that something does: the
// inbox of a phase is for what ends it, and half of a session's for types that gates still wait for.
func (r *Runner) wanted(ctx context.Context, row engine.Row, e engine.Event) error {
	if row.Ref.Kind == session.KindPhase {
		var ph session.Phase
		if err := json.Unmarshal(row.Desired, &ph); err != nil {
			return fmt.Errorf("read %s: %w", row.Ref, err)
		}
		if e.Type == ph.Await {
			return nil
		}
		if ph.Await == "" {
			return wire.Refuse(wire.ErrInvalid, "%s awaits no event", row.Ref)
		}
		return wire.Refuse(wire.ErrInvalid, "%s awaits events of type %s, and takes none of type %s", row.Ref, ph.Await, e.Type)
	}
	var s session.Spec
	if err := json.Unmarshal(row.Desired, &s); err != nil {
		return fmt.Errorf("read %s: %w", row.Ref, err)
	}
	return logStore{r}.read(ctx, func(t *engine.Table) error {
		snap, err := t.Load(row.Ref)
		if err == nil && len(snap.Events) >= engine.MaxUnhandled/2 && !s.Waits(e.Type, snap.Events) && !holds(snap.Events, e) {
			return wire.Refuse(wire.ErrTooMuch, "session %s was sent %d events; it takes only those that a gate still waits for", row.Ref.ID, len(snap.Events))
		}
		return err
	})
}

func holds(events []engine.Event, e engine.Event) bool {
	return slices.ContainsFunc(events, func(x engine.Event) bool { return x.Source == e.Source && x.ID == e.ID })
}

// known reports whether a resource received an event before.
func (r *Runner) known(ctx context.Context, ref engine.Ref, e engine.Event) (known bool) {
	err := logStore{r}.read(ctx, func(t *engine.Table) error {
		snap, err := t.Load(ref)
		known = holds(snap.Events, e)
		return err
	})
	return known && err == nil
}

// Attention lists the rows that need a person.
func (r *Runner) Attention(ctx context.Context) ([]engine.Row, error) { return r.loop.Attention(ctx) }

// AcknowledgeAll takes all rows of a session off the list of those that need a person.
func (r *Runner) AcknowledgeAll(ctx context.Context, name, note, actor string) error {
	rows, err := r.loop.Attention(ctx)
	for i := range rows {
		if err == nil && session.Of(rows[i].Ref) == name {
			_, err = r.loop.Apply(ctx, engine.Acknowledge(rows[i].Ref, note), by(actor))
		}
	}
	return err
}

// Acknowledge takes a row off the list of those that need a person.
func (r *Runner) Acknowledge(ctx context.Context, ref engine.Ref, note, actor string) error {
	switch row, err := r.loop.Get(ctx, ref); {
	case errors.Is(err, engine.ErrNotFound), err == nil && !row.Alerts():
		return wire.Refuse(wire.ErrNotFound, "%s does not need a person; steady attention lists what does", ref)
	case err != nil:
		return err
	}
	_, err := r.loop.Apply(ctx, engine.Acknowledge(ref, note), by(actor))
	return err
}
