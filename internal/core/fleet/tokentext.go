package fleet

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

const (
	// TokenPrefix begins the text form of a token.
	TokenPrefix = "steady1."
	// MaxTokenText bounds it, in bytes.
	MaxTokenText = 128 << 10
)

// TokenText is the text form of a token: one line with all that a new host or node needs to begin.
// Nothing here checks a signature.
type TokenText struct {
	Envelope []byte `json:"envelope"` // of the token, which is signed
	Server   string `json:"server"`   // https URL
	ServerCA []byte `json:"serverCA"` // PEM of the servers' authority
	Root     []byte `json:"root"`     // root envelope
}

// String returns the line: TokenPrefix and base64url.
func (t TokenText) String() string {
	raw, err := json.Marshal(t)
	if err != nil {
		panic("fleet: a TokenText is only bytes and text: " + err.Error())
	}
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// DecodeTokenText returns the JSON of a line. Space around it is ignored. The error says what was given
// instead, never with its content.
func DecodeTokenText(line string) ([]byte, error) {
	if len(line) > MaxTokenText {
		return nil, fmt.Errorf("a token of %d bytes is too long: at most %d are read", len(line), MaxTokenText)
	}
	body, ok := strings.CutPrefix(strings.TrimSpace(line), TokenPrefix)
	if !ok {
		return nil, errors.New(instead(strings.TrimSpace(line)))
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(body)
	if err != nil || !json.Valid(raw) {
		return nil, errors.New("the token is cut short or damaged: copy the whole line")
	}
	return raw, nil
}

// instead says what a text is that is no token.
func instead(text string) string {
	const begins = "a token is one line that begins with " + TokenPrefix
	var doc struct {
		PayloadType string `json:"payloadType"`
		Token       string `json:"token"`
	}
	label, isPEM := strings.CutPrefix(text, "-----BEGIN ")
	label, _, _ = strings.Cut(label, "-----")
	switch {
	case text == "":
		return "it is empty: " + begins
	case isPEM:
		return fmt.Sprintf("it is a PEM file (%.40q): %s", label, begins)
	case json.Unmarshal([]byte(text), &doc) != nil:
		return "it is no token: " + begins
	case strings.HasPrefix(doc.Token, TokenPrefix):
		return "it is the JSON of a command, and the token is its member \"token\": " + begins
	case strings.HasPrefix(doc.PayloadType, "steady/root"):
		return "it is a root of trust of the fleet: " + begins
	case doc.PayloadType != "":
		return fmt.Sprintf("it is a signed document of type %.60q by itself: %s", doc.PayloadType, begins)
	}
	return "it is a JSON document: " + begins
}

// TokenClaims are what a token says of itself. Nothing of it is checked.
type TokenClaims struct {
	Type    string        `json:"_type"`
	Fleet   string        `json:"fleet"`
	Host    string        `json:"host"`
	Node    string        `json:"node"`
	Expires clock.Instant `json:"expires"` // wall time
}

// TypeNodeToken is the type of a token that registers a node.
const TypeNodeToken = "steady/node-token/v1"

// ReadNodeToken returns the text of a line that is the token of a node, and what it says of itself.
func ReadNodeToken(line string) (t TokenText, c TokenClaims, err error) {
	raw, err := DecodeTokenText(line)
	if err != nil {
		return t, c, err
	}
	var envelope struct {
		Payload []byte `json:"payload"`
	}
	if json.Unmarshal(raw, &t) != nil || json.Unmarshal(t.Envelope, &envelope) != nil || json.Unmarshal(envelope.Payload, &c) != nil {
		return t, c, errors.New("the token is damaged: copy the whole line")
	}
	switch {
	case c.Host != "":
		return t, c, fmt.Errorf("it is the token of host %.63q, which an agent enrols with", c.Host)
	case c.Type != TypeNodeToken:
		return t, c, fmt.Errorf("it is a document of type %.60q, and no token of a node", c.Type)
	case c.Node == "" || t.Server == "" || !bytes.Contains(t.ServerCA, []byte("CERTIFICATE")):
		return t, c, errors.New("the token lacks the node, the server or its authority: make it again")
	}
	return t, c, nil
}
