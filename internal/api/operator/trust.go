package operator

import (
	"context"
	"net/url"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// MaxRootsBody bounds the message of one push, in bytes.
const MaxRootsBody = 16 << 20

// Roots is a chain of root envelopes, from any version on.
type Roots struct {
	Roots [][]byte `json:"roots" minItems:"1" maxItems:"1024" doc:"Root envelopes in order of their versions"`
}

// RootsPushed says what came of them.
type RootsPushed struct {
	Version  uint64 `json:"version" doc:"Of the root that is trusted now"`
	Epoch    uint64 `json:"epoch"`
	Accepted int    `json:"accepted" doc:"How many were new"`
	// ReleaseValid says that the newest release holds under the root; Next is what
	// to do when it does not.
	ReleaseValid bool   `json:"releaseValid"`
	Next         string `json:"next,omitempty"`
}

// RootInfo is the trusted root.
type RootInfo struct {
	Version uint64        `json:"version"`
	Epoch   uint64        `json:"epoch"`
	Expires clock.Instant `json:"expires"`
}

// RevokeHost ends the certificates of a host.
func (c *Client) RevokeHost(ctx context.Context, host, reason string) error {
	return c.post(ctx, "/hosts/"+url.PathEscape(host)+"/revoke", Verb{Reason: reason}, nil)
}

// DecommissionHost revokes a host and retires it.
func (c *Client) DecommissionHost(ctx context.Context, host, reason string) error {
	return c.post(ctx, "/hosts/"+url.PathEscape(host)+"/decommission", Verb{Reason: reason}, nil)
}

// PushRoots sends a chain of roots.
func (c *Client) PushRoots(ctx context.Context, chain [][]byte) (p RootsPushed, err error) {
	return p, c.post(ctx, "/roots", Roots{Roots: chain}, &p)
}
