package control

import (
	"context"
	"errors"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// RootsPushed says what came of a chain of roots.
type RootsPushed struct {
	Version  uint64 // of the root that is trusted now
	Epoch    uint64
	Accepted int // roots that are new
	// Ended says that the newest release is of a key epoch that has ended.
	Ended bool
	// ReleaseErr is nil when the newest release, if any, holds under the root.
	ReleaseErr error
}

// PushRoots takes the roots of a chain that follow the trusted one, each signed
// by its predecessor's holders and its own. Those before it are skipped; another
// root of the trusted version is refused. What does not verify changes nothing.
func (c *Control) PushRoots(ctx context.Context, chain [][]byte, actor string) (RootsPushed, error) {
	c.pushing.Lock()
	defer c.pushing.Unlock()
	c.pushes++
	v := c.public.Load().Verifier
	var events []event.Event
	for _, env := range chain {
		r, err := trust.ReadRoot(env)
		if err == nil && r.Version < v.RootVersion() {
			continue
		}
		var s trust.State
		if err == nil {
			s, err = v.Root(env)
		}
		if err != nil {
			return RootsPushed{}, c.verifyFailed(ctx, "root", err, actor)
		}
		if r.Version == v.RootVersion() {
			continue // the trusted root itself
		}
		if v, err = v.With(s); err != nil {
			return RootsPushed{}, err
		}
		d, err := c.cfg.Store.PutBlob(ctx, env)
		if err != nil {
			return RootsPushed{}, errors.Join(wire.ErrUnavailable, err)
		}
		events = append(events, event.RootTrusted{Version: r.Version, Epoch: r.Epoch, Root: d})
	}
	if len(events) > 0 {
		if err := c.submit(ctx, c.normal, server.Release{Events: events}); err != nil {
			return RootsPushed{}, err
		}
		c.cfg.Log.Warn("the root of trust was replaced", "version", v.RootVersion(), "epoch", v.Epoch(), "actor", actor)
	}
	released := c.public.Load().Release
	return RootsPushed{Version: v.RootVersion(), Epoch: v.Epoch(), Accepted: len(events),
		Ended: released.Version != 0 && released.Epoch < v.Epoch(), ReleaseErr: c.standing(ctx, v)}, nil
}

// standing is why the newest release does not hold under a root, or nil.
func (c *Control) standing(ctx context.Context, v trust.Verifier) error {
	files := c.public.Load().Files
	if files[documents.TimestampFile] == "" {
		return nil
	}
	stamp, err := c.library.Blob(ctx, files[documents.TimestampFile])
	if err != nil {
		return err
	}
	t, _, err := v.Timestamp(stamp, c.now())
	if err != nil {
		return err
	}
	resolved, err := c.library.Blob(ctx, files[documents.ResolvedFile])
	if err != nil {
		return err
	}
	_, _, err = v.Resolved(resolved, t)
	return err
}

// Root returns the document of the trusted root; its maps must not be changed.
func (c *Control) Root() trust.Root { return c.public.Load().Verifier.RootDocument() }
