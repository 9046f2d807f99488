package control

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// registrar is what enrolments and renewals leave for the next.
type registrar struct {
	locks    keyed // one enrolment at a time per token, one renewal per host
	renewals renewals
}

// attempt is one enrolment, checked as far as the state is not needed.
type attempt struct {
	token    identity.Token
	envelope []byte
	csr      []byte
	request  *x509.CertificateRequest // what csr says
	eventKey ed25519.PublicKey
	key      digest.Digest // of the certificate's key
}

// Enrol trades a token for an identity. A token is good for one certificate; the
// same key gets that one again for as long as the token lasts, because the
// answer may have been lost.
func (c *Control) Enrol(ctx context.Context, m wire.Enrol) (wire.Certificate, error) {
	e, err := c.checkEnrolment(m)
	if err == nil {
		err = c.checkKeys(ctx, e)
	}
	if err != nil {
		return wire.Certificate{}, err
	}
	unlock := c.registrar.locks.lock(e.token.ID)
	defer unlock()
	var spent *plan.SpentToken
	var known plan.Host
	err = c.View(ctx, func(s *plan.State) {
		if t, ok := s.Tokens[e.token.ID]; ok {
			spent = &t
		}
		if h := s.Hosts[e.token.Host]; h != nil {
			known = *h
		}
	})
	if err != nil {
		return wire.Certificate{}, err
	}
	if spent != nil {
		return c.enrolledBefore(ctx, e, spent, &known)
	}
	roster := c.public.Load().Roster
	_, declared := roster[e.token.Host]
	if err := server.MayEnrol(e.token.Host, &known, declared || roster == nil, e.token.IssuedAt, c.now()); err != nil {
		return wire.Certificate{}, c.refuseEnrolment(ctx, e, refusal(err))
	}
	return c.enrol(ctx, e, known.Incarnation+1)
}

