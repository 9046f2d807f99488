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

	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Operator is the bearer of an operator token.
type Operator struct {
	ID   string
	Name string
	Role string
}

// secretPrefix makes an operator token easy to recognise where it leaked.
const secretPrefix = "steadyop_"

// AdminTokenFile is the name of the first admin token's file in the data folder.
const AdminTokenFile = "admin.token"

// Operator returns who bears a token.
func (c *Control) Operator(secret string) (Operator, bool) {
	// Only the hash is compared, so that time tells nothing of the token.
	o, ok := (*c.operators.Load())[sha256.Sum256([]byte(secret))]
	return o, ok
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

// AddOperator makes an operator token and returns its secret, which is kept
// nowhere.
func (c *Control) AddOperator(ctx context.Context, name, role string) (Operator, string, error) {
	o, secret, err := newOperator(name, role)
	if err != nil {
		return Operator{}, "", err
	}
	return o, secret, c.addOperator(ctx, o, secret)
}

func (c *Control) addOperator(ctx context.Context, o Operator, secret string) error {
	sum := sha256.Sum256([]byte(secret))
	return c.submit(ctx, c.normal, func(t *turn) error {
		return t.record("", event.OperatorTokenAdded{ID: o.ID, Name: o.Name, Role: o.Role, Hash: sum[:]})
	})
}

// RevokeOperator withdraws an operator token.
func (c *Control) RevokeOperator(ctx context.Context, id, actor string) error {
	return c.submit(ctx, c.words, func(t *turn) error {
		if _, ok := t.s.Operators[id]; !ok {
			return refusal.Newf(refusal.ErrNotFound, "there is no operator token %q", id)
		}
		return t.record("", event.OperatorTokenRevoked{ID: id, Actor: actor})
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
	o, secret, err := newOperator("admin", "admin")
	if err != nil {
		return "", err
	}
	path = filepath.Join(c.cfg.DataDir, AdminTokenFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", fmt.Errorf("write the first admin token: %w", err)
	}
	_, err = f.WriteString(secret + "\n")
	if err = errors.Join(err, f.Sync(), f.Close(), syncFolder(c.cfg.DataDir)); err != nil {
		return "", fmt.Errorf("write the first admin token: %w", err)
	}
	return path, c.addOperator(ctx, o, secret)
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
