package operations

import (
	"context"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/wire"
)

func overrideRow(t gate.AcceptedOverride) operator.Override {
	return operator.Override{AcceptedOverride: t, Restricts: t.Action.Restricts()}
}

func (h *Handler) pushOverride(ctx context.Context, in *bodyIn[operator.NewOverride]) (operator.OverridePushed, error) {
	t, news, err := h.c.PushOverride(ctx, in.Body.Signed, actor(ctx))
	return operator.OverridePushed{Override: overrideRow(t), News: news}, err
}

func (h *Handler) overrides(ctx context.Context, _ *none) ([]operator.Override, error) {
	rows := []operator.Override{}
	err := h.c.View(ctx, func(s *plan.State) {
		for _, t := range s.Overrides.List() {
			rows = append(rows, overrideRow(t))
		}
	})
	return rows, err
}

func (h *Handler) override(ctx context.Context, in *idPath) (operator.Override, error) {
	var found *gate.AcceptedOverride
	err := h.c.View(ctx, func(s *plan.State) {
		for _, t := range s.Overrides.List() {
			if t.ID == in.ID {
				found = &t
			}
		}
	})
	if err != nil {
		return operator.Override{}, err
	}
	if found == nil {
		return operator.Override{}, wire.Refuse(wire.ErrNotFound, "no override %s is in force; steady override list shows them", in.ID)
	}
	row := overrideRow(*found)
	row.Signed, err = h.c.Blob(ctx, found.Envelope)
	return row, err
}

// signedQuarantine lists what operators quarantined by signature.
func signedQuarantine(s *plan.State) []operator.QuarantineRow {
	var rows []operator.QuarantineRow
	for _, t := range s.Overrides.List() {
		if t.Action == fleet.OverrideQuarantine {
			rows = append(rows, operator.QuarantineRow{Channel: t.Channel, Bundle: t.Bundle, Reason: t.Message()})
		}
	}
	return rows
}
