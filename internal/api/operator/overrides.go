package operator

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/steadyfleet/steady/internal/core/gate"
)

// Override is one signed override that is in force.
type Override struct {
	gate.AcceptedOverride
	// Restricts says that it keeps hosts from something new; the others stand against
	// earlier ones that would.
	Restricts bool `json:"restricts"`
	// Signed is the envelope as it was pushed.
	Signed json.RawMessage `json:"signed,omitempty"`
}

// NewOverride brings a signed override.
type NewOverride struct {
	Signed json.RawMessage `json:"signed" doc:"The override as an operator signed it"`
}

// OverridePushed says what came of an override: News is false for one that was in
// force already.
type OverridePushed struct {
	Override
	News bool `json:"news"`
}

// Overrides lists the signed overrides in force, in the order of signing.
func (c *Client) Overrides(ctx context.Context) (list []Override, err error) {
	return list, c.get(ctx, "/overrides", nil, &list)
}

// Override returns one by its id, with its envelope.
func (c *Client) Override(ctx context.Context, id string) (o Override, err error) {
	return o, c.get(ctx, "/overrides/"+url.PathEscape(id), nil, &o)
}

// PushOverride brings a signed override to the server.
func (c *Client) PushOverride(ctx context.Context, signed []byte) (p OverridePushed, err error) {
	return p, c.post(ctx, "/overrides", NewOverride{Signed: signed}, &p)
}
