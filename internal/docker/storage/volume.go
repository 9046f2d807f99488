// Package storage keeps what containers have on disk: named volumes, snapshots of running
// workspaces, and the configs, secrets and folders of bundles that they mount.
//
// Data in a volume is never removed but where the signed declaration allows it: all volumes
// by allowVolumeDelete, those made for a session by letting sessions in. What an
// engine keeps of a volume cannot be changed, and creating one that exists changes
// nothing either: a difference is reported and left to people. A snapshot is an image
// that is scrubbed of secrets, and checked, before it gets its name.
package storage

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// VolumeOptions are what the reconciler needs.
type VolumeOptions struct {
	Engine *dockerapi.Engine
	Owner  convert.Owner
	// AllowDelete reports whether the signed declaration lets volumes go with their
	// data; nil never does.
	AllowDelete func() bool
	// AllowSessions reports whether it lets volumes of sessions go with theirs; nil never does.
	AllowSessions func() bool
	// Bin is what is kept of sessions that are over; nil is one that is forgotten.
	Bin *Bin
	// Wall is the wall clock, by which the bin is emptied; nil is the machine's.
	Wall func() clock.Instant
	// Digest stands for values that look like secrets in what is compared and
	// shown; nil takes secret.Keyed under a key of this process.
	Digest func(value string) string
	// Declared lists the names of the volumes that have a row; nil finds no orphans.
	Declared func(ctx context.Context) (map[string]bool, error)
}

// Volumes keeps volumes as declared.
type Volumes struct {
	o       VolumeOptions
	binning sync.Mutex // of what leaves the bin
}

// DesiredVolume is what is asked of a volume.
type DesiredVolume = spec.Desired[spec.Volume]

// NewVolumes makes the reconciler.
func NewVolumes(o VolumeOptions) *Volumes {
	if o.AllowDelete == nil {
		o.AllowDelete = func() bool { return false }
	}
	if o.AllowSessions == nil {
		o.AllowSessions = func() bool { return false }
	}
	if o.Bin == nil {
		o.Bin = &Bin{list: map[string]Binned{}}
	}
	if o.Wall == nil {
		o.Wall = func() clock.Instant { return clock.FromTime(time.Now()) }
	}
	if o.Digest == nil {
		o.Digest = secret.Keyed([]byte(rand.Text()))
	}
	return &Volumes{o: o}
}

// VolumePolicy is the policy of volumes: what is gone is made again.
func VolumePolicy() engine.Policy {
	return engine.Policy{
		Retry:      engine.RetryPolicy{Max: 5, Base: 500 * time.Millisecond, Cap: 15 * time.Second},
		ActTimeout: 12 * time.Minute, OnDrift: engine.Enforce,
		Resync: time.Minute, Revive: 5 * time.Minute, CleanupGrace: dockerapi.NoGrace, History: engine.History{Keep: 20},
	}
}
