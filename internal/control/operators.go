package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Operator is the bearer of an operator token.
type Operator struct {
	ID      string
	Name    string
	Role    string
	Expires clock.Instant // zero: never
}

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

// Operator returns who bears a token. Refusals are of kind refusal.ErrForbidden.
func (c *Control) Operator(secret string) (Operator, error) {
	// Only the hash is compared, so that time tells nothing of the token.
	b, ok := (*c.operators.Load())[sha256.Sum256([]byte(secret))]
	now := c.now()
	switch {
	case !ok:
		return Operator{}, refusal.Newf(refusal.ErrForbidden, "the operator token is not known to this server, or was revoked; "+
			"an admin makes another with steady operator create NAME, or whoever owns the server's data folder with steady server recover-admin --data DATA")
	case b.token.Expired(now):
		return Operator{}, refusal.Newf(refusal.ErrForbidden, "operator token %s (%s) ended at %s; "+
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
	if last != 0 && now.Sub(clock.Instant(last)) < access.UseInterval || !b.recorded.CompareAndSwap(last, int64(now)) {
		return
	}
	in := &input{apply: func(t *turn) error {
		if ev, news := t.s.Operators.Used(b.ID, t.now); news {
			return t.record("", ev)
		}
		return nil
	}}
	select {
	case c.normal <- in:
	default:
		b.recorded.Store(last)
	}
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
	bearers := make(map[[sha256.Size]byte]*bearer, len(c.state.Operators))
	for id, t := range c.state.Operators {
		b := &bearer{Operator: Operator{ID: id, Name: t.Name, Role: t.Role, Expires: t.Expires}, token: t, used: new(atomic.Int64), recorded: new(atomic.Int64)}
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
		return Operator{}, "", refusal.Newf(refusal.ErrInvalid, "%v", err)
	}
	raw, id := make([]byte, 32), make([]byte, 8)
	rand.Read(raw)
	rand.Read(id)
	return Operator{ID: hex.EncodeToString(id), Name: name, Role: role}, secretPrefix + base64.RawURLEncoding.EncodeToString(raw), nil
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
	err = c.submit(ctx, lane, func(t *turn) error {
		decided, err := t.s.Operators.Add(ev, life, t.now)
		if err != nil {
			return accessRefusal(err)
		}
		expires = decided.Expires
		return t.record("", decided)
	})
	return expires, err
}

// RevokeOperator withdraws an operator token; the last admin's only by force.
func (c *Control) RevokeOperator(ctx context.Context, id string, force bool, actor string) error {
	return c.submit(ctx, c.words, func(t *turn) error {
		ev, err := t.s.Operators.Revoke(id, force, actor, t.now)
		if err != nil {
			return accessRefusal(err)
		}
		return t.record("", ev)
	})
}

// accessRefusal gives a refusal of the rules of access its kind.
func accessRefusal(err error) error {
	var refused *access.Error
	if !errors.As(err, &refused) {
		return err
	}
	if refused.Unknown {
		return refusal.Newf(refusal.ErrNotFound, "%s", refused.Reason)
	}
	return refusal.Newf(refusal.ErrConflict, "%s", refused.Reason)
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
	if err := writeSecret(path, secret); err != nil {
		return "", err
	}
	_, err = c.addOperator(ctx, c.words, added(o, secret, ""), access.DefaultLife)
	return path, err
}

// writeSecret writes a secret, durably, where only its owner reads it.
func writeSecret(path, secret string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write an admin token: %w", err)
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Sync(), f.Close(), syncFolder(filepath.Dir(path))); err != nil {
		return fmt.Errorf("write an admin token: %w", err)
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Operate carries out a verb on a rollout. Errors are *plan.VerbError.
func (c *Control) Operate(ctx context.Context, verb plan.Verb, rollout, reason, actor string) error {
	return c.operator(ctx, func(t *turn) error {
		return t.add(plan.Operate(t.s, verb, rollout, reason, actor, t.now))
	})
}

// ClearQuarantine allows a bundle again on a channel. Errors are *plan.VerbError.
func (c *Control) ClearQuarantine(ctx context.Context, channel, bundle, reason, actor string) error {
	return c.operator(ctx, func(t *turn) error {
		return t.add(plan.ClearQuarantine(t.s, channel, strings.TrimSpace(bundle), reason, actor, t.now))
	})
}

// Reconcile has the planner look at everything now.
func (c *Control) Reconcile(ctx context.Context) error {
	return c.operator(ctx, func(t *turn) error {
		t.s.Nudge()
		return nil
	})
}

// operator runs an operator's word ahead of everything that hosts say, however much
// of it waits, and the planner at once.
func (c *Control) operator(ctx context.Context, apply func(*turn) error) error {
	return c.submit(ctx, c.words, func(t *turn) error {
		err := apply(t)
		c.hurry = c.hurry || err == nil
		return err
	})
}
