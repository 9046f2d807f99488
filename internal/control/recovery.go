package control

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

// Recovery is a new admin's token for whoever owns the data folder of a server. Only
// its hash leaves the process that made it.
type Recovery struct {
	event.OperatorTokenAdded
	Secret string `json:"-"`
}

// NewRecovery draws a token; actor says who asks, for the log.
func NewRecovery(name, actor string) (*Recovery, error) {
	o, secret, err := newOperator(name, access.Admin)
	if err != nil {
		return nil, err
	}
	ev := added(o, secret, actor)
	ev.Recovered = true
	return &Recovery{ev, secret}, nil
}

// Append records the token in the log of a server that does not run. The caller has
// the lock of the data folder.
func (r *Recovery) Append(ctx context.Context, log store.Store, now clock.Instant) error {
	if b := setBackOf(log); b != nil {
		return b
	}
	ev, err := access.Tokens{}.Add(r.OperatorTokenAdded, access.DefaultLife, now)
	if err != nil {
		return err
	}
	return appendStopped(ctx, log, log.Append, "recover-admin", ev, now)
}

// Request asks the server that runs on a data folder to record the token, and
// returns once it did.
func (r *Recovery) Request(ctx context.Context, dir string) error {
	return adminFiles.ask(ctx, dir, r.ID, r.OperatorTokenAdded)
}

// WriteSecret writes the token's secret, and says where; the file belongs to the
// owner of the data folder.
func (r *Recovery) WriteSecret(dir string) (path string, err error) {
	path = filepath.Join(dir, AdminTokenFile)
	return path, writeOwned(path, []byte(r.Secret+"\n"))
}

// recoverAdmin records the token that a request names in a running server.
func (c *Control) recoverAdmin(ctx context.Context, raw []byte) (id string, err error) {
	var ev event.OperatorTokenAdded
	if err := json.Unmarshal(raw, &ev); err != nil {
		return "", err
	}
	if ev.ID == "" || len(ev.Hash) != 32 || ev.Name == "" {
		return ev.ID, errors.New("the request names no token")
	}
	ev.Role, ev.Recovered = access.Admin, true
	_, err = c.addOperator(ctx, c.operations, ev, access.DefaultLife)
	return ev.ID, err
}
