package trust

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Caps, checked before anything is parsed. Bytes unless said otherwise.
const (
	MaxEnvelope   = 4 << 20
	MaxLeaf       = 256 << 10
	MaxBundle     = 4 << 20
	MaxList       = 64 << 20 // rosters, revocations, budget members
	MaxSignatures = 16       // per envelope
)

// Signature is one signature of an envelope.
type Signature struct {
	KeyID string `json:"keyid"`
	Sig   []byte `json:"sig"`
}

// Envelope is a DSSE envelope taken apart. Nothing in it is trusted yet.
type Envelope struct {
	PayloadType string
	Payload     []byte
	Signatures  []Signature
}

type wireEnvelope struct {
	Payload     string          `json:"payload"`
	PayloadType string          `json:"payloadType"`
	Signatures  []wireSignature `json:"signatures"`
}

type wireSignature struct {
	KeyID string `json:"keyid"`
	Sig   string `json:"sig"`
}

// PAE is the DSSE pre-authentication encoding: the bytes that are signed.
func PAE(payloadType string, payload []byte) []byte {
	var b bytes.Buffer
	b.WriteString("DSSEv1 ")
	b.WriteString(strconv.Itoa(len(payloadType)))
	b.WriteByte(' ')
	b.WriteString(payloadType)
	b.WriteByte(' ')
	b.WriteString(strconv.Itoa(len(payload)))
	b.WriteByte(' ')
	b.Write(payload)
	return b.Bytes()
}

// KeyID names a public key: the SHA-256 of its SPKI DER in lower-case
// hexadecimal. Only Ed25519 keys sign documents.
func KeyID(pub ed25519.PublicKey) (string, error) {
	der, err := marshalPublic(pub)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

func marshalPublic(pub ed25519.PublicKey) ([]byte, error) {
	if len(pub) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("an Ed25519 public key has %d bytes, not %d", ed25519.PublicKeySize, len(pub))
	}
	return x509.MarshalPKIXPublicKey(pub)
}

// Signer signs documents with one key. The key may live outside the process.
type Signer struct {
	id  string
	pub ed25519.PublicKey
	key crypto.Signer
}

// NewSigner wraps an Ed25519 key.
func NewSigner(key crypto.Signer) (Signer, error) {
	pub, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return Signer{}, fmt.Errorf("documents are signed with Ed25519 keys, not %T; make one with steady keys init", key.Public())
	}
	id, err := KeyID(pub)
	if err != nil {
		return Signer{}, err
	}
	return Signer{id: id, pub: pub, key: key}, nil
}

// KeyID returns the name of the signer's key.
func (s Signer) KeyID() string { return s.id }

// Public returns the signer's public key.
func (s Signer) Public() ed25519.PublicKey { return s.pub }

// Sign wraps payload in an envelope with one signature per signer. It needs 1
// to MaxSignatures signers with distinct keys.
func Sign(payloadType string, payload []byte, signers ...Signer) ([]byte, error) {
	return seal(Envelope{PayloadType: payloadType, Payload: payload}, signers)
}

func signDocument(docType string, document any, signers []Signer) ([]byte, error) {
	payload, err := Canonical(document)
	if err != nil {
		return nil, err
	}
	return Sign(docType, payload, signers...)
}

// AddSignatures signs the payload of an existing envelope too, as the holders
// of a threshold do one after the other. A signer who is already there is
// refused.
func AddSignatures(env []byte, signers ...Signer) ([]byte, error) {
	e, err := ParseEnvelope(env)
	if err != nil {
		return nil, err
	}
	return seal(e, signers)
}

func seal(e Envelope, signers []Signer) ([]byte, error) {
	if e.PayloadType == "" || len(signers) == 0 {
		return nil, errors.New("an envelope needs a payload type and at least one signer")
	}
	message := PAE(e.PayloadType, e.Payload)
	for _, s := range signers {
		if s.key == nil {
			return nil, errors.New("a signer without a key cannot sign; make it with NewSigner")
		}
		sig, err := s.key.Sign(rand.Reader, message, crypto.Hash(0))
		if err != nil {
			return nil, fmt.Errorf("sign with key %s: %w", short(s.id), err)
		}
		e.Signatures = append(e.Signatures, Signature{KeyID: s.id, Sig: sig})
	}
	raw, err := e.encode()
	if err != nil {
		return nil, fmt.Errorf("encode envelope: %w", err)
	}
	if _, err := ParseEnvelope(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// ParseEnvelope takes an envelope apart without trusting it. It refuses one
// over MaxEnvelope, with duplicate keys or trailing data, with other than 1 to
// MaxSignatures signatures, with two signatures of one key, and base64 that is
// not the canonical standard form. Unknown fields are ignored, as DSSE asks.
func ParseEnvelope(raw []byte) (Envelope, error) { return parseEnvelope(raw, 1) }

func parseEnvelope(raw []byte, least int) (Envelope, error) {
	if len(raw) == 0 {
		return Envelope{}, refuse(ManifestMissing, "there is no document")
	}
	var w wireEnvelope
	if err := Decode(raw, MaxEnvelope, &w); err != nil {
		return Envelope{}, err
	}
	if w.PayloadType == "" || w.Payload == "" {
		return Envelope{}, refuse(Malformed, "an envelope needs payload and payloadType")
	}
	if n := len(w.Signatures); n < least || n > MaxSignatures {
		return Envelope{}, refuse(Malformed, "an envelope needs %d to %d signatures, this one has %d", least, MaxSignatures, n)
	}
	e := Envelope{PayloadType: w.PayloadType}
	var err error
	if e.Payload, err = canonicalBase64(w.Payload); err != nil {
		return Envelope{}, refuse(Malformed, "envelope payload: %v", err)
	}
	seen := map[string]bool{}
	for _, s := range w.Signatures {
		if seen[s.KeyID] {
			return Envelope{}, refuse(Malformed, "key %s signed twice", short(s.KeyID))
		}
		seen[s.KeyID] = true
		sig, err := canonicalBase64(s.Sig)
		if err != nil {
			return Envelope{}, refuse(Malformed, "signature of key %s: %v", short(s.KeyID), err)
		}
		e.Signatures = append(e.Signatures, Signature{KeyID: s.KeyID, Sig: sig})
	}
	return e, nil
}

func canonicalBase64(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") { // all that a strict decoder passes over
		return nil, errors.New("base64 is not in its canonical form")
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}

// short abbreviates a key id for people, quoting whatever a stranger sent.
func short(id string) string {
	if len(id) > 12 {
		id = id[:12]
	}
	return strconv.Quote(id)
}
