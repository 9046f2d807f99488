package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/wire"
)

// Operator is the bearer of an operator token, or who has a login.
type Operator struct {
	ID      string
	Name    string
	Role    string
	Expires clock.Instant // zero: never
	Parent  string        // of a login: the id of its token
}

// ByLogin reports whether it is a login and not a token.
func (o Operator) ByLogin() bool { return o.Parent != "" }

// bearer is an operator token as requests see it.
type bearer struct {
	Operator
	token    access.Token
	used     *atomic.Int64 // the last request
	recorded *atomic.Int64 // the last use that the log was asked to keep
}

// secretPrefix makes an operator token easy to recognise where it leaked.
const secretPrefix = "steadyop_"

// AdminTokenFile is the name of the first admin token's file in the data folder.
const AdminTokenFile = "admin.token"

// Operator returns who bears a token. Refusals are of kind wire.ErrForbidden.
func (c *Control) Operator(secret string) (Operator, error) {
	// Only the hash is compared, so that time tells nothing of the token.
	b, ok := (*c.operators.Load())[sha256.Sum256([]byte(secret))]
	now := c.now()
	switch {
	case !ok:
		return Operator{}, wire.Refuse(wire.ErrForbidden, "the operator token is not known to this server, or was revoked; "+
			"an admin makes another with steady operator create NAME, or whoever owns the server's data folder with steady server recover-admin --data DATA")
	case b.token.Expired(now):
		return Operator{}, wire.Refuse(wire.ErrForbidden, "operator token %s (%s) ended at %s; "+
			"an admin makes another with steady operator create %[1]s --role %[4]s, or whoever owns the server's data folder with steady server recover-admin --data DATA",
			b.Name, b.ID, b.Expires, b.Role)
	}
	c.noteUse(b, now)
	return b.Operator, nil
}

// noteUse remembers a use, and asks the log to keep it once in a while. It never
// waits: a use that is not recorded is recorded with a later one.
func (c *Control) noteUse(b *bearer, now clock.Instant) {
	b.used.Store(int64(now))
	last := b.recorded.Load()
	if b.ByLogin() || last != 0 && now.Sub(clock.Instant(last)) < access.UseInterval || !b.recorded.CompareAndSwap(last, int64(now)) {
		return
	}
	used := func(s *server.State, now clock.Instant) ([]event.Event, error) {
		if ev, news := s.Plan.Operators.Used(b.ID, now); news {
			return []event.Event{ev}, nil
		}
		return nil, nil
	}
	c.tell(&input{Input: server.Record{Decide: used}, after: func(err error) {
		if err != nil {
			b.recorded.Store(last)
		}
	}})
}

// OperatorUsed is when a token was last used as far as this process knows; zero if
// not.
func (c *Control) OperatorUsed(hash []byte) clock.Instant {
	if b, ok := (*c.operators.Load())[[sha256.Size]byte(hash)]; ok {
		return clock.Instant(b.used.Load())
	}
	return 0
}

// publishOperators makes the tokens visible to requests.
func (c *Control) publishOperators() {
	old := map[[sha256.Size]byte]*bearer{}
	if was := c.operators.Load(); was != nil {
		old = *was
	}
	bearers := make(map[[sha256.Size]byte]*bearer, len(c.state.Plan.Operators))
	for id, t := range c.state.Plan.Operators {
		b := &bearer{Operator: Operator{ID: id, Name: t.Name, Role: t.Role, Expires: t.Expires, Parent: t.Parent}, token: t, used: new(atomic.Int64), recorded: new(atomic.Int64)}
		b.used.Store(int64(t.UsedAt))
		b.recorded.Store(int64(t.UsedAt))
		if was := old[[sha256.Size]byte(t.Hash)]; was != nil {
			b.used, b.recorded = was.used, was.recorded
		}
		bearers[[sha256.Size]byte(t.Hash)] = b
	}
	c.operators.Store(&bearers)
}

// newOperator draws a token; its secret is kept nowhere.
func newOperator(name, role string) (o Operator, secret string, err error) {
	if err := fleet.CheckName(name); err != nil {
		return Operator{}, "", wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	id, secret := newSecret()
	return Operator{ID: id, Name: name, Role: role}, secret, nil
}

// newSecret draws a token's id and its secret.
func newSecret() (id, secret string) {
	raw, name := make([]byte, 32), make([]byte, 8)
	rand.Read(raw)
	rand.Read(name)
	return hex.EncodeToString(name), secretPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// AddOperator makes an operator token that is good for a while and returns its
// secret, which is kept nowhere.
func (c *Control) AddOperator(ctx context.Context, name, role string, life clock.Duration, actor string) (Operator, string, error) {
	o, secret, err := newOperator(name, role)
	if err != nil {
		return Operator{}, "", err
	}
	o.Expires, err = c.addOperator(ctx, c.normal, added(o, secret, actor), life)
	return o, secret, err
}

func added(o Operator, secret, actor string) event.OperatorTokenAdded {
	sum := sha256.Sum256([]byte(secret))
	return event.OperatorTokenAdded{ID: o.ID, Name: o.Name, Role: o.Role, Hash: sum[:], Actor: actor}
}

func (c *Control) addOperator(ctx context.Context, lane chan *input, ev event.OperatorTokenAdded, life clock.Duration) (expires clock.Instant, err error) {
	err = c.record(ctx, lane, "", func(s *server.State, now clock.Instant) ([]event.Event, error) {
		decided, err := s.Plan.Operators.Add(ev, life, now)
		expires = decided.Expires
		return []event.Event{decided}, refusal(err)
	})
	return expires, err
}

// RevokeOperator withdraws an operator token; the last admin's only by force.
func (c *Control) RevokeOperator(ctx context.Context, id string, force bool, actor string) error {
	return c.record(ctx, c.operations, "", func(s *server.State, now clock.Instant) ([]event.Event, error) {
		ev, err := s.Plan.Operators.Revoke(id, force, actor, now)
		return []event.Event{ev}, refusal(err)
	})
}

// BootstrapAdminToken makes an admin token if there is no operator yet, writes
// it to DataDir/admin.token, readable by its owner alone, and returns the path;
// empty when there was nothing to do. The file is durable before the token is
// good: a crash in between must not leave a token that nobody knows.
func (c *Control) BootstrapAdminToken(ctx context.Context) (path string, err error) {
	any := false
	if err := c.View(ctx, func(s *plan.State) { any = len(s.Operators) > 0 }); err != nil || any {
		return "", err
	}
	o, secret, err := newOperator("admin", access.Admin)
	if err != nil {
		return "", err
	}
	path = filepath.Join(c.cfg.DataDir, AdminTokenFile)
	if err := disk.Replace(path, []byte(secret+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write an admin token: %w", err)
	}
	_, err = c.addOperator(ctx, c.operations, added(o, secret, ""), access.DefaultLife)
	return path, err
}
