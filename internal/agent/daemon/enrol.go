package daemon

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
	rows "github.com/steadyfleet/steady/reconcile/sqlite"
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
	// RenamedFrom is the host that the folder is of, when the token is for another name of
	// the same machine.
	RenamedFrom string
	// Unmake removes a new folder again where the enrolment was refused, with the keys: an
	// answer that only passes for a refusal then costs the token.
	Unmake bool
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

// ErrEnrolled says that the folder holds an identity already, of a host that is neither parked nor renamed.
var ErrEnrolled = errors.New("this state folder has an identity already; use another one, or remove it to start afresh")

// Enrol trades a token for an identity and writes it to the state folder. It
// tries again until the server answers or ctx ends. It may be repeated with the
// same token and folder until it succeeds: the keys are made once. The folder of a
// parked host, or of one that gets another name, enrols again: what trust remembers, its keys, blobs and mounted files and
// what it knows of its own files stay; what it was to run is forgotten.
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
	if next, err := token.Unverified(); err == nil { // it is verified before anything comes of it
		cfg.RenamedFrom = cmp.Or(cfg.RenamedFrom, next.RenamedFrom)
	}
	unmake := unmade(cfg.StateDir)
	store, before, err := openNew(ctx, cfg.StateDir, cfg.RenamedFrom, state.Options{Light: cfg.Light, Driver: cfg.Driver})
	if err != nil {
		return out, err
	}
	defer func() {
		err = errors.Join(err, store.Close())
		if cfg.Unmake && errors.Is(err, uplink.ErrRefused) {
			err = errors.Join(err, unmake())
		}
	}()
	if err := before.admits(token, cfg.RenamedFrom); err != nil {
		return out, err
	}
	id, ts, err := uplink.Enrol(ctx, uplink.EnrolRequest{Token: token, Server: cfg.Server, Keys: store.KeyPath,
		Wall: cfg.Clock.Wall, Dial: cfg.Dial, Log: cfg.Log})
	if err != nil {
		return out, err
	}
	if before != nil {
		if ts = ts.NeverBelow(id.Fleet, before.trust); before.id.EngineName() != id.Host {
			id.Before = before.id.EngineName()
		}
		if err := store.DropAnchor(); err != nil {
			return out, err
		}
	}
	return Enrolled{Fleet: id.Fleet, Host: id.Host, Incarnation: id.Incarnation}, saveNew(ctx, store, cfg.Clock, id, ts)
}

// unmade looks at a folder before a state folder is made of it, and returns what takes that back: keys that nobody
// knows are not left behind. Where anything was there, such as a key that was made beforehand, all stays.
func unmade(dir string) func() error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return func() error { return os.RemoveAll(dir) }
	case err != nil || len(entries) > 0:
		return func() error { return nil }
	}
	return func() error { // the folder is there, empty, as a service manager makes it
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
		return err
	}
}

// former is what the folder of a host that was enrolled has to say about its next enrolment.
type former struct {
	id    uplink.Identity
	trust trust.State
}

// admits refuses a token of another host before it is used up, unless this one is said to be
// renamed to it.
func (f *former) admits(t identity.TokenText, renamed string) error {
	if f == nil {
		return nil
	}
	next, err := t.Unverified()
	if err != nil {
		return err
	}
	if next.Fleet != f.id.Fleet || next.Host != f.id.Host && renamed != f.id.Host {
		return fmt.Errorf("the state folder is of host %s of fleet %s, and the token is for host %s of fleet %s; give each host a folder of its own",
			f.id.Host, f.id.Fleet, next.Host, next.Fleet)
	}
	return nil
}

// MakeEventKey makes the key that signs a host's events before the host enrols,
// or finds the one that was made, and returns its identity.PublicDigest. A token
// that names the digest enrols no other key. A folder that is enrolled is refused
// with ErrEnrolled.
func MakeEventKey(ctx context.Context, dir string) (d digest.Digest, err error) {
	store, parked, err := openNew(ctx, dir, "", state.Options{})
	if err != nil {
		return "", err
	}
	if parked != nil {
		return "", errors.Join(ErrEnrolled, store.Close())
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	key, err := uplink.MakeEventKey(store.KeyPath)
	if err != nil {
		return "", err
	}
	return identity.PublicDigest(key.Public())
}

// openNew opens a state folder that holds no identity, or that of a host which is parked or
// renamed.
func openNew(ctx context.Context, dir, renamed string, o state.Options) (*state.Store, *former, error) {
	store, _, err := openStore(ctx, dir, o)
	if err != nil {
		return nil, nil, err
	}
	f := &former{}
	enrolled, err := store.Get(ctx, keyIdentity, &f.id)
	if err == nil && !enrolled {
		return store, nil, nil
	}
	if err == nil {
		err = f.load(ctx, store, renamed)
	}
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, f, nil
}

// load fails with ErrEnrolled if the host is neither parked nor the renamed one.
func (f *former) load(ctx context.Context, store *state.Store, renamed string) error {
	var doc agentDoc
	if _, err := store.Get(ctx, keyAgent, &doc); err != nil {
		return err
	}
	if _, err := store.Get(ctx, keyTrust, &f.trust); err != nil {
		return err
	}
	parked, err := store.Anchor(ctx, f.id.Incarnation)
	if err == nil && parked == nil && doc.Agent.Parked == nil && renamed != f.id.Host {
		err = ErrEnrolled
	}
	return err
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
		if err := state.Forget(ctx, tx); err != nil {
			return err
		}
		if err := rows.Forget(ctx, tx); err != nil {
			return err
		}
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
			if err := state.PutDoc(ctx, tx, kv.key, kv.v); err != nil {
				return err
			}
		}
		return nil
	})
}
