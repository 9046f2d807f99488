package identity

import (
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/trust"
)

// TypeToken is the type of an enrolment token.
const TypeToken = "steady/token/v1"

const (
	// TokenLife is how long a token is good by default.
	TokenLife = clock.Hour
	// MaxTokenLife bounds what a token may ask for.
	MaxTokenLife = 24 * clock.Hour
	// MaxTokenText bounds the text form, in bytes.
	MaxTokenText = fleet.MaxTokenText
)

// Token lets one host enrol once. It is signed by the enrol role, never by a
// server. That it is used once is the business of the server's log.
type Token struct {
	fleet.Document
	// ID is 32 hexadecimal digits, drawn at random.
	ID      string        `json:"id"`
	Host    string        `json:"host"`
	Expires clock.Instant `json:"expires"` // wall time
	// KeyDigest, when set, is PublicDigest of the only key that may enrol.
	KeyDigest digest.Digest `json:"keyDigest"`
	// EventKeyDigest, when set, is PublicDigest of the host's event key;
	// otherwise the first one offered is trusted.
	EventKeyDigest digest.Digest `json:"eventKeyDigest"`
	// RootDigest names the payload of the root that the host begins with.
	RootDigest digest.Digest `json:"rootDigest"`
	// RenamedFrom is the name that the host had; what it runs goes on.
	RenamedFrom string `json:"renamedFrom,omitempty"`
	// MinVersions holds, per document type, the oldest version the host takes.
	MinVersions map[string]uint64 `json:"minVersions"`
}

// TokenErrorCode says what is wrong with a token.
type TokenErrorCode string

// The codes of a TokenError.
const (
	TokenMalformed TokenErrorCode = "token-malformed"
	TokenUntrusted TokenErrorCode = "token-untrusted" // not signed by the enrol role of the trusted root
	TokenExpired   TokenErrorCode = "token-expired"
	TokenWrongKey  TokenErrorCode = "token-wrong-key"
	TokenWrongNode TokenErrorCode = "token-wrong-node"
)

// TokenError is a refused token.
type TokenError struct {
	Code    TokenErrorCode
	Message string
	cause   error
}

func (e *TokenError) Error() string { return string(e.Code) + ": " + e.Message }

// Unwrap returns the trust error behind TokenUntrusted.
func (e *TokenError) Unwrap() error { return e.cause }

