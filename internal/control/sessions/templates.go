package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/release/sessionfile"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Desired is what is desired of a row that a person set.
type Desired[D any] struct {
	Name string
	// Version is another one after each change; 0 where there is none.
	Version int64
	Value   D
}

// desired lists the rows of a kind that are not to go, by name.
func desired[D any](ctx context.Context, r *Runner, kind string) (all []Desired[D], err error) {
	rows, err := r.loop.List(ctx, engine.Filter{Kind: kind})
	for i := range rows {
		d, errD := desiredOf[D](&rows[i])
		if err = errors.Join(err, errD); d.Version > 0 {
			all = append(all, d)
		}
	}
	return all, err
}

func desiredOf[D any](row *engine.Row) (d Desired[D], err error) {
	if row.Delete || row.Phase.Terminal() {
		return d, nil
	}
	d.Name, d.Version = row.Ref.ID, row.Generation
	return d, json.Unmarshal(row.Desired, &d.Value)
}

// desiredAt is what is desired of one row; its version is 0 where there is none.
func desiredAt[D any](ctx context.Context, r *Runner, ref engine.Ref) (d Desired[D], err error) {
	row, err := r.loop.Get(ctx, ref)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		return d, nil
	case err != nil:
		return d, err
	}
	return desiredOf[D](&row)
}

// madeOn refuses a change that was made on another version than the present one; 0 is whichever there is.
func madeOn(ref engine.Ref, version, now int64) error {
	switch {
	case version == 0 || version == now:
		return nil
	case now == 0:
		return wire.Refuse(wire.ErrConflict, "%s %s was removed after you read version %d of it: nothing was set", ref.Kind, ref.ID, version)
	}
	return wire.Refuse(wire.ErrConflict, "%s %s was changed after you read version %d of it: it is version %d now; read it again, and make your change on that", ref.Kind, ref.ID, version, now)
}

// Templates lists the templates by name.
func (r *Runner) Templates(ctx context.Context) ([]Desired[session.Template], error) {
	return desired[session.Template](ctx, r, session.KindTemplate)
}

// Template is one template.
func (r *Runner) Template(ctx context.Context, name string) (Desired[session.Template], error) {
	t, err := desiredAt[session.Template](ctx, r, session.TemplateRef(name))
	if err == nil && t.Version == 0 {
		err = wire.Refuse(wire.ErrNotFound, "there is no template %s; steady session template list shows those there are", name)
	}
	return t, err
}

// PutTemplate sets a template, as a change of a version of it where one is given. Whoever set it first owns it: others
// may not change which hosts its jobs call, nor anything else of it, unless they may change all.
func (r *Runner) PutTemplate(ctx context.Context, name, document string, version int64, actor string, admin bool) error {
	written, t, problems := sessionfile.ReadTemplate("template", []byte(document), r.now())
	if t == nil {
		return wire.Refuse(wire.ErrInvalid, "%s", sessionfile.Text(problems))
	}
	if written != name {
		return wire.Refuse(wire.ErrInvalid, "the document is of template %s: expected %s", written, name)
	}
	r.admission.Lock()
	defer r.admission.Unlock()
	ref := session.TemplateRef(name)
	had, err := desiredAt[session.Template](ctx, r, ref)
	if err == nil {
		err = cmp.Or(mayChange(&had, actor, admin), madeOn(ref, version, had.Version))
	}
	if err != nil {
		return err
	}
	if t.Owner, t.Updated = had.Value.Owner, r.now().UTC(); had.Version == 0 {
		t.Owner = actor
		if all, err := r.Templates(ctx); err != nil {
			return err
		} else if len(all) >= session.MaxTemplates {
			return wire.Refuse(wire.ErrTooMuch, "there are %d templates already; remove one", len(all))
		}
	}
	_, err = r.loop.Apply(ctx, engine.Upsert(ref, t).WithGeneration(had.Version), by(actor))
	return err
}

// mayChange refuses those who may not change a template that there is.
func mayChange(had *Desired[session.Template], actor string, admin bool) error {
	if had.Version == 0 || admin || session.OwnerName(had.Value.Owner) == session.OwnerName(actor) {
		return nil
	}
	return wire.Refuse(wire.ErrForbidden, "template %s is owned by %s: ask them or an admin, or take another name", had.Name, had.Value.Owner)
}

// RemoveTemplate removes a template. Sessions that were made of it stay.
func (r *Runner) RemoveTemplate(ctx context.Context, name, actor string, admin bool) error {
	r.admission.Lock()
	defer r.admission.Unlock()
	had, err := r.Template(ctx, name)
	if err == nil {
		err = mayChange(&had, actor, admin)
	}
	if err != nil {
		return err
	}
	_, err = r.loop.Apply(ctx, engine.Delete(session.TemplateRef(name)), by(actor))
	return err
}

