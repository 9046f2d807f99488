package operations

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
)

type rootsIn struct{ Body operator.Roots }

func (h *Handler) trusting() {
	add(h, huma.Operation{OperationID: "push-roots", Method: http.MethodPost, Path: "/roots",
		Summary: "Push roots that follow the trusted one", MaxBodyBytes: operator.MaxRootsBody}, admin, h.pushRoots)
	add(h, post("revoke-host", "/hosts/{host}/revoke", "End the certificates of a host", http.StatusNoContent), operating, h.revokeHost)
	add(h, post("decommission-host", "/hosts/{host}/decommission", "Revoke a host and retire it", http.StatusNoContent), operating, h.decommissionHost)
}

type endIn struct {
	Host string `path:"host" maxLength:"63"`
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the log"`
	}
}

func (h *Handler) revokeHost(ctx context.Context, in *endIn) (*none, error) {
	return &none{}, h.c.RevokeHost(ctx, in.Host, in.Body.Reason, actor(ctx))
}

func (h *Handler) decommissionHost(ctx context.Context, in *endIn) (*none, error) {
	return &none{}, h.c.DecommissionHost(ctx, in.Host, in.Body.Reason, actor(ctx))
}

func (h *Handler) pushRoots(ctx context.Context, in *rootsIn) (*body[operator.RootsPushed], error) {
	p, err := h.c.PushRoots(ctx, in.Body.Roots, actor(ctx))
	if err != nil {
		return nil, err
	}
	out := operator.RootsPushed{Version: p.Version, Epoch: p.Epoch, Accepted: p.Accepted, ReleaseValid: p.Standing == nil}
	switch {
	case p.Standing == nil:
	case p.Ended:
		out.Next = "steady release build && steady release sign && steady release push"
	default:
		out.Next = "steady release sign && steady release push"
	}
	return &body[operator.RootsPushed]{out}, nil
}

func (h *Handler) rootInfo() operator.RootInfo {
	r := h.c.Root()
	return operator.RootInfo{Version: r.Version, Epoch: r.Epoch, Expires: r.Expires}
}
