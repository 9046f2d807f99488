package logverify

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// signed follows the documents that a log says were verified, and verifies them
// again under the root that was trusted then.
type signed struct {
	blobs  shelf
	pinned digest.Digest
	fleet  string
	state  trust.State
	check  trust.Verifier
	begun  bool
	// accepted is the release whose timestamp is still to come.
	accepted *event.ReleaseAccepted
}

// blob gives a document. None is of use before the first root.
func (s *signed) blob(d digest.Digest) ([]byte, error) {
	if !s.begun {
		return nil, errNoRoot
	}
	return s.blobs.Blob(context.Background(), d)
}

func (s *signed) root(ev event.RootTrusted) error {
	env, err := s.blobs.Blob(context.Background(), ev.Root)
	if err != nil {
		return err
	}
	return s.follow(ev.Version, env)
}

// follow trusts the next root, or the first.
func (s *signed) follow(version uint64, env []byte) error {
	if s.begun {
		next, err := s.check.Root(env)
		if err != nil {
			return fmt.Errorf("root %d: %w", version, err)
		}
		return s.with(next)
	}
	first, err := release.Trust(env)
	if err != nil {
		return fmt.Errorf("the first root: %w", err)
	}
	parsed, err := trust.ParseEnvelope(env)
	if err != nil {
		return fmt.Errorf("the first root: %w", err)
	}
	if got := digest.Of(parsed.Payload); s.pinned != "" && got != s.pinned {
		return fmt.Errorf("the log begins with root %s, not with the pinned %s", got, s.pinned)
	}
	var head fleet.Document
	if err := json.Unmarshal(parsed.Payload, &head); err != nil {
		return fmt.Errorf("the first root: %w", err)
	}
	s.fleet, s.begun = head.Fleet, true
	return s.with(first)
}

func (s *signed) with(state trust.State) (err error) {
	s.state = state
	s.check, err = trust.NewVerifier(s.fleet, state)
	return err
}

// release waits for the timestamp that was accepted with it, which names it.
func (s *signed) release(ev event.ReleaseAccepted) error {
	if !s.begun {
		return errNoRoot
	}
	s.accepted = &ev
	return nil
}

func (s *signed) timestamp(ev event.TimestampAccepted) error {
	env, err := s.blob(ev.Envelope)
	if err != nil {
		return err
	}
	stamp, state, err := s.check.Timestamp(env, ev.IssuedAt)
	if err != nil {
		return err
	}
	if v := stamp.Value(); v.Version != ev.Version || v.IssuedAt != ev.IssuedAt || v.Resolved != ev.Resolved {
		return fmt.Errorf("the log says timestamp %d of %s, what was signed is %d of %s", ev.Version, ev.Resolved.Short(), v.Version, v.Resolved.Short())
	}
	if err := s.with(state); err != nil || s.accepted == nil {
		return err
	}
	accepted := s.accepted
	s.accepted = nil
	return s.whole(accepted, stamp)
}

// whole verifies the parts of a release below its timestamp.
func (s *signed) whole(ev *event.ReleaseAccepted, stamp trust.Verified[fleet.Timestamp]) error {
	env, err := s.blob(ev.Envelopes[documents.ResolvedFile])
	if err != nil {
		return err
	}
	resolved, state, err := s.check.Resolved(env, stamp)
	if err != nil {
		return err
	}
	if err := s.with(state); err != nil {
		return err
	}
	if v := resolved.Value(); resolved.Digest() != ev.Resolved || v.Version != ev.Version || v.Ref != ev.Ref {
		return fmt.Errorf("the log says release %d of %s, what was signed is %d of %s", ev.Version, ev.Ref, v.Version, v.Ref)
	}
	if err := s.lists(ev, resolved); err != nil {
		return err
	}
	for _, channel := range ev.Channels {
		for _, ref := range channel.Manifests {
			if err := s.manifest(ev, ref, resolved); err != nil {
				return fmt.Errorf("manifest %s: %w", ref.Rollout, err)
			}
		}
	}
	return nil
}

// lists verifies what the snapshot names by digest.
func (s *signed) lists(ev *event.ReleaseAccepted, resolved trust.Verified[fleet.Resolved]) error {
	raw, err := s.blob(ev.Envelopes[documents.RosterFile])
	if err != nil {
		return err
	}
	if _, _, err := s.check.Roster(raw, resolved); err != nil {
		return err
	}
	if raw, err = s.blob(ev.Envelopes[wire.TrustRevocations]); err != nil {
		return err
	}
	_, _, err = s.check.Revocations(raw, resolved)
	return err
}

func (s *signed) manifest(ev *event.ReleaseAccepted, ref fleet.ManifestRef, resolved trust.Verified[fleet.Resolved]) error {
	env, err := s.blob(ev.Envelopes[documents.EnvelopeFile(ref.Rollout)])
	if err != nil {
		return err
	}
	m, state, err := s.check.Manifest(env, resolved)
	if err != nil {
		return err
	}
	if m.Digest() != ref.Digest {
		return fmt.Errorf("the log says %s, what was signed is %s", ref.Digest.Short(), m.Digest().Short())
	}
	if err := s.with(state); err != nil {
		return err
	}
	raw, err := s.blob(ev.Envelopes[documents.LeavesFile(ref.Rollout)])
	if err != nil {
		return err
	}
	var leaves []json.RawMessage
	if err := json.Unmarshal(raw, &leaves); err != nil {
		return fmt.Errorf("its leaves: %w", err)
	}
	list := make([][]byte, len(leaves))
	for i := range leaves {
		list[i] = leaves[i]
	}
	_, _, err = s.check.Leaves(m, list)
	return err
}

func (s *signed) override(ev event.OverrideAccepted) error {
	env, err := s.blob(ev.Envelope)
	if err != nil {
		return err
	}
	o, err := s.check.Override(env, ev.IssuedAt)
	if err != nil {
		return err
	}
	if o.Digest() != ev.Digest {
		return fmt.Errorf("the log says override %s, what was signed is %s", ev.Digest.Short(), o.Digest().Short())
	}
	return nil
}

// registered verifies the token of a node, and that it was for this node and key.
func (s *signed) registered(at clock.Instant, ev event.NodeRegistered) error {
	env, err := s.blob(ev.TokenDoc)
	if err != nil {
		return err
	}
	token, err := identity.VerifyNodeToken(s.check, env, at, ev.Node, ev.Key)
	if err != nil {
		return fmt.Errorf("the token of node %s: %w", ev.Node, err)
	}
	if token.ID != ev.Token {
		return fmt.Errorf("the log says node %s registered with token %s, and its document is token %s", ev.Node, ev.Token, token.ID)
	}
	return nil
}

// enrolled verifies the token of an enrolment, and that it was for this host.
func (s *signed) enrolled(name string, at clock.Instant, ev event.HostEnrolled) error {
	env, err := s.blob(ev.TokenDoc)
	if err != nil {
		return err
	}
	token, err := identity.VerifyToken(s.check, env, at)
	if err != nil {
		return fmt.Errorf("the token of host %s: %w", name, err)
	}
	if token.Host != name {
		return fmt.Errorf("host %s enrolled with a token of host %s", name, token.Host)
	}
	return nil
}
