package agentcmd

import (
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
)

// A token of another host than the folder's is a mix-up of folders; one of the
// same host, or one that is gone, is how a service starts again and again.
func TestTokenOfAnotherHost(t *testing.T) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	now := clock.FromTime(time.Now())
	env, err := identity.SignToken(identity.Token{
		Document: fleet.Document{Fleet: "acme", Epoch: 1, IssuedAt: now}, ID: strings.Repeat("0", 32),
		Host: "web-1", Expires: now.Add(clock.Hour), RootDigest: digest.Of([]byte("root")),
	}, signer)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := identity.CreateAuthority(t.TempDir(), identity.Servers, "acme", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	text := identity.TokenText{Envelope: env, Server: "https://127.0.0.1:1", ServerCA: ca.PEM(), Root: []byte("{}")}.String()
	for _, c := range []struct {
		fleet, host, token string
		ok                 bool
	}{
		{"acme", "web-1", text, true},
		{"acme", "web-1", "/nonexistent/token", true},
		{"acme", "web-2", text, false},
		{"other", "web-1", text, false},
	} {
		if err := sameHost(agent.Status{Fleet: c.fleet, Host: c.host}, c.token); (err == nil) != c.ok {
			t.Errorf("%s of %s: %v", c.host, c.fleet, err)
		}
	}
}
