package storage

import (
	"context"
	"time"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Secrets are what a workspace was given from the host's own store.
type Secrets struct {
	Env   []string // names
	Files []string // absolute paths in the container
}

// SnapshotOptions are what the reconciler needs.
type SnapshotOptions struct {
	Engine *dockerapi.Engine
	Owner  convert.Owner
	Ledger *image.File
	// Running finds the container of a workspace that runs under its own name; empty
	// when none does.
	Running func(ctx context.Context, workspace string) (id string, err error)
	// Deployed reports whether a workspace's deployment is over; nil: always.
	Deployed func(workspace string) bool
	// Secrets lists a workspace's secrets; false if it is not known, then nothing
	// is taken.
	Secrets func(workspace string) (Secrets, bool)
	// Snapshotting is notified when a workspace begins and ends to be captured; may be nil.
	Snapshotting func(workspace string, on bool)
	Space        image.Space      // may be nil
	Now          func() time.Time // wall clock; nil takes time.Now
}

// Snapshots takes snapshots as declared.
type Snapshots struct{ o SnapshotOptions }

// DesiredSnapshot is what is asked of a snapshot.
type DesiredSnapshot = spec.Desired[spec.Snapshot]

// NewSnapshots makes the reconciler.
func NewSnapshots(o SnapshotOptions) *Snapshots {
	if o.Deployed == nil {
		o.Deployed = func(string) bool { return true }
	}
	if o.Snapshotting == nil {
		o.Snapshotting = func(string, bool) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Snapshots{o: o}
}

// SnapshotPolicy is the policy of snapshots. What is lost is reported: another take would
// hold something else.
func SnapshotPolicy() engine.Policy {
	return engine.Policy{
		Retry:      engine.RetryPolicy{Max: 3, Base: 2 * time.Second, Cap: time.Minute},
		ActTimeout: 30 * time.Minute, OnDrift: engine.Enforce,
		Resync: time.Minute, Revive: 10 * time.Minute, CleanupGrace: dockerapi.NoGrace, History: engine.History{Keep: 20},
	}
}
