package control

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/control/hosts"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// enrolment is one attempt, checked as far as the state is not needed.
type enrolment struct {
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
func (c *Control) Enrol(ctx context.Context, m wire.Enroll) (wire.Certificate, error) {
	e, err := c.checkEnrolment(m)
	if err == nil {
		err = c.checkKeys(ctx, e)
	}
	if err != nil {
		return wire.Certificate{}, err
	}
	unlock := c.tokens.lock(e.token.ID)
	defer unlock()
	var spent *plan.SpentToken
	var host plan.Host
	err = c.View(ctx, func(s *plan.State) {
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
		return c.enrolledBefore(ctx, e, spent, &host)
	}
	if err := c.mayEnrol(&e.token, &host); err != nil {
		return wire.Certificate{}, c.refuseEnrolment(ctx, e, err)
	}
	return c.enrol(ctx, e, host.Incarnation+1)
}

func (c *Control) checkEnrolment(m wire.Enroll) (*enrolment, error) {
	req, err := identity.ParseCSR(m.CSR)
	if err != nil {
		return nil, refusef(ErrInvalid, "%v", err)
	}
	if len(m.EventKey) != ed25519.PublicKeySize {
		return nil, refusef(ErrInvalid, "an event key is an Ed25519 public key of %d bytes", ed25519.PublicKeySize)
	}
	e := &enrolment{envelope: m.Token, csr: m.CSR, eventKey: ed25519.PublicKey(m.EventKey)}
	if e.token, err = identity.VerifyToken(c.public.Load().Verifier, m.Token, c.now()); err != nil {
		return nil, refusef(ErrForbidden, "%v", err)
	}
	e.request = req
	if e.key, err = identity.PublicDigest(req.PublicKey); err != nil {
		return nil, refusef(ErrInvalid, "%v", err)
	}
	return e, nil
}

// checkKeys refuses keys that the token does not name. A genuine token with
// another key may be a stolen one, so it is recorded.
func (c *Control) checkKeys(ctx context.Context, e *enrolment) error {
	err := e.token.CheckKeys(e.request, e.eventKey)
	if err == nil {
		return nil
	}
	r := refusef(ErrForbidden, "%v", err)
	if !c.refused.first("enrol/" + e.token.ID + "/keys") {
		return r // it names the key, and whoever has the token can make many
	}
	return c.refuseEnrolment(ctx, e, r)
}

// mayEnrol asks the newest release about a host. Tokens from before a revocation
// are revoked as certificates are: one may have been stolen with the host.
func (c *Control) mayEnrol(token *identity.Token, h *plan.Host) error {
	name := token.Host
	if roster := c.public.Load().Roster; roster != nil {
		if _, declared := roster[name]; !declared {
			return refusef(ErrForbidden, "host %s is not declared in the newest release; add it to the fleet file, build, sign and push", name)
		}
	}
	if h.RevokedBefore > c.now() {
		return refusef(ErrForbidden, "host %s is revoked until %s", name, h.RevokedBefore)
	}
	if token.IssuedAt < h.RevokedBefore {
		return refusef(ErrForbidden, "the token is older than the revocation of host %s; make a new one with steady token create %s", name, name)
	}
	return nil
}

// enrolledBefore answers for a token that was used already.
func (c *Control) enrolledBefore(ctx context.Context, e *enrolment, spent *plan.SpentToken, h *plan.Host) (wire.Certificate, error) {
	if spent.Host != e.token.Host || spent.KeyDigest != e.key || !ed25519.PublicKey(h.EventKey).Equal(e.eventKey) {
		err := refusef(ErrForbidden, "the token was used already, with another key; if that was not this host, revoke host %s", e.token.Host)
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
func (c *Control) enrol(ctx context.Context, e *enrolment, incarnation uint64) (wire.Certificate, error) {
	chain, cert, err := c.issue(e.csr, e.token.Host)
	if err != nil {
		return wire.Certificate{}, err
	}
	ev := event.HostEnrolled{Incarnation: incarnation, EventKey: e.eventKey, Token: e.token.ID, KeyDigest: e.key,
		Serial: Serial(cert), NotAfter: clock.FromTime(cert.NotAfter)}
	if ev.TokenDoc, err = c.cfg.Store.PutBlob(ctx, e.envelope); err != nil {
		return wire.Certificate{}, errors.Join(ErrUnavailable, err)
	}
	if ev.Certificate, err = c.cfg.Store.PutBlob(ctx, chain); err != nil {
		return wire.Certificate{}, errors.Join(ErrUnavailable, err)
	}
	err = c.submit(ctx, c.normal, func(t *turn) error {
		if _, used := t.s.Tokens[ev.Token]; used {
			return refusef(ErrConflict, "the token was used meanwhile; try again")
		}
		if h := t.s.Hosts[e.token.Host]; h != nil && h.Incarnation+1 != incarnation {
			return refusef(ErrConflict, "host %s was enrolled meanwhile; try again", e.token.Host)
		}
		return t.record(e.token.Host, ev)
	})
	if err != nil {
		return wire.Certificate{}, err
	}
	c.cfg.Log.Info("a host enrolled", "host", e.token.Host, "incarnation", incarnation)
	c.metrics.certificates.Inc()
	return wire.Certificate{Chain: chain, Incarnation: incarnation}, nil
}

func (c *Control) issue(csr []byte, host string) ([]byte, *x509.Certificate, error) {
	chain, err := c.cfg.HostCA.IssueHost(csr, host, time.UnixMilli(int64(c.now())), c.cfg.HostLife)
	if err != nil {
		return nil, nil, refusef(ErrInvalid, "%v", err)
	}
	cert, err := identity.ParseCertificate(chain)
	return chain, cert, err
}

// refuseEnrolment records a refusal of a genuine token, once per token and
// reason: a spent token that comes back may be a stolen one.
func (c *Control) refuseEnrolment(ctx context.Context, e *enrolment, cause error) error {
	if !c.refused.first("enrol/" + e.token.ID + "/" + cause.Error()) {
		return cause
	}
	c.cfg.Log.Warn("an enrolment was refused", "host", e.token.Host, "token", e.token.ID, "err", cause)
	err := c.submit(ctx, c.normal, func(t *turn) error {
		return t.record(e.token.Host, event.EnrolRefused{Token: e.token.ID, Reason: cause.Error()})
	})
	if err != nil {
		return err
	}
	return cause
}

// BootstrapReport records why a host could not enrol, once per token and kind.
// It needs a genuine token, which it does not spend.
func (c *Control) BootstrapReport(ctx context.Context, m wire.BootstrapReport) error {
	token, err := identity.VerifyToken(c.public.Load().Verifier, m.Token, c.now())
	if err != nil {
		return refusef(ErrForbidden, "%v", err)
	}
	if m.Kind != "TrustError" && m.Kind != "EnrollmentFailed" {
		return refusef(ErrInvalid, "kind %q is not TrustError or EnrollmentFailed", m.Kind)
	}
	if !c.refused.first("report/" + token.ID + "/" + m.Kind) {
		return nil
	}
	ev := event.EnrolRefused{Token: token.ID, Reason: "the host reports " + m.Kind + ": " + m.Detail[:min(len(m.Detail), 1024)]}
	return c.submit(ctx, c.normal, func(t *turn) error { return t.record(token.Host, ev) })
}

// Renew issues a certificate for a new key. The one that was presented stays
// good, for the answer may be lost; the same key gets the same answer again.
func (c *Control) Renew(ctx context.Context, p *Peer, csr []byte) (wire.Certificate, error) {
	req, err := identity.ParseCSR(csr)
	if err != nil {
		return wire.Certificate{}, refusef(ErrInvalid, "%v", err)
	}
	key, err := identity.PublicDigest(req.PublicKey)
	if err != nil {
		return wire.Certificate{}, refusef(ErrInvalid, "%v", err)
	}
	if old, err := identity.PublicDigest(p.cert.PublicKey); err != nil || old == key {
		return wire.Certificate{}, refusef(ErrInvalid, "a renewal needs a new key")
	}
	unlock := c.tokens.lock("renew/" + p.Name)
	defer unlock()
	if err := p.check(); err != nil {
		return wire.Certificate{}, err
	}
	v := p.host.View()
	if answer, ok := c.renewals.find(p.Name, key, v); ok {
		return answer, nil
	}
	chain, cert, err := c.issue(csr, p.Name)
	if err != nil {
		return wire.Certificate{}, err
	}
	ev := event.CertificateRenewed{Serial: Serial(cert), Presented: p.serial, NotAfter: clock.FromTime(cert.NotAfter), KeyDigest: key}
	err = c.submit(ctx, c.normal, func(t *turn) error {
		if h := t.s.Hosts[p.Name]; h == nil || h.Incarnation != v.Incarnation {
			return refusef(ErrConflict, "host %s was enrolled again meanwhile", p.Name)
		}
		return t.record(p.Name, ev)
	})
	if err != nil {
		return wire.Certificate{}, err
	}
	answer := wire.Certificate{Chain: chain, Incarnation: v.Incarnation}
	c.renewals.keep(p.Name, key, ev.Serial, answer)
	c.metrics.certificates.Inc()
	return answer, nil
}

// renewals keeps each host's last renewal for a retry.
type renewals struct {
	mu sync.Mutex
	m  map[string]renewal
}

type renewal struct {
	key    digest.Digest
	serial string
	answer wire.Certificate
}

const maxRenewals = 4096

func (r *renewals) find(host string, key digest.Digest, v *hosts.View) (wire.Certificate, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.m[host]
	return last.answer, ok && last.key == key && last.serial == v.Serial
}

func (r *renewals) keep(host string, key digest.Digest, serial string, answer wire.Certificate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil || len(r.m) >= maxRenewals {
		r.m = map[string]renewal{}
	}
	r.m[host] = renewal{key, serial, answer}
}
