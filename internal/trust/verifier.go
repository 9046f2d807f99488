package trust

import (
	"bytes"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Slack is how far clocks may differ before a signed time counts.
const Slack = 60 * clock.Second

// Verifier checks documents of one fleet against a State. It is a value and
// changes nothing: calls return the next State, and With continues from it.
type Verifier struct {
	fleet  string
	state  State
	ring   *keyring
	memory *Memory // or nil
}

// Begin trusts a first root: the one whose payload digest is want, as a token
// or an image names it. An empty want trusts whatever root it is given, for an
// operator's own file only.
func Begin(fleetName string, rootEnv []byte, want digest.Digest) (State, error) {
	e, err := ParseEnvelope(rootEnv)
	if err != nil {
		return State{}, err
	}
	if got := digest.Of(e.Payload); want != "" && got != want {
		return State{}, refuse(RootInvalid, "root %s is not the expected %s", got.Short(), want.Short())
	}
	ring, err := openRoot(fleetName, e)
	if err != nil {
		return State{}, err
	}
	if err := (*Memory)(nil).verify(e.only(RoleRoot, ring), RoleRoot, ring); err != nil {
		return State{}, err
	}
	s := State{Root: rootEnv}.clone()
	return s.advance(ring.root.Document, digest.Of(e.Payload))
}

// NewVerifier checks the state's root, which must be there, and returns a
// verifier for the fleet.
func NewVerifier(fleetName string, s State) (Verifier, error) {
	return (*Memory)(nil).NewVerifier(fleetName, s)
}

// With continues from the next state.
func (v Verifier) With(s State) (Verifier, error) {
	if v.ring != nil && bytes.Equal(s.Root, v.state.Root) {
		v.state = s
		return v, nil
	}
	return v.memory.NewVerifier(v.fleet, s)
}

// State returns the state that v checks against.
func (v Verifier) State() State { return v.state }

// Fleet returns the fleet's name.
func (v Verifier) Fleet() string { return v.fleet }

// RootVersion returns the version of the trusted root: the server is asked for
// the one after it until it has none.
func (v Verifier) RootVersion() uint64 {
	return v.RootDocument().Version
}

// Epoch returns the key epoch of the trusted root; every document must be of it.
func (v Verifier) Epoch() uint64 {
	return v.RootDocument().Epoch
}

// decodeRoot reads a root and its keys without trusting it.
func decodeRoot(e Envelope) (*keyring, error) {
	if e.PayloadType != TypeRoot {
		return nil, refuse(ManifestVerifyFailed, "this is a %q, not a %q", e.PayloadType, TypeRoot)
	}
	var r Root
	if err := Decode(e.Payload, MaxEnvelope, &r); err != nil {
		return nil, err
	}
	return r.compile()
}

// openRoot is decodeRoot of a root of the fleet.
func openRoot(fleetName string, e Envelope) (*keyring, error) {
	ring, err := decodeRoot(e)
	if err == nil && ring.root.Fleet != fleetName {
		err = refuse(WrongFleet, "the root is of fleet %q, not %q", ring.root.Fleet, fleetName)
	}
	return ring, err
}

// Root accepts the root that follows the trusted one: version N+1, signed by
// the root roles of N and of N+1, of the same fleet, its epoch not lower. The
// trusted root itself is accepted again without effect. Expiry is checked when
// a timestamp is, so that a host can catch up over expired ones.
func (v Verifier) Root(env []byte) (State, error) {
	if v.ring == nil {
		return State{}, refuse(RootInvalid, "no trusted root to start from")
	}
	if bytes.Equal(env, v.state.Root) {
		return v.state, nil
	}
	e, err := ParseEnvelope(env)
	if err != nil {
		return State{}, err
	}
	if err := v.memory.verify(e.only(RoleRoot, v.ring), RoleRoot, v.ring); err != nil {
		return State{}, err
	}
	next, err := openRoot(v.fleet, e)
	if err != nil {
		return State{}, err
	}
	if err := v.memory.verify(e, RoleRoot, v.ring, next); err != nil {
		return State{}, err
	}
	if err := next.follows(v.ring); err != nil {
		return State{}, err
	}
	s, err := v.state.advance(next.root.Document, digest.Of(e.Payload))
	if err != nil {
		return State{}, err
	}
	s.Root = bytes.Clone(env)
	return s, nil
}

// Open checks that env is a document of docType signed by role, and decodes its
// payload into the struct that into points at; head must be the Document in it.
// It returns the payload's digest. Versions are not compared. It is for types
// that live outside this package; what agents act on has calls of its own.
func (v Verifier) Open(role Role, docType string, env []byte, into any, head *fleet.Document) (digest.Digest, error) {
	if v.ring == nil {
		return "", refuse(RootInvalid, "no trusted root to check against")
	}
	e, err := ParseEnvelope(env)
	if err != nil {
		return "", err
	}
	if e.PayloadType != docType {
		return "", refuse(ManifestVerifyFailed, "this is a %q, not a %q", e.PayloadType, docType)
	}
	if err := v.memory.verify(e, role, v.ring); err != nil {
		return "", err
	}
	if err := Decode(e.Payload, MaxEnvelope, into); err != nil {
		return "", err
	}
	if err := v.checkHead(*head, docType); err != nil {
		return "", err
	}
	switch {
	case head.Epoch < v.ring.root.Epoch:
		return "", refuse(Rollback, "%s of epoch %d: that epoch has ended, the root is at %d", docType, head.Epoch, v.ring.root.Epoch)
	case head.Epoch > v.ring.root.Epoch:
		return "", refuse(RootInvalid, "%s of epoch %d: the trusted root is at %d; fetch the newer root first", docType, head.Epoch, v.ring.root.Epoch)
	}
	return digest.Of(e.Payload), nil
}

func (v Verifier) checkHead(head fleet.Document, docType string) error {
	switch {
	case head.Type != docType:
		return refuse(ManifestVerifyFailed, "the payload says it is a %q, expected %q", head.Type, docType)
	case head.Fleet != v.fleet:
		return refuse(WrongFleet, "%s is of fleet %q, not %q", docType, head.Fleet, v.fleet)
	case head.Version == 0 || head.IssuedAt <= 0:
		return refuse(Malformed, "%s needs a version of at least 1 and the time it was issued", docType)
	}
	return nil
}

// Timestamp accepts a timestamp that is not older than the newest accepted one,
// nor names a snapshot older than the newest accepted one. It raises the floor.
// wall is the clock's time. An old timestamp is accepted, so that what runs can
// be checked after a restart; Fresh says whether it allows an activation. An
// expired root is refused here.
func (v Verifier) Timestamp(env []byte, wall clock.Instant) (Verified[fleet.Timestamp], State, error) {
	var none Verified[fleet.Timestamp]
	var t fleet.Timestamp
	d, err := v.Open(RoleTimestamp, fleet.TypeTimestamp, env, &t, &t.Document)
	if err != nil {
		return none, State{}, err
	}
	now := v.state.Now(wall)
	if v.ring.root.Expires.Reached(now) {
		return none, State{}, refuse(Expired, "root version %d expired at %s; sign its successor", v.ring.root.Version, v.ring.root.Expires)
	}
	if t.IssuedAt > now.Add(Slack) {
		return none, State{}, refuse(FutureDated, "the timestamp was issued at %s and it is %s; check the clocks", t.IssuedAt, now)
	}
	if t.Resolved == "" || t.ResolvedVersion == 0 {
		return none, State{}, refuse(Malformed, "a timestamp names a snapshot by digest and version")
	}
	named := fleet.Document{Type: fleet.TypeResolved, Epoch: t.Epoch, Version: t.ResolvedVersion}
	if _, err := v.state.advance(named, t.Resolved); err != nil {
		return none, State{}, err
	}
	s, err := v.state.advance(t.Document, d)
	if err != nil {
		return none, State{}, err
	}
	s.Floor = max(s.Floor, t.IssuedAt)
	return prove(t, d, now), s, nil
}

// Fresh refuses a timestamp older than window (plus Slack) at the given wall
// time. A refusal means: keep what runs, activate nothing.
func (v Verifier) Fresh(t Verified[fleet.Timestamp], window clock.Duration, wall clock.Instant) error {
	if err := needParent(t, "timestamp"); err != nil {
		return err
	}
	issued, now := t.p.value.IssuedAt, v.state.Now(wall)
	if window <= 0 {
		return refuse(Stale, "the channel has no freshness window")
	}
	if issued > now.Add(Slack) {
		return refuse(FutureDated, "the timestamp was issued at %s and it is %s; check the clocks", issued, now)
	}
	if age := now.Sub(issued); age > window+Slack {
		return refuse(Stale, "the newest timestamp is %s old, %s are allowed; sign a new one with steady release refresh", age, window)
	}
	return nil
}

// Resolved accepts the snapshot that the timestamp names.
func (v Verifier) Resolved(env []byte, t Verified[fleet.Timestamp]) (Verified[fleet.Resolved], State, error) {
	var none Verified[fleet.Resolved]
	if err := needParent(t, "timestamp"); err != nil {
		return none, State{}, err
	}
	var r fleet.Resolved
	d, err := v.Open(RoleRelease, fleet.TypeResolved, env, &r, &r.Document)
	if err != nil {
		return none, State{}, err
	}
	s, err := v.state.advance(r.Document, d)
	if err != nil {
		return none, State{}, err
	}
	if d != t.p.value.Resolved || r.Version != t.p.value.ResolvedVersion || r.Epoch != t.p.value.Epoch {
		return none, State{}, refuse(NotListed, "snapshot %s version %d is not the one that the timestamp names (%s version %d)",
			d.Short(), r.Version, t.p.value.Resolved.Short(), t.p.value.ResolvedVersion)
	}
	if err := checkResolved(&r); err != nil {
		return none, State{}, err
	}
	return prove(r, d, t.p.at), s, nil
}
