// Package enrolment gives hosts their certificates: the first one for a token, and
// another one for as long as they hold the one before. What is genuine and refused
// is recorded once, for it may be stolen. It keeps no state but what makes a retry
// get the same answer; whether a host may is read of the log and the newest release.
package enrolment

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/control/trusted"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// Log is the server's log and what is folded of it.
type Log interface {
	// View runs read on the committed state, which it must not keep.
	View(ctx context.Context, read func(*plan.State)) error
	// Record makes an event of a host durable unless check, on the state that it
	// would be folded into, refuses; check may be nil.
	Record(ctx context.Context, host string, check func(*plan.State) error, ev event.Event) error
}

// Blobs keeps what events name.
type Blobs interface {
	PutBlob(ctx context.Context, body []byte) (digest.Digest, error)
	Blob(ctx context.Context, d digest.Digest) ([]byte, error)
}

// Config is what a Registrar works with.
type Config struct {
	Log       Log
	Blobs     Blobs
	Authority *identity.Authority
	Life      time.Duration // of certificates
	Trusted   func() *trusted.View
	Now       func() clock.Instant
	// Issued is called for every certificate that was recorded.
	Issued func()
	Logger *slog.Logger
}

// Registrar issues the certificates of a fleet's hosts. It may be used from any
// goroutine.
type Registrar struct {
	c        Config
	refused  refusal.Once // refusals that were logged
	locks    keyed        // one enrolment at a time per token, one renewal per host
	renewals renewals
}

// New returns the registrar of one server.
func New(c Config) *Registrar { return &Registrar{c: c} }

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
func (r *Registrar) Enrol(ctx context.Context, m wire.Enrol) (wire.Certificate, error) {
	e, err := r.checkEnrolment(m)
	if err == nil {
		err = r.checkKeys(ctx, e)
	}
	if err != nil {
		return wire.Certificate{}, err
	}
	unlock := r.locks.lock(e.token.ID)
	defer unlock()
	var spent *plan.SpentToken
	var host plan.Host
	err = r.c.Log.View(ctx, func(s *plan.State) {
		if t, ok := s.Tokens[e.token.ID]; ok {
			spent = &t
		}
		if h := s.Hosts[e.token.Host]; h != nil {
			host = *h
		}
	})
	if err != nil {
		return wire.Certificate{}, err
	}
	if spent != nil {
		return r.enrolledBefore(ctx, e, spent, &host)
	}
	if err := r.mayEnrol(&e.token, &host); err != nil {
		return wire.Certificate{}, r.refuseEnrolment(ctx, e, err)
	}
	return r.enrol(ctx, e, host.Incarnation+1)
}

func (r *Registrar) checkEnrolment(m wire.Enrol) (*attempt, error) {
	req, err := identity.ParseCSR(m.CSR)
	if err != nil {
		return nil, refusal.Newf(refusal.ErrInvalid, "%v", err)
	}
	if len(m.EventKey) != ed25519.PublicKeySize {
		return nil, refusal.Newf(refusal.ErrInvalid, "an event key is an Ed25519 public key of %d bytes", ed25519.PublicKeySize)
	}
	e := &attempt{envelope: m.Token, csr: m.CSR, eventKey: ed25519.PublicKey(m.EventKey)}
	if e.token, err = identity.VerifyToken(r.c.Trusted().Verifier, m.Token, r.c.Now()); err != nil {
		return nil, refusal.Newf(refusal.ErrForbidden, "%v", err)
	}
	e.request = req
	if e.key, err = identity.PublicDigest(req.PublicKey); err != nil {
		return nil, refusal.Newf(refusal.ErrInvalid, "%v", err)
	}
	return e, nil
}

// checkKeys refuses keys that the token does not name. A genuine token with
// another key may be a stolen one, so it is recorded.
func (r *Registrar) checkKeys(ctx context.Context, e *attempt) error {
	err := e.token.CheckKeys(e.request, e.eventKey)
	if err == nil {
		return nil
	}
	no := refusal.Newf(refusal.ErrForbidden, "%v", err)
	if !r.refused.First("enrol/" + e.token.ID + "/keys") {
		return no // it names the key, and whoever has the token can make many
	}
	return r.refuseEnrolment(ctx, e, no)
}

// mayEnrol asks the newest release about a host. Tokens from before a revocation
// are revoked as certificates are: one may have been stolen with the host.
func (r *Registrar) mayEnrol(token *identity.Token, h *plan.Host) error {
	name := token.Host
	if roster := r.c.Trusted().Roster; roster != nil {
		if _, declared := roster[name]; !declared {
			return refusal.Newf(refusal.ErrForbidden, "host %s is not declared in the newest release; add it to the fleet file, build, sign and push", name)
		}
	}
	if h.RevokedBefore > r.c.Now() {
		return refusal.Newf(refusal.ErrForbidden, "host %s is revoked until %s", name, h.RevokedBefore)
	}
	if token.IssuedAt < h.RevokedBefore {
		return refusal.Newf(refusal.ErrForbidden, "the token is older than the revocation of host %s; make a new one with steady token create %s", name, name)
	}
	return nil
}

