package operations

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/override"
	"github.com/steadyfleet/steady/internal/core/plan"
)

type overrideIn struct {
	Body struct {
		Signed json.RawMessage `json:"signed" doc:"The override as an operator signed it"`
	}
}

func (h *Handler) overriding() {
	add(h, post("push-override", "/overrides", "Bring an override that an operator signed", http.StatusOK), operating, h.pushOverride)
	add(h, huma.Operation{OperationID: "list-overrides", Method: http.MethodGet, Path: "/overrides",
		Summary: "The signed overrides in force"}, viewing, h.overrides)
	add(h, huma.Operation{OperationID: "show-override", Method: http.MethodGet, Path: "/overrides/{id}",
		Summary: "One signed override in force, with what was signed"}, viewing, h.override)
}

func overrideRow(t override.Taken) operator.Override {
	return operator.Override{Taken: t, Holds: t.Action.Holds()}
}

func (h *Handler) pushOverride(ctx context.Context, in *overrideIn) (*body[operator.OverridePushed], error) {
	t, news, err := h.c.PushOverride(ctx, in.Body.Signed, actor(ctx))
	return &body[operator.OverridePushed]{operator.OverridePushed{Override: overrideRow(t), News: news}}, err
}

func (h *Handler) overrides(ctx context.Context, _ *none) (*body[[]operator.Override], error) {
	rows := []operator.Override{}
	err := h.c.View(ctx, func(s *plan.State) {
		for _, t := range s.Overrides.List() {
			rows = append(rows, overrideRow(t))
		}
	})
	return &body[[]operator.Override]{rows}, err
}

func (h *Handler) override(ctx context.Context, in *idPath) (*body[operator.Override], error) {
	var found *override.Taken
	err := h.c.View(ctx, func(s *plan.State) {
		for _, t := range s.Overrides.List() {
			if t.ID == in.ID {
				found = &t
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, &refusal.Error{Kind: refusal.ErrNotFound, Words: "no override " + in.ID + " is in force; steady override list shows them"}
	}
	row := overrideRow(*found)
	row.Signed, err = h.c.Blob(ctx, found.Envelope)
	return &body[operator.Override]{row}, err
}

// signedQuarantine lists what operators quarantined by signature.
func signedQuarantine(s *plan.State) []operator.QuarantineRow {
	var rows []operator.QuarantineRow
	for _, t := range s.Overrides.List() {
		if t.Action == fleet.OverrideQuarantine {
			rows = append(rows, operator.QuarantineRow{Channel: t.Channel, Bundle: t.Bundle, Reason: t.Words()})
		}
	}
	return rows
}
