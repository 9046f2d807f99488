package operations

import (
	"context"

	"github.com/steadyfleet/steady/internal/api/operator"
)

// attending registers the routes of the inbox.
func (h *Handler) attending() {
	add(h, get("list-attention", "/attention", "List what needs a person, the worst first"), viewing, h.attention)
	do(h, post("acknowledge", "/attention/ack", "Say that you know of an item of that list"), operating, func(ctx context.Context, in *bodyIn[operator.Acknowledge]) error {
		return h.c.Acknowledge(ctx, in.Body.Kind, in.Body.Name, in.Body.Until, in.Body.Note, actor(ctx))
	})
}

func (h *Handler) attention(ctx context.Context, in *AtRecord) (operator.Inbox, error) {
	c, err := h.at(ctx, in)
	if err != nil {
		return operator.Inbox{}, err
	}
	list, err := c.Attention(ctx)
	return operator.NewInbox(list), err
}
