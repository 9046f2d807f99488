package sessions

import (
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

// desired lists what is desired of the rows of a kind that are not to go, by their ids.
func desired[D any](ctx context.Context, r *Runner, kind string) (ids []string, all []D, err error) {
	failed := r.srv.ViewState(ctx, func(s *server.State) {
		for _, row := range s.Rows.List(engine.Filter{Kind: kind}) {
			if row.Delete || row.Phase.Terminal() {
				continue
			}
			var d D
			if err = json.Unmarshal(row.Desired, &d); err != nil {
				return
			}
			ids, all = append(ids, row.Ref.ID), append(all, d)
		}
	})
	return ids, all, errors.Join(failed, err)
}

// Templates lists the templates by name.
func (r *Runner) Templates(ctx context.Context) ([]string, []session.Template, error) {
	return desired[session.Template](ctx, r, session.KindTemplate)
}

// Template is one template.
func (r *Runner) Template(ctx context.Context, name string) (t session.Template, err error) {
	row, err := r.loop.Get(ctx, session.TemplateRef(name))
	switch {
	case errors.Is(err, engine.ErrNotFound), err == nil && (row.Delete || row.Phase.Terminal()):
		return t, wire.Refuse(wire.ErrNotFound, "there is no template %s; steady session template list shows those there are", name)
	case err != nil:
		return t, err
	}
	return t, json.Unmarshal(row.Desired, &t)
}

// PutTemplate sets a template. Whoever set it first owns it: others may not change which hosts its
// jobs call, nor anything else of it, unless they may change all.
func (r *Runner) PutTemplate(ctx context.Context, name, document, actor string, admin bool) error {
	written, t, problems := sessionfile.ReadTemplate("template", []byte(document), r.now())
	if t == nil {
		return wire.Refuse(wire.ErrInvalid, "%s", sessionfile.Text(problems))
	}
	if written != name {
		return wire.Refuse(wire.ErrInvalid, "the document is of template %s: expected %s", written, name)
	}
	r.admission.Lock()
	defer r.admission.Unlock()
	owner, err := r.mayChange(ctx, name, actor, admin)
	if err != nil {
		return err
	}
	names, _, err := r.Templates(ctx)
	if err != nil {
		return err
	}
	if owner == "" && len(names) >= session.MaxTemplates {
		return wire.Refuse(wire.ErrTooMuch, "there are %d templates already; remove one", len(names))
	}
	if t.Owner, t.Updated = owner, r.now().UTC(); owner == "" {
		t.Owner = actor
	}
	_, err = r.loop.Apply(ctx, engine.Upsert(session.TemplateRef(name), t), by(actor))
	return err
}

// mayChange returns the owner of a template, empty if there is none, and refuses those who may not change it.
func (r *Runner) mayChange(ctx context.Context, name, actor string, admin bool) (owner string, err error) {
	had, err := r.Template(ctx, name)
	switch {
	case errors.Is(err, wire.ErrNotFound):
		return "", nil
	case err != nil:
		return "", err
	case session.OwnerName(had.Owner) != session.OwnerName(actor) && !admin:
		return "", wire.Refuse(wire.ErrForbidden, "template %s is owned by %s: ask them or an admin, or take another name", name, had.Owner)
	}
	return had.Owner, nil
}

// RemoveTemplate removes a template. Sessions that were made of it stay.
func (r *Runner) RemoveTemplate(ctx context.Context, name, actor string, admin bool) error {
	if _, err := r.Template(ctx, name); err != nil {
		return err
	}
	if _, err := r.mayChange(ctx, name, actor, admin); err != nil {
		return err
	}
	_, err := r.loop.Apply(ctx, engine.Delete(session.TemplateRef(name)), by(actor))
	return err
}

// Quotas lists the quotas by owner.
func (r *Runner) Quotas(ctx context.Context) ([]string, []session.Quota, error) {
	return desired[session.Quota](ctx, r, session.KindQuota)
}

// SetQuota sets the quota of an owner; one without a bound is removed. Sessions that there are stay.
func (r *Runner) SetQuota(ctx context.Context, owner string, q session.Quota, actor string) error {
	if found := session.CheckQuota(owner, &q); len(found) > 0 {
		return wire.Refuse(wire.ErrInvalid, "%s", found.Error())
	}
	in := engine.Upsert(session.QuotaRef(owner), q)
	if q.IsZero() {
		in = engine.Delete(session.QuotaRef(owner))
	}
	_, err := r.loop.Apply(ctx, in, by(actor))
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
	out, err := sessionfile.Instantiate(&t, s.Template, name, parameters, r.now())
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
	bounded := false
	if err := r.srv.ViewState(ctx, func(s *server.State) {
		q, _ := session.QuotaOf(s.Rows, owner)
		bounded = !q.IsZero()
	}); err != nil {
		return nil, err
	}
	if !bounded {
		return func() {}, nil
	}
	r.admission.Lock()
	return r.admission.Unlock, nil
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
	var err error
	failed := r.srv.ViewState(ctx, func(st *server.State) { err = session.Exceeded(st.Rows, name, s) })
	return errors.Join(failed, refuse(name, err))
}
