package operations

import (
	"context"
	"net/http"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
)

type promoteIn struct {
	Rollout string `path:"rollout" maxLength:"200"`
	Body    struct {
		Wave   string `json:"wave" minLength:"1" maxLength:"63" doc:"The held wave that is meant"`
		Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the log"`
	}
}

type freezeIn struct {
	Host string `path:"host" maxLength:"63"`
	Body struct {
		For    clock.Duration `json:"for" minimum:"1" doc:"Milliseconds, at most 90 days"`
		Reason string         `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the log"`
	}
}

type unfreezeIn struct {
	Host string `path:"host" maxLength:"63"`
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the log"`
	}
}

// steering adds what an operator may do to one wave, bundle or host.
func (h *Handler) steering() {
	add(h, post("promote-wave", "/rollouts/{rollout}/promote", "Let the held wave of a rollout pass", http.StatusNoContent), operating, h.promote)
	add(h, post("add-quarantine", "/quarantine/{channel}/{bundle}/add", "Refuse a bundle on a channel", http.StatusNoContent), operating, h.addQuarantine)
	add(h, post("freeze-host", "/hosts/{host}/freeze", "Give a host no grants for a while", http.StatusOK), operating, h.freeze)
	add(h, post("unfreeze-host", "/hosts/{host}/unfreeze", "End the freeze of a host", http.StatusNoContent), operating, h.unfreeze)
}

func (h *Handler) promote(ctx context.Context, in *promoteIn) (*none, error) {
	return &none{}, h.c.Promote(ctx, in.Rollout, in.Body.Wave, in.Body.Reason, actor(ctx))
}

func (h *Handler) addQuarantine(ctx context.Context, in *clearIn) (*none, error) {
	return &none{}, h.c.AddQuarantine(ctx, in.Channel, in.Bundle, in.Body.Reason, actor(ctx))
}

func (h *Handler) freeze(ctx context.Context, in *freezeIn) (*body[operator.Frozen], error) {
	until, err := h.c.Freeze(ctx, in.Host, in.Body.For, in.Body.Reason, actor(ctx))
	return &body[operator.Frozen]{operator.Frozen{Until: until}}, err
}

func (h *Handler) unfreeze(ctx context.Context, in *unfreezeIn) (*none, error) {
	return &none{}, h.c.Unfreeze(ctx, in.Host, in.Body.Reason, actor(ctx))
}