func (c *Control) checkEnrolment(m wire.Enrol) (*attempt, error) {
	req, err := identity.ParseCSR(m.CSR)
	if err != nil {
		return nil, wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	if len(m.EventKey) != ed25519.PublicKeySize {
		return nil, wire.Refuse(wire.ErrInvalid, "an event key is an Ed25519 public key of %d bytes", ed25519.PublicKeySize)
	}
	e := &attempt{envelope: m.Token, csr: m.CSR, eventKey: ed25519.PublicKey(m.EventKey)}
	if e.token, err = identity.VerifyToken(c.public.Load().Verifier, m.Token, c.now()); err != nil {
		return nil, wire.Refuse(wire.ErrForbidden, "%v", err)
	}
	e.request = req
	if e.key, err = identity.PublicDigest(req.PublicKey); err != nil {
		return nil, wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	return e, nil
}

// checkKeys refuses keys that the token does not name. A genuine token with
// another key may be a stolen one, so it is recorded.
func (c *Control) checkKeys(ctx context.Context, e *attempt) error {
	err := e.token.CheckKeys(e.request, e.eventKey)
	if err == nil {
		return nil
	}
	no := wire.Refuse(wire.ErrForbidden, "%v", err)
	if !c.refused.first("enrol/" + e.token.ID + "/keys") {
		return no // it names the key, and whoever has the token can make many
	}
	return c.refuseEnrolment(ctx, e, no)
}

// enrolledBefore answers for a token that was used already.
func (c *Control) enrolledBefore(ctx context.Context, e *attempt, spent *plan.SpentToken, h *plan.Host) (wire.Certificate, error) {
	if spent.Host != e.token.Host || spent.KeyDigest != e.key || !ed25519.PublicKey(h.EventKey).Equal(e.eventKey) {
		err := wire.Refuse(wire.ErrForbidden, "the token was used already, with another key; if that was not this host, revoke host %s", e.token.Host)
		return wire.Certificate{}, c.refuseEnrolment(ctx, e, err)
	}
	chain, err := c.cfg.Store.Blob(ctx, spent.Certificate)
	if err != nil {
		return wire.Certificate{}, fmt.Errorf("the certificate that was issued: %w", err)
	}
	return wire.Certificate{Chain: chain, Incarnation: h.Incarnation}, nil
}

// enrol issues the certificate and records it. Until it is recorded it is good
// for nothing: its serial is not known.
func (c *Control) enrol(ctx context.Context, e *attempt, incarnation uint64) (wire.Certificate, error) {
	chain, cert, err := c.issue(e.csr, e.token.Host, incarnation)
	if err != nil {
		return wire.Certificate{}, err
	}
	ev := event.HostEnrolled{Incarnation: incarnation, EventKey: e.eventKey, Token: e.token.ID, KeyDigest: e.key,
		Serial: identity.Serial(cert), NotAfter: clock.FromTime(cert.NotAfter)}
	if ev.TokenDoc, err = c.cfg.Store.PutBlob(ctx, e.envelope); err != nil {
		return wire.Certificate{}, errors.Join(wire.ErrUnavailable, err)
	}
	if ev.Certificate, err = c.cfg.Store.PutBlob(ctx, chain); err != nil {
		return wire.Certificate{}, errors.Join(wire.ErrUnavailable, err)
	}
	err = c.recordChecked(ctx, e.token.Host, func(s *server.State) error { return s.Enrols(e.token.Host, ev.Token, incarnation) }, ev)
	if err != nil {
		return wire.Certificate{}, err
	}
	c.cfg.Log.Info("a host enrolled", "host", e.token.Host, "incarnation", incarnation)
	c.metrics.certificates.Inc()
	return wire.Certificate{Chain: chain, Incarnation: incarnation}, nil
}

func (c *Control) issue(csr []byte, host string, incarnation uint64) ([]byte, *x509.Certificate, error) {
	chain, err := c.cfg.HostCA.IssueHost(csr, host, incarnation, time.UnixMilli(int64(c.now())), c.cfg.HostLife)
	if err != nil {
		return nil, nil, wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	cert, err := identity.ParseCertificate(chain)
	return chain, cert, err
}

// refuseEnrolment records a refusal of a genuine token, once per token and
// reason: a spent token that comes back may be a stolen one.
func (c *Control) refuseEnrolment(ctx context.Context, e *attempt, cause error) error {
	if !c.refused.first("enrol/" + e.token.ID + "/" + cause.Error()) {
		return cause
	}
	c.cfg.Log.Warn("an enrolment was refused", "host", e.token.Host, "token", e.token.ID, "err", cause)
	if err := c.recordChecked(ctx, e.token.Host, nil, event.EnrolRefused{Token: e.token.ID, Reason: cause.Error()}); err != nil {
		return err
	}
	return cause
}

// BootstrapReport records why a host could not enrol, once per token and kind.
// It needs a genuine token, which it does not spend.
func (c *Control) BootstrapReport(ctx context.Context, m wire.BootstrapReport) error {
	token, err := identity.VerifyToken(c.public.Load().Verifier, m.Token, c.now())
	if err != nil {
		return wire.Refuse(wire.ErrForbidden, "%v", err)
	}
	if m.Kind != "TrustError" && m.Kind != "EnrolmentFailed" {
		return wire.Refuse(wire.ErrInvalid, "kind %q is not TrustError or EnrolmentFailed", m.Kind)
	}
	if !c.refused.first("report/" + token.ID + "/" + m.Kind) {
		return nil
	}
	ev := event.EnrolRefused{Token: token.ID, Reason: "the host reports " + m.Kind + ": " + m.Detail[:min(len(m.Detail), 1024)]}
	return c.recordChecked(ctx, token.Host, nil, ev)
}

// recordChecked records an event of a host unless check, on the state that the event would
// be folded into, refuses; check may be nil.
func (c *Control) recordChecked(ctx context.Context, host string, check func(*server.State) error, ev event.Event) error {
	return c.record(ctx, c.normal, host, func(s *server.State, _ clock.Instant) ([]event.Event, error) {
		if check == nil {
			return []event.Event{ev}, nil
		}
		return []event.Event{ev}, refusal(check(s))
	})
}
