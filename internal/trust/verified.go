package trust

import (
	"errors"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// Verified holds a T whose origin was checked up to the trusted root. Nobody
// outside this package can make one that holds anything: effects that take a
// Verified cannot be fed from a server's reply.
type Verified[T any] struct{ p *proven[T] }

type proven[T any] struct {
	value  T
	digest digest.Digest
	at     clock.Instant
}

// Value returns what was verified. Its maps and slices are shared: do not
// change them. It panics on the zero Verified, which holds nothing.
func (v Verified[T]) Value() T {
	if v.p == nil {
		panic("trust: Value of a Verified that holds nothing")
	}
	return v.p.value
}

// Digest names the bytes that were verified: the payload of an envelope, or the
// document itself where a signed parent named it. Empty on the zero Verified.
func (v Verified[T]) Digest() digest.Digest {
	if v.p == nil {
		return ""
	}
	return v.p.digest
}

// IsZero reports whether v holds nothing.
func (v Verified[T]) IsZero() bool { return v.p == nil }

// MarshalJSON always fails: what was verified is kept as the bytes that were
// signed, and verified or recalled again when it is read.
func (v Verified[T]) MarshalJSON() ([]byte, error) { return nil, errNotStored }

// UnmarshalJSON always fails, as MarshalJSON does.
func (v *Verified[T]) UnmarshalJSON([]byte) error { return errNotStored }

var errNotStored = errors.New("a verified value is not stored; keep the signed bytes and verify them again")

// prove is the only place where a Verified is filled.
func prove[T any](value T, d digest.Digest, at clock.Instant) Verified[T] {
	return Verified[T]{&proven[T]{value: value, digest: d, at: at}}
}

func needParent[T any](v Verified[T], what string) error {
	if v.p == nil {
		return refuse(ManifestMissing, "no verified %s to check against; verify it first", what)
	}
	return nil
}
