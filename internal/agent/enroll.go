package agent

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/steadyfleet/steady/internal/agent/client"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// EnrollConfig is what a host needs to get its identity.
type EnrollConfig struct {
	// StateDir is the agent's state folder; it is created.
	StateDir string
	// Token is the line that steady token create printed. It holds the server's
	// address and authority and the fleet's root as well.
	Token string
	// Server, when set, replaces the token's address and is kept for Run.
	Server string
	Clock  Clock
	Log    *slog.Logger
	Light  bool
	Dial   DialFunc
}

// Enrolled is the identity that a host got.
type Enrolled struct {
	Fleet       string `json:"fleet"`
	Host        string `json:"host"`
	Incarnation uint64 `json:"incarnation"`
}

// ErrEnrolled says that the folder holds an identity already.
var ErrEnrolled = errors.New("this state folder holds an identity already; use another one, or remove it to start afresh")

// Enroll trades a token for an identity and writes it to the state folder. It
// tries again until the server answers or ctx ends. It may be repeated with the
// same token and folder until it succeeds: the keys are made once.
func Enroll(ctx context.Context, cfg EnrollConfig) (out Enrolled, err error) {
	if cfg.Clock == nil {
		cfg.Clock = System()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	text, err := identity.ParseTokenText(cfg.Token)
	if err != nil {
		return out, err
	}
	if cfg.Server == "" {
		cfg.Server = text.Server
	}
	store, _, err := openStore(ctx, cfg.StateDir, cfg.Light)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var id identityDoc
	if ok, err := store.Get(ctx, keyIdentity, &id); err != nil {
		return out, err
	} else if ok {
		return out, ErrEnrolled
	}
	e := &enrolment{cfg: cfg, text: text, store: store}
	return e.run(ctx)
}

type enrolment struct {
	cfg    EnrollConfig
	text   identity.TokenText
	store  *state.Store
	client *client.Client
}

func (e *enrolment) run(ctx context.Context) (Enrolled, error) {
	wall := e.cfg.Clock.Wall
	tlsConfig, err := agentTLS(e.cfg.Server, e.text.ServerCA, nil, func() time.Time { return time.UnixMilli(int64(wall())) })
	if err != nil {
		return Enrolled{}, err
	}
	if e.client, err = client.New(client.Options{Server: e.cfg.Server, TLS: tlsConfig, Dial: e.cfg.Dial}); err != nil {
		return Enrolled{}, err
	}
	defer e.client.Close()
	token, ts, err := e.text.Begin(wall())
	if err != nil {
		e.report(ctx, "TrustError", err)
		return Enrolled{}, err
	}
	eventKey, err := identity.KeyFile(e.store.KeyPath(eventKeyFile))
	if err != nil {
		return Enrolled{}, err
	}
	key, err := identity.KeyFile(e.store.KeyPath("client-0.key"))
	if err != nil {
		return Enrolled{}, err
	}
	csr, err := identity.NewCSR(key)
	if err != nil {
		return Enrolled{}, err
	}
	pub, ok := eventKey.Public().(ed25519.PublicKey)
	if !ok {
		return Enrolled{}, fmt.Errorf("the event key is a %T, not Ed25519", eventKey.Public())
	}
	answer, err := e.ask(ctx, wire.Enroll{Token: e.text.Envelope, CSR: csr, EventKey: pub})
	if err != nil {
		return Enrolled{}, err
	}
	id := identityDoc{
		Fleet: token.Fleet, Host: token.Host, Incarnation: answer.Incarnation,
		Server: e.cfg.Server, ServerCA: e.text.ServerCA, Key: "client-0.key", Chain: answer.Chain,
	}
	pair, err := identity.Pair(id.Chain, key)
	if err == nil {
		var name string
		if name, err = identity.HostOf(pair.Leaf, id.Fleet); err == nil && name != id.Host {
			err = fmt.Errorf("it names %s", name)
		}
	}
	if err != nil {
		err = fmt.Errorf("the server's certificate is not one for host %s: %w", id.Host, err)
		e.report(ctx, "EnrollmentFailed", err)
		return Enrolled{}, err
	}
	return Enrolled{Fleet: id.Fleet, Host: id.Host, Incarnation: id.Incarnation}, e.save(ctx, id, ts)
}

// ask sends the request until the server answers it.
func (e *enrolment) ask(ctx context.Context, m wire.Enroll) (wire.Certificate, error) {
	wait := client.Backoff{Base: 250 * clock.Millisecond}
	for {
		answer, err := e.client.Enroll(ctx, m)
		status := client.StatusOf(err)
		switch {
		case err == nil:
			return answer, nil
		case status >= 400 && status < 500 && status != 408 && status != 429:
			err = fmt.Errorf("enrolment refused: %w", err)
			e.report(ctx, "EnrollmentFailed", err)
			return wire.Certificate{}, err
		}
		e.cfg.Log.Warn("enrolment is tried again", "server", e.cfg.Server, "error", err)
		if wait.Wait(ctx) != nil {
			return wire.Certificate{}, fmt.Errorf("enrolment was given up: %w", err)
		}
	}
}

// report tells the server why it did not work, once; the error itself goes to
// whoever enrols the host.
func (e *enrolment) report(ctx context.Context, kind string, err error) {
	if rerr := e.client.BootstrapReport(ctx, wire.BootstrapReport{Token: e.text.Envelope, Kind: kind, Detail: err.Error()}); rerr != nil {
		e.cfg.Log.Warn("the failure could not be reported", "error", rerr)
	}
}

// save makes the identity durable in one transaction: a folder is enrolled or
// it is not.
func (e *enrolment) save(ctx context.Context, id identityDoc, ts trust.State) error {
	boot, since, err := e.cfg.Clock.Boot()
	if err != nil {
		return err
	}
	now := e.cfg.Clock.Wall()
	genesis := identity.Genesis(id.Fleet, id.Host, id.Incarnation)
	return e.store.Tx(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		if err := state.Begin(ctx, tx, state.Link{Seq: genesis.Seq, Hash: genesis.Hash[:]}); err != nil {
			return err
		}
		for _, kv := range []struct {
			key string
			v   any
		}{
			{keyIdentity, id},
			{keyTrust, ts},
			{keyClock, clockDoc{BootID: boot, Base: now.Add(-since)}},
			{keyAgent, agentDoc{Now: now}},
		} {
			if err := state.Put(ctx, tx, kv.key, kv.v); err != nil {
				return err
			}
		}
		return nil
	})
}
