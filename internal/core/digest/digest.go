// Package digest names content by its SHA-256. A digest is always taken over
// the bytes as received, never over a value encoded again. It is a package of its own
// because nearly every other one names content, and it imports none of them.
package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Prefix starts every digest; it names the only algorithm in use.
const Prefix = "sha256:"

// Digest is "sha256:" and 64 lower-case hexadecimal digits, or empty for none.
type Digest string

// Of returns the digest of b.
func Of(b []byte) Digest {
	sum := sha256.Sum256(b)
	return Digest(Prefix + hex.EncodeToString(sum[:]))
}

// Parse checks that s is a well-formed digest.
func Parse(s string) (Digest, error) {
	h, ok := strings.CutPrefix(s, Prefix)
	if !ok || len(h) != sha256.Size*2 || strings.ToLower(h) != h {
		return "", fmt.Errorf("%q is not a digest: expected sha256: and 64 lower-case hexadecimal digits", s)
	}
	if _, err := hex.DecodeString(h); err != nil {
		return "", fmt.Errorf("%q is not a digest: %w", s, err)
	}
	return Digest(s), nil
}

// AppendIn appends the digests that stand anywhere in a text, in order.
func AppendIn(dst []Digest, text []byte) []Digest {
	for {
		at := bytes.Index(text, []byte(Prefix))
		if at < 0 {
			return dst
		}
		text = text[at:]
		if end := len(Prefix) + 2*sha256.Size; len(text) >= end {
			if d, err := Parse(string(text[:end])); err == nil {
				dst = append(dst, d)
			}
		}
		text = text[len(Prefix):]
	}
}

// Hex returns the hexadecimal part, which is safe as a file name.
func (d Digest) Hex() string { return strings.TrimPrefix(string(d), Prefix) }

// Short returns the first 12 hexadecimal digits, for people.
func (d Digest) Short() string {
	h := d.Hex()
	if len(h) > 12 {
		h = h[:12]
	}
	return h
}

// UnmarshalText refuses a malformed digest, so that none enters by decoding.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*d = ""
		return nil
	}
	p, err := Parse(string(b))
	if err != nil {
		return err
	}
	*d = p
	return nil
}