// enrolledBefore answers for a token that was used already.
func (r *Registrar) enrolledBefore(ctx context.Context, e *attempt, spent *plan.SpentToken, h *plan.Host) (wire.Certificate, error) {
	if spent.Host != e.token.Host || spent.KeyDigest != e.key || !ed25519.PublicKey(h.EventKey).Equal(e.eventKey) {
		err := refusal.Newf(refusal.ErrForbidden, "the token was used already, with another key; if that was not this host, revoke host %s", e.token.Host)
		return wire.Certificate{}, r.refuseEnrolment(ctx, e, err)
	}
	chain, err := r.c.Blobs.Blob(ctx, spent.Certificate)
	if err != nil {
		return wire.Certificate{}, fmt.Errorf("the certificate that was issued: %w", err)
	}
	return wire.Certificate{Chain: chain, Incarnation: h.Incarnation}, nil
}

// enrol issues the certificate and records it. Until it is recorded it is good
// for nothing: its serial is not known.
func (r *Registrar) enrol(ctx context.Context, e *attempt, incarnation uint64) (wire.Certificate, error) {
	chain, cert, err := r.issue(e.csr, e.token.Host)
	if err != nil {
		return wire.Certificate{}, err
	}
	ev := event.HostEnrolled{Incarnation: incarnation, EventKey: e.eventKey, Token: e.token.ID, KeyDigest: e.key,
		Serial: identity.Serial(cert), NotAfter: clock.FromTime(cert.NotAfter)}
	if ev.TokenDoc, err = r.c.Blobs.PutBlob(ctx, e.envelope); err != nil {
		return wire.Certificate{}, errors.Join(refusal.ErrUnavailable, err)
	}
	if ev.Certificate, err = r.c.Blobs.PutBlob(ctx, chain); err != nil {
		return wire.Certificate{}, errors.Join(refusal.ErrUnavailable, err)
	}
	err = r.c.Log.Record(ctx, e.token.Host, func(s *plan.State) error {
		if _, used := s.Tokens[ev.Token]; used {
			return refusal.Newf(refusal.ErrConflict, "the token was used meanwhile; try again")
		}
		if h := s.Hosts[e.token.Host]; h != nil && h.Incarnation+1 != incarnation {
			return refusal.Newf(refusal.ErrConflict, "host %s was enrolled meanwhile; try again", e.token.Host)
		}
		return nil
	}, ev)
	if err != nil {
		return wire.Certificate{}, err
	}
	r.c.Logger.Info("a host enrolled", "host", e.token.Host, "incarnation", incarnation)
	r.c.Issued()
	return wire.Certificate{Chain: chain, Incarnation: incarnation}, nil
}

func (r *Registrar) issue(csr []byte, host string) ([]byte, *x509.Certificate, error) {
	chain, err := r.c.Authority.IssueHost(csr, host, time.UnixMilli(int64(r.c.Now())), r.c.Life)
	if err != nil {
		return nil, nil, refusal.Newf(refusal.ErrInvalid, "%v", err)
	}
	cert, err := identity.ParseCertificate(chain)
	return chain, cert, err
}

// refuseEnrolment records a refusal of a genuine token, once per token and
// reason: a spent token that comes back may be a stolen one.
func (r *Registrar) refuseEnrolment(ctx context.Context, e *attempt, cause error) error {
	if !r.refused.First("enrol/" + e.token.ID + "/" + cause.Error()) {
		return cause
	}
	r.c.Logger.Warn("an enrolment was refused", "host", e.token.Host, "token", e.token.ID, "err", cause)
	if err := r.c.Log.Record(ctx, e.token.Host, nil, event.EnrolRefused{Token: e.token.ID, Reason: cause.Error()}); err != nil {
		return err
	}
	return cause
}

// BootstrapReport records why a host could not enrol, once per token and kind.
// It needs a genuine token, which it does not spend.
func (r *Registrar) BootstrapReport(ctx context.Context, m wire.BootstrapReport) error {
	token, err := identity.VerifyToken(r.c.Trusted().Verifier, m.Token, r.c.Now())
	if err != nil {
		return refusal.Newf(refusal.ErrForbidden, "%v", err)
	}
	if m.Kind != "TrustError" && m.Kind != "EnrolmentFailed" {
		return refusal.Newf(refusal.ErrInvalid, "kind %q is not TrustError or EnrolmentFailed", m.Kind)
	}
	if !r.refused.First("report/" + token.ID + "/" + m.Kind) {
		return nil
	}
	ev := event.EnrolRefused{Token: token.ID, Reason: "the host reports " + m.Kind + ": " + m.Detail[:min(len(m.Detail), 1024)]}
	return r.c.Log.Record(ctx, token.Host, nil, ev)
}
