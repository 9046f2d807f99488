package operator

import (
	"context"
	"net/url"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Promotion is the body of a promotion: Wave is the held one that is meant.
type Promotion struct {
	Wave   string `json:"wave" minLength:"1" maxLength:"63" doc:"The wave whose gate is passed"`
	Reason string `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the log"`
}

// Retried says what a rollout that is tried again is tried on: Hosts are offered it once
// no gate holds them, Refusing ones quarantined it themselves and take it only after a
// signed retry. WaveName is the first wave that is open again.
type Retried struct {
	Rollout  string   `json:"rollout"`
	WaveName string   `json:"waveName"`
	Hosts    []string `json:"hosts,omitempty"`
	Refusing []string `json:"refusing,omitempty"`
	// Override is the signed override that it was done by, if it was one.
	Override string `json:"override,omitempty"`
}

// Retry has a rollout tried again.
func (c *Client) Retry(ctx context.Context, id, reason string) (r Retried, err error) {
	return r, c.post(ctx, "/rollouts/"+url.PathEscape(id)+"/retry", Verb{Reason: reason}, &r)
}

// Freeze is the body of a freeze.
type Freeze struct {
	For    clock.Duration `json:"for" minimum:"1" doc:"Milliseconds, at most 90 days"`
	Reason string         `json:"reason" minLength:"1" maxLength:"1000" doc:"Why, for the log"`
}

// Frozen says until when a host is frozen.
type Frozen struct {
	Until clock.Instant `json:"until"`
}

// Promote lets the held wave of a rollout pass.
func (c *Client) Promote(ctx context.Context, id, wave, reason string) error {
	return c.post(ctx, "/rollouts/"+url.PathEscape(id)+"/promote", Promotion{Wave: wave, Reason: reason}, nil)
}

// AddQuarantine refuses a bundle on a channel; bundle is a digest, or the first
// 12 digits of one that a rollout of the channel targets.
func (c *Client) AddQuarantine(ctx context.Context, channel, bundle, reason string) error {
	return c.post(ctx, "/quarantine/"+url.PathEscape(channel)+"/"+url.PathEscape(bundle)+"/add", Verb{Reason: reason}, nil)
}

// Freeze gives a host no grants for a while, but to go back.
func (c *Client) Freeze(ctx context.Context, host string, d clock.Duration, reason string) (f Frozen, err error) {
	return f, c.post(ctx, "/hosts/"+url.PathEscape(host)+"/freeze", Freeze{For: d, Reason: reason}, &f)
}

// Unfreeze ends the freeze of a host.
func (c *Client) Unfreeze(ctx context.Context, host, reason string) error {
	return c.post(ctx, "/hosts/"+url.PathEscape(host)+"/unfreeze", Verb{Reason: reason}, nil)
}