// Quotas lists the quotas by owner.
func (r *Runner) Quotas(ctx context.Context) ([]Desired[session.Quota], error) {
	return desired[session.Quota](ctx, r, session.KindQuota)
}

// SetQuota sets the quota of an owner, or those of its bounds alone that only names, as a change of a version of it
// where one is given. One without a bound is removed. Sessions that there are stay.
func (r *Runner) SetQuota(ctx context.Context, owner string, q session.Quota, only []string, version int64, actor string) error {
	r.admission.Lock()
	defer r.admission.Unlock()
	ref := session.QuotaRef(owner)
	had, err := desiredAt[session.Quota](ctx, r, ref)
	if err == nil {
		err = madeOn(ref, version, had.Version)
	}
	if err != nil {
		return err
	}
	found := session.CheckQuota(owner, &q)
	if len(only) > 0 {
		q = had.Value.With(q, only, &found)
	}
	if len(found) > 0 {
		return wire.Refuse(wire.ErrInvalid, "%s", found.Error())
	}
	in := engine.Upsert(ref, q).WithGeneration(had.Version)
	if q.IsZero() {
		in = engine.Delete(ref)
	}
	_, err = r.loop.Apply(ctx, in, by(actor))
	return err
}

// made is a session that is asked for, with the parts of its template if it is of one.
func (r *Runner) made(ctx context.Context, name string, s session.Spec, parameters map[string]any) (session.Spec, error) {
	if s.Template == "" {
		if parameters != nil {
			return s, wire.Refuse(wire.ErrInvalid, "only a session of a template has parameters")
		}
		return s, nil
	}
	if len(s.Parts) > 0 || len(s.Calls) > 0 || s.OnFailure != "" {
		return s, wire.Refuse(wire.ErrInvalid, "parts, calls and onFailure are those of template %s: leave them out", s.Template)
	}
	t, err := r.Template(ctx, s.Template)
	if err != nil {
		return s, err
	}
	out, err := sessionfile.Instantiate(&t.Value, s.Template, name, parameters, r.now())
	if err != nil {
		if found, ok := errors.AsType[session.Problems](err); ok {
			return s, refuse(name, found)
		}
		return s, wire.Refuse(wire.ErrInvalid, "session %s of template %s: %v", name, s.Template, err)
	}
	out.Timeslot = s.Timeslot
	return out, nil
}

// check refuses a session that is not sound.
func (r *Runner) check(name string, s *session.Spec) error {
	return refuse(name, session.Validate(name, s, r.now()))
}

// refuse refuses a session for what is wrong with it.
func refuse(name string, err error) error {
	p, ok := errors.AsType[session.Problems](err)
	if !ok || len(p) == 0 {
		return err
	}
	refusal := &wire.Refusal{Kind: wire.ErrInvalid, Message: "session " + name + " is not accepted"}
	for _, x := range p {
		refusal.Problems = append(refusal.Problems, spec.Problem{Path: []string{x.Path}, Message: x.Message})
	}
	return refusal
}

// oneAtATime has the sessions of an owner with a quota set one after another, each checked against those before.
// Without one nobody waits for another's to be durable.
func (r *Runner) oneAtATime(ctx context.Context, owner string) (release func(), err error) {
	q, err := r.quotaOf(ctx, owner)
	if err != nil {
		return nil, err
	}
	if q.IsZero() {
		return func() {}, nil
	}
	r.admission.Lock()
	return r.admission.Unlock, nil
}

// quotaOf is the quota of an owner, or that of everybody.
func (r *Runner) quotaOf(ctx context.Context, owner string) (q session.OwnersQuota, err error) {
	err = r.srv.ViewState(ctx, func(s *server.State) { q = session.QuotaOf(s.Rows, owner) })
	return q, err
}

// begin begins the life of a session that is asked for, or refuses it.
func (r *Runner) begin(ctx context.Context, name string, s *session.Spec, actor string) error {
	s.Owner, s.Created = actor, r.now().UTC()
	s.SetAttempts(r.attempts)
	if err := r.check(name, s); err != nil {
		return err
	}
	if err := refuse(name, session.CheckNew(s, r.now())); err != nil {
		return err
	}
	if err := s.Bind(name); err != nil {
		return err
	}
	return r.admit(ctx, name, s)
}

// admit refuses a session that is not sound, or beyond the quota of its owner.
func (r *Runner) admit(ctx context.Context, name string, s *session.Spec) error {
	if err := r.check(name, s); err != nil {
		return err
	}
	if found := r.checkBounds(name, s); len(found) > 0 {
		return refuse(name, found)
	}
	q, err := r.quotaOf(ctx, s.Owner)
	if err != nil || q.IsZero() {
		return err
	}
	rows, err := r.loop.List(ctx, engine.Filter{Kind: session.KindSession})
	if err != nil {
		return err
	}
	return refuse(name, q.Exceeded(rows, name, s))
}
