package enrolment

import (
	"context"
	"crypto"
	"sync"

	"github.com/steadyfleet/steady/internal/control/hosts"
	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// Holder is a host that showed a certificate, and what that is.
type Holder struct {
	Name, Serial string
	Key          crypto.PublicKey
	Host         *hosts.Host
	InUse        func() error // whether the certificate still is
}

// Renew issues a certificate for a new key. The one that was presented stays
// good, for the answer may be lost; the same key gets the same answer again.
func (r *Registrar) Renew(ctx context.Context, h Holder, csr []byte) (wire.Certificate, error) {
	req, err := identity.ParseCSR(csr)
	if err != nil {
		return wire.Certificate{}, refusal.Newf(refusal.ErrInvalid, "%v", err)
	}
	key, err := identity.PublicDigest(req.PublicKey)
	if err != nil {
		return wire.Certificate{}, refusal.Newf(refusal.ErrInvalid, "%v", err)
	}
	if old, err := identity.PublicDigest(h.Key); err != nil || old == key {
		return wire.Certificate{}, refusal.Newf(refusal.ErrInvalid, "a renewal needs a new key")
	}
	unlock := r.locks.lock("renew/" + h.Name)
	defer unlock()
	if err := h.InUse(); err != nil {
		return wire.Certificate{}, err
	}
	v := h.Host.View()
	if answer, ok := r.renewals.find(h.Name, key, v); ok {
		return answer, nil
	}
	chain, cert, err := r.issue(csr, h.Name)
	if err != nil {
		return wire.Certificate{}, err
	}
	ev := event.CertificateRenewed{Serial: identity.Serial(cert), Presented: h.Serial, NotAfter: clock.FromTime(cert.NotAfter), KeyDigest: key}
	err = r.c.Log.Record(ctx, h.Name, func(s *plan.State) error {
		if now := s.Hosts[h.Name]; now == nil || now.Incarnation != v.Incarnation {
			return refusal.Newf(refusal.ErrConflict, "host %s was enrolled again meanwhile", h.Name)
		}
		return nil
	}, ev)
	if err != nil {
		return wire.Certificate{}, err
	}
	answer := wire.Certificate{Chain: chain, Incarnation: v.Incarnation}
	r.renewals.keep(h.Name, key, ev.Serial, answer)
	r.c.Issued()
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
