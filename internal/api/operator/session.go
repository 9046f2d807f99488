package operator

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// SessionCookie names the cookie that holds a session. Browsers keep one of that name only
// when it is Secure, of the whole host, and of no other host.
const SessionCookie = "__Host-steady"

// LoginLink is a code that opens one session of the token that asked for it.
type LoginLink struct {
	Code    string        `json:"code"`
	Expires clock.Instant `json:"expires"`
}

// Login opens a session: by the secret of a token, or by a code.
type Login struct {
	Token string `json:"token,omitempty" maxLength:"200"`
	Code  string `json:"code,omitempty" maxLength:"200"`
}

// Me is who asks.
type Me struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Expires is when the session or token ends, zero for never.
	Expires clock.Instant `json:"expires"`
	// Session says that a browser logged in, and that it is not the token itself.
	Session bool `json:"session"`
	// Allowed are the ids of the operations that the role allows, in order.
	Allowed []string `json:"allowed"`
}

// LoginLink makes a code that logs a browser in once.
func (c *Client) LoginLink(ctx context.Context) (l LoginLink, err error) {
	return l, c.post(ctx, "/login-links", struct{}{}, &l)
}

// Me says who the token's bearer is.
func (c *Client) Me(ctx context.Context) (m Me, err error) {
	return m, c.get(ctx, "/me", nil, &m)
}

// UILink is the address of the page with which a code logs a browser in. The code stands behind
// the # for no server, proxy or log to see.
func (c *Client) UILink(l LoginLink) string { return c.base.JoinPath("/login").String() + "#" + l.Code }
