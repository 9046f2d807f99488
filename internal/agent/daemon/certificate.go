package daemon

import (
	"context"
	"database/sql"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
)

// issuer is the server as renewals of the certificate see it.
type issuer struct {
	*uplink.Client
	a *Agent
}

var _ uplink.Issuer = issuer{}

// Try implements enrolment.Issuer.
func (i issuer) Try(ctx context.Context) error {
	_, err := i.a.beat(ctx)
	return err
}

// renew renews the host's certificate. Others read of a.id what no renewal changes.
func (a *Agent) renew(ctx context.Context) error {
	next, err := a.cert.Renew(ctx, a.id, a.store.KeyPath, issuer{a.client, a}, func(id uplink.Identity) error {
		err := a.store.Tx(ctx, func(tx *sql.Tx) error { return state.PutDoc(ctx, tx, keyIdentity, id) })
		if err != nil {
			a.die(err)
		}
		return err
	})
	if next.Renewals != a.id.Renewals {
		a.id.Key, a.id.Chain, a.id.Renewals = next.Key, next.Chain, next.Renewals
		a.cfg.Log.Info("certificate renewed", "renew", a.cert.Due())
	}
	return err
}
