package control

import (
	"context"
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/wire"
)

// signed is what hosts are shown of the operators' signed overrides.
type signed struct {
	changes uint64 // of the state that it shows
	body    []byte // a wire.Overrides
	digest  digest.Digest
	retries map[digest.Digest]json.RawMessage // by manifest
}

// publishOverrides shows the overrides that are in force. It is the reducer's.
func (c *Control) publishOverrides() {
	old := c.signed.Load()
	list, retries := wire.Overrides{Overrides: []json.RawMessage{}}, map[digest.Digest]json.RawMessage{}
	for _, t := range c.state.Plan.Overrides.List() {
		env, err := c.library.Blob(context.Background(), t.Envelope)
		if err != nil { // hosts miss it; this server keeps to it all the same
			c.cfg.Log.Error("a signed override cannot be shown to hosts", "override", t.ID, "err", err)
			continue
		}
		list.Overrides = append(list.Overrides, env)
		if t.Action == fleet.OverrideRetry {
			retries[t.Manifest] = env
		}
	}
	now := &signed{changes: c.state.Plan.Signed, retries: retries}
	if body, err := json.Marshal(list); err != nil {
		c.cfg.Log.Error("the signed overrides cannot be shown to hosts", "err", err)
	} else if len(list.Overrides) > 0 || old != nil && old.digest != "" {
		now.body, now.digest = body, digest.Of(body)
	}
	c.signed.Store(now)
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
func (c *Control) PushOverride(ctx context.Context, env []byte, actor string) (gate.AcceptedOverride, bool, error) {
	v, err := c.public.Load().Verifier.Override(env, c.now())
	if err != nil {
		return gate.AcceptedOverride{}, false, c.verifyFailed(ctx, "override", err, actor)
	}
	t := gate.AcceptedOverride{Override: v.Value(), Digest: v.Digest()}
	if t.Envelope, err = c.cfg.Store.PutBlob(ctx, env); err != nil {
		return t, false, wire.Refuse(wire.ErrUnavailable, "the override could not be stored: %v", err)
	}
	news := false
	err = c.Operate(ctx, func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
		entries, err := plan.Override(s, t, actor, now)
		news = len(entries) > 0
		return entries, err
	})
	if err == nil && news {
		c.cfg.Log.Warn("signed override", "action", t.Action, "id", t.ID, "channel", t.Channel, "rollout", t.Rollout, "reason", t.Reason, "actor", actor)
	}
	return t, news, err
}
