package identity

import (
	"crypto/ed25519"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/trust"
)

// TypeNodeToken is the type of a token that registers a node.
const TypeNodeToken = fleet.TypeNodeToken

// NodeToken lets one node register once. It is signed by the enrol role, never by a
// server. That it is used once is the business of the server's log.
type NodeToken struct {
	fleet.Document
	// ID is 32 hexadecimal digits, drawn at random.
	ID      string        `json:"id"`
	Node    string        `json:"node"`
	Expires clock.Instant `json:"expires"` // wall time
	// KeyDigest, when set, is PublicDigest of the only key that may register.
	KeyDigest digest.Digest `json:"keyDigest,omitempty"`
}

// SignNodeToken encodes and signs a token. Type is filled in; Version is 1 unless set.
func SignNodeToken(t NodeToken, signers ...trust.Signer) ([]byte, error) {
	t.Type, t.Version = TypeNodeToken, max(t.Version, 1)
	if err := t.check(); err != nil {
		return nil, err
	}
	payload, err := trust.Canonical(t)
	if err != nil {
		return nil, err
	}
	return trust.Sign(TypeNodeToken, payload, signers...)
}

func (t *NodeToken) check() error {
	if err := fleet.CheckName(t.Node); err != nil {
		return tokenError(TokenMalformed, "node %v", err)
	}
	return checkSingleUse(t.Document, t.ID, t.Expires)
}

// VerifyNodeToken checks a token against the trusted root at the given wall time, and that
// it is for this node and key. Errors are *TokenError.
func VerifyNodeToken(v trust.Verifier, env []byte, wall clock.Instant, node string, key ed25519.PublicKey) (NodeToken, error) {
	t, err := verifyNodeToken(v, env, wall)
	if err != nil {
		return NodeToken{}, err
	}
	if t.Node != node {
		return NodeToken{}, tokenError(TokenWrongNode, "the token is for node %s, not %s", t.Node, node)
	}
	got, err := PublicDigest(key)
	if err != nil {
		return NodeToken{}, tokenError(TokenWrongKey, "%v", err)
	}
	if t.KeyDigest != "" && got != t.KeyDigest {
		return NodeToken{}, tokenError(TokenWrongKey, "the token is for key %s, not %s", t.KeyDigest.Short(), got.Short())
	}
	return t, nil
}

func verifyNodeToken(v trust.Verifier, env []byte, wall clock.Instant) (NodeToken, error) {
	var t NodeToken
	if _, err := v.Open(trust.RoleEnrol, TypeNodeToken, env, &t, &t.Document); err != nil {
		return NodeToken{}, &TokenError{Code: TokenUntrusted, Message: err.Error(), cause: err}
	}
	if err := t.check(); err != nil {
		return NodeToken{}, err
	}
	return t, checkCurrent(v, t.Document, t.Expires, wall, "steady node token "+t.Node)
}

// UnverifiedNode is Unverified for the token of a node. One of a host is an error.
func (t TokenText) UnverifiedNode() (NodeToken, error) {
	var claimed NodeToken
	if err := t.claims(&claimed); err != nil {
		return NodeToken{}, err
	}
	if claimed.Type != TypeNodeToken {
		return NodeToken{}, tokenError(TokenMalformed, "it is no token of a node; make one with steady node token NAME")
	}
	return claimed, nil
}

// CheckNode checks the token of a node under the root that comes with it.
func (t TokenText) CheckNode(wall clock.Instant) (NodeToken, error) {
	claimed, err := t.UnverifiedNode()
	if err != nil {
		return NodeToken{}, err
	}
	v, _, err := t.begin(claimed.Fleet, "")
	if err != nil {
		return NodeToken{}, err
	}
	return verifyNodeToken(v, t.Envelope, wall)
}
