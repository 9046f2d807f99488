package operations

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/control/sessions"
	"github.com/steadyfleet/steady/internal/core/session"
)

type (
	templateIn struct {
		Name string `path:"name" maxLength:"63"`
	}
	putTemplateIn struct {
		Name string `path:"name" maxLength:"63"`
		Body operator.PutTemplate
	}
	quotaIn struct {
		Owner string `path:"owner" maxLength:"64"`
		Body  operator.SetQuota
	}
)

// maxTemplate bounds a template in a request, in bytes; one in JSON is longer than as it was written.
const maxTemplate = 2 * session.MaxTemplate

// sessionTemplates registers the routes of templates and quotas of sessions.
func (h *Handler) sessionTemplates() {
	s := h.c.Sessions()
	add(h, get("list-templates", "/session-templates", "List the templates of sessions"), viewing, func(ctx context.Context, _ *none) ([]operator.SessionTemplate, error) {
		all, err := s.Templates(ctx)
		out := []operator.SessionTemplate{}
		for i := range all {
			t := template(&all[i])
			t.Document = ""
			out = append(out, t)
		}
		return out, err
	})
	add(h, get("show-template", "/session-templates/{name}", "Show a template with its document"), viewing, func(ctx context.Context, in *templateIn) (operator.SessionTemplate, error) {
		t, err := s.Template(ctx, in.Name)
		return template(&t), err
	})
	do(h, huma.Operation{OperationID: "put-template", Method: http.MethodPost, Path: "/session-templates/{name}", Summary: "Set a template of sessions", MaxBodyBytes: maxTemplate}, operating, func(ctx context.Context, in *putTemplateIn) error {
		return s.PutTemplate(ctx, in.Name, in.Body.Document, in.Body.Version, actor(ctx), isAdmin(ctx))
	})
	do(h, post("remove-template", "/session-templates/{name}/remove", "Remove a template; sessions made of it stay"), operating, func(ctx context.Context, in *templateIn) error {
		return s.RemoveTemplate(ctx, in.Name, actor(ctx), isAdmin(ctx))
	})
	add(h, get("list-quotas", "/session-quotas", "List what owners of sessions may take"), viewing, func(ctx context.Context, _ *none) ([]operator.OwnerQuota, error) {
		all, err := s.Quotas(ctx)
		out := []operator.OwnerQuota{}
		for _, q := range all {
			out = append(out, operator.OwnerQuota{Owner: q.Name, Version: q.Version, Quota: q.Value})
		}
		return out, err
	})
	do(h, post("set-quota", "/session-quotas/{owner}", "Bound what the sessions of an owner take, or of everybody without a quota of their own; without a bound there is none"), admin, func(ctx context.Context, in *quotaIn) error {
		return s.SetQuota(ctx, in.Owner, in.Body.Quota, in.Body.Only, in.Body.Version, actor(ctx))
	})
}

func template(of *sessions.Desired[session.Template]) operator.SessionTemplate {
	t := &of.Value
	out := operator.SessionTemplate{Name: of.Name, Version: of.Version, Owner: t.Owner, Description: t.Description, Updated: t.Updated, Parameters: t.Parameters, Document: t.Document}
	if out.Parameters == nil {
		out.Parameters = []session.Parameter{}
	}
	return out
}

func isAdmin(ctx context.Context) bool {
	who, _ := ctx.Value(actorKey{}).(control.Operator)
	return operator.Role(who.Role) == operator.Admin
}
