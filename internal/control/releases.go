package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Pushed says what came of a release.
type Pushed struct {
	Version uint64 `json:"version"`
	Ref     string `json:"ref"`
	// Outcome is Accepted, Refreshed or Unchanged.
	Outcome string `json:"outcome"`
}

// Outcomes of a push that verified.
const (
	Accepted  = documents.Accepted
	Refreshed = documents.Refreshed // a newer timestamp alone
	Unchanged = documents.Unchanged
)

// PushPrefix begins the names of folders that hold releases on their way in.
const PushPrefix = "push-"

// dropUnfinished removes what pushes left behind that a crash cut off.
func dropUnfinished(dataDir string) error {
	left, err := filepath.Glob(filepath.Join(dataDir, PushPrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// PushRelease verifies a packed release (see release.Pack) to its last byte and
// makes it the fleet's newest. What does not verify, or has another base than the rule
// asks for, changes nothing.
func (c *Control) PushRelease(ctx context.Context, packed io.Reader, rule documents.Follows, actor string) (Pushed, error) {
	dir, err := os.MkdirTemp(c.cfg.DataDir, PushPrefix)
	if err != nil {
		return Pushed{}, unavailable(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			c.cfg.Log.Warn("a pushed release was left behind", "err", err)
		}
	}()
	if err := release.Unpack(packed, dir, release.DefaultCaps()); err != nil {
		if errors.Is(err, release.ErrPack) {
			return Pushed{}, wire.Refuse(wire.ErrInvalid, "%v", err)
		}
		return Pushed{}, unavailable(err)
	}
	return c.PushFolder(ctx, dir, rule, actor)
}

// unavailable is the refusal for an error of the data folder outside of the store. It
// names a full disk as the store does.
func unavailable(err error) error {
	if disk.Full(err) {
		err = fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return fmt.Errorf("%w: %w", wire.ErrUnavailable, err)
}

// Newest hands out the newest accepted release, packed as it was pushed, under the
// newest timestamp and with every root that was trusted. begin is called before the
// first byte: errors until then are a refusal.
func (c *Control) Newest(ctx context.Context, w io.Writer, begin func()) error {
	view := c.public.Load()
	if view.Release.Version == 0 {
		return wire.Refuse(wire.ErrNotFound, "no release was accepted yet; push one")
	}
	named := maps.Clone(view.Release.Envelopes)
	maps.Copy(named, view.Files)
	files, err := c.library.Files(ctx, named, view.Roster)
	if err != nil {
		return err
	}
	begin()
	return release.PackFiles(w, slices.Sorted(maps.Keys(files)), func(name string) ([]byte, error) {
		return c.library.Blob(ctx, files[name])
	})
}

// PushFolder is PushRelease for a release folder on this machine, which must not
// change meanwhile.
func (c *Control) PushFolder(ctx context.Context, dir string, rule documents.Follows, actor string) (Pushed, error) {
	return c.acceptFolder(ctx, dir, rule, actor, func(cause error) error {
		if base, is := errors.AsType[*documents.BaseError](cause); is {
			c.cfg.Log.Info("refused a release for its base", "version", base.Release.Version, "ref", base.Release.Ref, "newest", base.Newest.Version, "actor", actor)
			return wire.Refuse(wire.ErrConflict, "%s", c.otherBase(ctx, base))
		}
		return c.verifyFailed(ctx, "release", cause, actor)
	})
}

// otherBase reports who published what a release leaves out, and what to do.
func (c *Control) otherBase(ctx context.Context, e *documents.BaseError) string {
	by := ""
	if actor := c.publisher(ctx, &e.Newest); actor != "" {
		by = " by " + actor
	}
	words := fmt.Sprintf("%v, published%s at %s: nothing was changed. ", e, by, e.Newest.At)
	if e.Descends {
		return words + "It follows that one by releases which the server lacks: if the server was restored from a backup, steady release push --restored; else build on what the server has: steady release publish"
	}
	back := ""
	if e.Older() {
		back = "; to go back to it: steady release rollback"
	}
	return words + "It would undo what was published since. Take that into the sources (git pull), then build on it: steady release publish, or steady release build --previous server" + back
}

// publisher names who had a release accepted, as far as the log has it still.
func (c *Control) publisher(ctx context.Context, r *plan.Release) string {
	records, err := c.LastAbout(ctx, event.Subject{Kind: event.KindRelease, Name: r.Ref}, store.MaxRead)
	if err != nil {
		c.cfg.Log.Warn("who published a release cannot be read", "ref", r.Ref, "err", err)
	}
	for i := range records {
		ev, err := event.Decode(records[i].Entry)
		if accepted, is := ev.(event.ReleaseAccepted); err == nil && is && accepted.Resolved == r.Resolved {
			return accepted.Actor
		}
	}
	return ""
}

// acceptFolder verifies and accepts a release folder; refused hears why it does not
// verify and returns the error.
func (c *Control) acceptFolder(ctx context.Context, dir string, rule documents.Follows, actor string, refused func(error) error) (Pushed, error) {
	c.pushing.Lock()
	defer c.pushing.Unlock()
	c.pushes++
	r, err := documents.VerifyRelease(dir, c.public.Load(), rule, c.now())
	if err != nil {
		return Pushed{}, refused(err)
	}
	pushed := Pushed{Version: r.Version, Ref: r.Ref, Outcome: r.Outcome}
	if r.Outcome == Unchanged {
		return pushed, nil
	}
	if err := r.Keep(ctx, releaseContent{c.cfg.Store, c}); err != nil {
		if lacks, is := errors.AsType[*documents.LacksError](err); is {
			return Pushed{}, wire.Refuse(wire.ErrInvalid, "%v", lacks)
		}
		var full *documents.StoreError
		if errors.As(err, &full) {
			err = errors.Join(wire.ErrUnavailable, err)
		}
		return Pushed{}, err
	}
	events, err := r.Events(actor)
	if err != nil {
		return Pushed{}, err
	}
	for _, ev := range events {
		if accepted, ok := ev.(event.ReleaseAccepted); ok {
			if err := c.library.Prepare(accepted); err != nil {
				return Pushed{}, err
			}
		}
	}
	if err := c.submit(ctx, c.normal, server.Release{Events: events, Revoked: r.Revoked()}); err != nil { // planned at once
		return Pushed{}, err
	}
	c.refused.forget("verify/")
	c.cfg.Log.Info("release", "outcome", pushed.Outcome, "version", pushed.Version, "ref", pushed.Ref, "actor", actor)
	return pushed, nil
}

// verifyFailed records a refused release or root, once until the cause changes.
func (c *Control) verifyFailed(ctx context.Context, what string, cause error, actor string) error {
	refused := wire.Refuse(wire.ErrInvalid, "%v", cause)
	key := "verify/" + cause.Error()
	if !c.refused.first(key) {
		return refused
	}
	c.refused.forget("verify/") // an earlier cause that comes back is news again
	c.refused.first(key)
	c.cfg.Log.Warn("refused what does not verify", "what", what, "actor", actor, "err", cause)
	ev := event.VerifyFailed{What: what, Check: string(trust.CodeOf(cause)), Detail: cause.Error(), Actor: actor}
	if err := c.submit(ctx, c.normal, recorded("", ev)); err != nil {
		return errors.Join(refused, err)
	}
	return refused
}