func tokenError(code TokenErrorCode, format string, args ...any) error {
	return &TokenError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// SignToken encodes and signs a token. Type is filled in; Version is 1 unless set.
func SignToken(t Token, signers ...trust.Signer) ([]byte, error) {
	t.Type = TypeToken
	t.Version = max(t.Version, 1)
	if err := t.check(); err != nil {
		return nil, err
	}
	payload, err := trust.Canonical(t)
	if err != nil {
		return nil, err
	}
	return trust.Sign(TypeToken, payload, signers...)
}

func (t *Token) check() error {
	if err := fleet.CheckName(t.Host); err != nil {
		return tokenError(TokenMalformed, "host %v", err)
	}
	if t.RenamedFrom != "" {
		if err := fleet.CheckName(t.RenamedFrom); err != nil || t.RenamedFrom == t.Host {
			return tokenError(TokenMalformed, "host %s was renamed from %q, which is no other name", t.Host, t.RenamedFrom)
		}
	}
	if t.RootDigest == "" {
		return tokenError(TokenMalformed, "a token names the root that the host begins with")
	}
	return checkSingleUse(t.Document, t.ID, t.Expires)
}

// checkSingleUse checks what every token has: an ID, and a life that is not too long.
func checkSingleUse(d fleet.Document, id string, expires clock.Instant) error {
	raw, err := hex.DecodeString(id)
	if err != nil || len(raw) != 16 || hex.EncodeToString(raw) != id {
		return tokenError(TokenMalformed, "the id must be 32 lower-case hexadecimal digits")
	}
	if life := expires.Sub(d.IssuedAt); life <= 0 || life > MaxTokenLife {
		return tokenError(TokenMalformed, "a token lasts at most %s, this one %s", MaxTokenLife, life)
	}
	return nil
}

// checkCurrent refuses a token at a wall time that is not within its life; again is the
// command that makes another.
func checkCurrent(v trust.Verifier, d fleet.Document, expires, wall clock.Instant, again string) error {
	now := v.State().Now(wall)
	if now >= expires {
		return tokenError(TokenExpired, "the token expired at %s; make a new one with %s", expires, again)
	}
	if d.IssuedAt > now.Add(trust.Slack) {
		return tokenError(TokenExpired, "the token was issued at %s and it is %s; check the clocks", d.IssuedAt, now)
	}
	return nil
}

// VerifyToken checks a token against the trusted root at the given wall time
// and returns it. Errors are *TokenError.
func VerifyToken(v trust.Verifier, env []byte, wall clock.Instant) (Token, error) {
	var t Token
	if _, err := v.Open(trust.RoleEnrol, TypeToken, env, &t, &t.Document); err != nil {
		return Token{}, &TokenError{Code: TokenUntrusted, Message: err.Error(), cause: err}
	}
	if err := t.check(); err != nil {
		return Token{}, err
	}
	if err := checkCurrent(v, t.Document, t.Expires, wall, "steady token create "+t.Host); err != nil {
		return Token{}, err
	}
	return t, nil
}

// CheckKeys refuses keys other than those that the token names: the CSR's, and
// the host's event key.
func (t *Token) CheckKeys(csr *x509.CertificateRequest, eventKey any) error {
	for _, k := range []struct {
		what string
		want digest.Digest
		pub  any
		next string
	}{
		{"certificate", t.KeyDigest, csr.PublicKey, "make a token for the right key, or one that names none"},
		{"event", t.EventKeyDigest, eventKey, "steady agent keygen --state DIR prints on the host which it has; if the host is " +
			"the right one, make a token for that key: steady token create " + t.Host + " --key DIGEST"},
	} {
		got, err := PublicDigest(k.pub)
		if err != nil {
			return tokenError(TokenWrongKey, "the %s key: %v", k.what, err)
		}
		if k.want != "" && got != k.want {
			return tokenError(TokenWrongKey, "the token is for %s key %s, not %s; %s", k.what, k.want.Short(), got.Short(), k.next)
		}
	}
	return nil
}

// TokenText is all that a new host needs, as one line to copy.
type TokenText fleet.TokenText

// String returns the line.
func (t TokenText) String() string { return fleet.TokenText(t).String() }

// ParseTokenText reads such a line. Space around it is ignored. Errors are
// *TokenError.
func ParseTokenText(s string) (TokenText, error) {
	var t TokenText
	raw, err := fleet.DecodeTokenText(s)
	if err != nil {
		return t, tokenError(TokenMalformed, "%v", err)
	}
	if err := trust.Decode(raw, MaxTokenText, &t); err != nil {
		return TokenText{}, tokenError(TokenMalformed, "%v", err)
	}
	u, err := url.Parse(t.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return TokenText{}, tokenError(TokenMalformed, "server %q is not an https URL", t.Server)
	}
	if _, err := ParseCertificate(t.ServerCA); err != nil {
		return TokenText{}, tokenError(TokenMalformed, "server CA: %v", err)
	}
	return t, nil
}

// Unverified reads what the token says of itself, for messages to people.
// Nothing of it is checked.
func (t TokenText) Unverified() (claimed Token, err error) { return claimed, t.claims(&claimed) }

// claims decodes what the token says of itself.
func (t TokenText) claims(into any) error {
	e, err := trust.ParseEnvelope(t.Envelope)
	if err == nil {
		err = trust.Decode(e.Payload, MaxTokenText, into)
	}
	if err != nil {
		return &TokenError{Code: TokenMalformed, Message: err.Error(), cause: err}
	}
	return nil
}

// Begin is what a new host does with a token at the given wall time: it trusts
// the token's root, checks the token under it, and returns the first state, with
// marks at the token's least versions. The fleet is the one that the root names.
func (t TokenText) Begin(wall clock.Instant) (Token, trust.State, error) {
	claimed, err := t.Unverified()
	if err != nil {
		return Token{}, trust.State{}, err
	}
	v, state, err := t.begin(claimed.Fleet, claimed.RootDigest)
	if err != nil {
		return Token{}, trust.State{}, err
	}
	token, err := VerifyToken(v, t.Envelope, wall)
	if err != nil {
		return Token{}, trust.State{}, err
	}
	if token.RootDigest == "" {
		return Token{}, trust.State{}, tokenError(TokenMalformed, "the token names no root")
	}
	return token, state.AtLeast(token.Epoch, maps.Clone(token.MinVersions)), nil
}

// begin trusts the token's root.
func (t TokenText) begin(fleetName string, root digest.Digest) (v trust.Verifier, state trust.State, err error) {
	if state, err = trust.Begin(fleetName, t.Root, root); err == nil {
		v, err = trust.NewVerifier(fleetName, state)
	}
	if err != nil {
		err = &TokenError{Code: TokenUntrusted, Message: err.Error(), cause: err}
	}
	return v, state, err
}
