package control

import (
	"context"
	"encoding/json"

	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/override"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/wire"
)

// signed is what hosts are shown of operators' signed words.
type signed struct {
	changes uint64 // of the state that it shows
	body    []byte // a wire.Overrides
	digest  digest.Digest
}

// publishSigned shows the overrides that are in force, and reports whether that
// is news. It is the reducer's.
func (c *Control) publishSigned() bool {
	old := c.signed.Load()
	if old != nil && old.changes == c.state.Signed {
		return false
	}
	list := wire.Overrides{Overrides: []json.RawMessage{}}
	for _, t := range c.state.Overrides.List() {
		env, err := c.library.Blob(context.Background(), t.Envelope)
		if err != nil { // hosts miss it; this server keeps to it all the same
			c.cfg.Log.Error("a signed override cannot be shown to hosts", "override", t.ID, "err", err)
			continue
		}
		list.Overrides = append(list.Overrides, env)
	}
	now := &signed{changes: c.state.Signed}
	if body, err := json.Marshal(list); err != nil {
		c.cfg.Log.Error("the signed overrides cannot be shown to hosts", "err", err)
	} else if len(list.Overrides) > 0 || old != nil && old.digest != "" {
		now.body, now.digest = body, digest.Of(body)
	}
	c.signed.Store(now)
	return true
}

// Overrides returns the signed overrides in force as a wire.Overrides in JSON,
// and its digest.
func (c *Control) Overrides() ([]byte, digest.Digest) {
	s := c.signed.Load()
	if s.body == nil {
		return []byte(`{"overrides":[]}`), digest.Of(nil)
	}
	return s.body, s.digest
}

// rollback returns the envelope of the override that rolls a manifest back, or
// nil.
func (c *Control) rollback(ctx context.Context, manifest digest.Digest) (json.RawMessage, error) {
	var env digest.Digest
	err := c.View(ctx, func(s *plan.State) {
		if t := s.Overrides.RolledBack(manifest); t != nil {
			env = t.Envelope
		}
	})
	if err != nil || env == "" {
		return nil, err
	}
	return c.library.Blob(ctx, env)
}

// PushOverride verifies an operator's signed override and acts on it. It reports
// whether that is news. What does not verify changes nothing but one event.
func (c *Control) PushOverride(ctx context.Context, env []byte, actor string) (override.Taken, bool, error) {
	v, err := c.public.Load().Verifier.Override(env, c.now())
	if err != nil {
		return override.Taken{}, false, c.verifyFailed(ctx, "override", err, actor)
	}
	t := override.Taken{Override: v.Value(), Digest: v.Digest()}
	if t.Envelope, err = c.cfg.Store.PutBlob(ctx, env); err != nil {
		return t, false, refusal.Newf(refusal.ErrUnavailable, "the override could not be stored: %v", err)
	}
	news := false
	err = c.operator(ctx, func(tn *turn) error {
		entries, err := plan.Override(tn.s, t, actor, tn.now)
		news = len(entries) > 0
		return tn.add(entries, err)
	})
	if err == nil && news {
		c.cfg.Log.Warn("signed override", "action", t.Action, "id", t.ID, "channel", t.Channel, "rollout", t.Rollout, "reason", t.Reason, "actor", actor)
	}
	return t, news, err
}
