// Package snapshot is the manager of snapshots: a running workspace captured as
// an image, once for each take, without the labels that say whose it is and
// without secrets. What was to be taken out is looked for in the result, and an
// image that still holds some of it is removed and never gets its name.
package snapshot

import (
	"context"
	"io"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"

	"github.com/steadyfleet/steady/internal/core/clock"
	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/ledger"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Engine is what the manager needs of the engine.
type Engine interface {
	Version(ctx context.Context) (daemon.Version, error)
	ContainerList(ctx context.Context, all bool, labels ...string) ([]container.Summary, error)
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
	ContainerCommit(ctx context.Context, id string, c daemon.Commit) (image string, err error)
	ImageList(ctx context.Context, labels ...string) ([]image.Summary, error)
	ImageInspect(ctx context.Context, ref string) (image.InspectResponse, error)
	ImageTag(ctx context.Context, source, target string) error
	ImageRemove(ctx context.Context, ref string) ([]image.DeleteResponse, error)
	ImageLoad(ctx context.Context, tar io.Reader, each func(daemon.Line)) error
}

// Ledger remembers the takes.
type Ledger interface {
	Newest(ctx context.Context, kind, name, ref string) (ledger.Image, bool, error)
	Add(ctx context.Context, i ledger.Image) error
	All(ctx context.Context) ([]ledger.Image, error)
}

// Secrets are what a workspace was given from the host's own store.
type Secrets struct {
	Env   []string // names
	Files []string // absolute paths in the container
}

// Space says in words why there is no room for another image; empty: there is.
type Space interface {
	Short(ctx context.Context) (words string, err error)
}

// Options are what the manager needs.
type Options struct {
	Engine Engine
	Owner  ownership.Owner
	Ledger Ledger
	// Running finds the container of a workspace that runs under its own name; empty
	// when none does.
	Running func(ctx context.Context, workspace string) (id string, err error)
	// Settled says whether a workspace's deployment is over; nil: always.
	Settled func(workspace string) bool
	// Secrets lists a workspace's secrets; false if it is not known, then nothing
	// is taken.
	Secrets func(workspace string) (Secrets, bool)
	// Snapshotting hears when a workspace begins and ends to be captured; may be nil.
	Snapshotting func(workspace string, on bool)
	Space        Space            // may be nil
	Now          func() time.Time // wall clock; nil takes time.Now
}

// Manager takes snapshots as declared.
type Manager struct{ o Options }

// Desired is what is asked of a snapshot.
type Desired = spec.Desired[spec.Snapshot]

// New makes the manager.
func New(o Options) *Manager {
	if o.Settled == nil {
		o.Settled = func(string) bool { return true }
	}
	if o.Snapshotting == nil {
		o.Snapshotting = func(string, bool) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Manager{o: o}
}

// Policy is the policy of snapshots. What is lost is reported: another take would
// hold something else.
func Policy() engine.Policy {
	return engine.Policy{
		Retry:      engine.RetryPolicy{Max: 3, Base: 2 * clock.Second, Cap: clock.Minute},
		ActTimeout: 30 * clock.Minute, OnDrift: engine.Enforce,
		Resync: clock.Minute, Revive: 10 * clock.Minute, History: engine.History{Keep: 20},
	}
}
