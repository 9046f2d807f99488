// Package storage keeps what containers have on disk: named volumes, snapshots of running
// workspaces, and the configs, secrets and folders of bundles that they mount.
//
// Data in a volume is never removed but where the signed declaration allows it. What an
// engine keeps of a volume cannot be changed, and creating one that exists changes
// nothing either: a difference is reported and left to people. A snapshot is an image
// that is scrubbed of secrets, and checked, before it gets its name.
package storage

import (
	"context"
	"crypto/rand"
	"time"

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
	// Digest stands for values that look like secrets in what is compared and
	// shown; nil takes secret.Keyed under a key of this process.
	Digest func(value string) string
	// Declared lists the names of the volumes that have a row; nil finds no orphans.
	Declared func(ctx context.Context) (map[string]bool, error)
}

// Volumes keeps volumes as declared.
type Volumes struct{ o VolumeOptions }

// DesiredVolume is what is asked of a volume.
type DesiredVolume = spec.Desired[spec.Volume]

// NewVolumes makes the reconciler.
func NewVolumes(o VolumeOptions) *Volumes {
	if o.AllowDelete == nil {
		o.AllowDelete = func() bool { return false }
	}
	if o.Digest == nil {
		o.Digest = secret.Keyed([]byte(rand.Text()))
	}
	return &Volumes{o}
}

// VolumePolicy is the policy of volumes: what is gone is made again.
func VolumePolicy() engine.Policy {
	return engine.Policy{
		Retry:      engine.RetryPolicy{Max: 5, Base: 500 * time.Millisecond, Cap: 15 * time.Second},
		ActTimeout: 12 * time.Minute, OnDrift: engine.Enforce,
		Resync: time.Minute, Revive: 5 * time.Minute, History: engine.History{Keep: 20},
	}
}
