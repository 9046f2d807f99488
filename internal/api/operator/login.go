package operator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// LoginCookie names the cookie that holds a login. Browsers keep one of that name only
// when it is Secure, of the whole host, and of no other host.
const LoginCookie = "__Host-steady"

// LoginLink is a code that opens one login of the token that asked for it.
type LoginLink struct {
	Code    string        `json:"code"`
	Expires clock.Instant `json:"expires"`
}

// NewLogin opens a login: by the secret of a token, or by a code.
type NewLogin struct {
	Token string `json:"token,omitempty" maxLength:"200"`
	Code  string `json:"code,omitempty" maxLength:"200"`
}

// Me is who asks.
type Me struct {
	Name string `json:"name"`
	Role Role   `json:"role"`
	// Expires is when the login or token ends, zero for never.
	Expires clock.Instant `json:"expires"`
	// Login says that a browser logged in, and that it is not the token itself.
	Login bool `json:"login"`
	// Allowed are the ids of the operations that the role allows, in order.
	Allowed []string `json:"allowed"`
}

// UILink is where and how a browser logs in.
type UILink struct {
	// URL has the code behind its #, for no server, proxy or log to see.
	URL     string        `json:"url"`
	Expires clock.Instant `json:"expires"`
	// Certificate is the SHA-256 of the server's certificate, in hex, as browsers show it.
	Certificate string `json:"certificate"`
}

// UILink makes a link that logs a browser in once.
func (c *Client) UILink(ctx context.Context) (out UILink, err error) {
	resp, err := c.do(ctx, http.MethodPost, "/login-links", nil, strings.NewReader("{}"), "application/json")
	if err != nil {
		return out, err
	}
	sum := sha256.Sum256(resp.TLS.PeerCertificates[0].Raw)
	var l LoginLink
	err = answer(resp, &l)
	return UILink{URL: c.base.JoinPath("/login").String() + "#" + l.Code, Expires: l.Expires, Certificate: hex.EncodeToString(sum[:])}, err
}

// Me says who the token's bearer is.
func (c *Client) Me(ctx context.Context) (m Me, err error) {
	return m, c.get(ctx, "/me", nil, &m)
}
