package daemon

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
)

// EnrolConfig is what a host needs to get its identity.
type EnrolConfig struct {
	// StateDir is the agent's state folder; it is created.
	StateDir string
	// Token is the line that steady token create printed. It holds the server's
	// address and authority and the fleet's root as well.
	Token string
	// Server, when set, replaces the token's address and is kept for Run.
	Server string
	Clock  state.Clock
	Log    *slog.Logger
	Light  bool
	Driver string // see Config
	Dial   uplink.Dialer
}

// Enrolled is the identity that a host got.
type Enrolled struct {
	Fleet       string `json:"fleet"`
	Host        string `json:"host"`
	Incarnation uint64 `json:"incarnation"`
}

// ErrEnrolled says that the folder holds an identity already.
var ErrEnrolled = errors.New("this state folder has an identity already; use another one, or remove it to start afresh")

// Enrol trades a token for an identity and writes it to the state folder. It
// tries again until the server answers or ctx ends. It may be repeated with the
// same token and folder until it succeeds: the keys are made once.
func Enrol(ctx context.Context, cfg EnrolConfig) (out Enrolled, err error) {
	if cfg.Clock == nil {
		cfg.Clock = state.SystemClock()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	token, err := identity.ParseTokenText(cfg.Token)
	if err != nil {
		return out, err
	}
	if cfg.Server == "" {
		cfg.Server = token.Server
	}
	store, err := openNew(ctx, cfg.StateDir, state.Options{Light: cfg.Light, Driver: cfg.Driver})
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	id, ts, err := uplink.Enrol(ctx, uplink.EnrolRequest{Token: token, Server: cfg.Server, Keys: store.KeyPath,
		Wall: cfg.Clock.Wall, Dial: cfg.Dial, Log: cfg.Log})
	if err != nil {
		return out, err
	}
	return Enrolled{Fleet: id.Fleet, Host: id.Host, Incarnation: id.Incarnation}, saveNew(ctx, store, cfg.Clock, id, ts)
}

// MakeEventKey makes the key that signs a host's events before the host enrols,
// or finds the one that was made, and returns its identity.PublicDigest. A token
// that names the digest enrols no other key. A folder that is enrolled is refused
// with ErrEnrolled.
func MakeEventKey(ctx context.Context, dir string) (d digest.Digest, err error) {
	store, err := openNew(ctx, dir, state.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	key, err := uplink.MakeEventKey(store.KeyPath)
	if err != nil {
		return "", err
	}
	return identity.PublicDigest(key.Public())
}

// openNew opens a state folder that holds no identity.
func openNew(ctx context.Context, dir string, o state.Options) (*state.Store, error) {
	store, _, err := openStore(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	enrolled, err := store.Get(ctx, keyIdentity, &uplink.Identity{})
	if err == nil && enrolled {
		err = ErrEnrolled
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// saveNew makes an identity durable in one transaction: a folder is enrolled or
// it is not.
func saveNew(ctx context.Context, store *state.Store, src state.Clock, id uplink.Identity, ts trust.State) error {
	begun, now, err := state.BeginTimeline(src)
	if err != nil {
		return err
	}
	genesis := identity.Genesis(id.Fleet, id.Host, id.Incarnation)
	return store.Tx(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		if err := state.Begin(ctx, tx, state.Link{Seq: genesis.Seq, Hash: genesis.Hash[:]}); err != nil {
			return err
		}
		for _, kv := range []struct {
			key string
			v   any
		}{
			{keyIdentity, id},
			{keyTrust, ts},
			{keyClock, begun},
			{keyAgent, agentDoc{Now: now}},
		} {
			if err := state.Put(ctx, tx, kv.key, kv.v); err != nil {
				return err
			}
		}
		return nil
	})
}
