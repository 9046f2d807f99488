// Package image is the reconciler of images: pulled, built or loaded on the host.
//
// An image is known by its ID, never by its tag alone: what the agent made is in
// the ledger, so that a tag that was moved or removed from outside is seen, and
// an unchanged declaration never builds again. Images are not removed when they
// are no longer declared but collected when nothing refers to them.
package image

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/moby/moby/api/types/registry"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Content gives blobs by digest; whoever copies them checks the digest.
type Content interface {
	Blob(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error)
	// Damaged reports that a copy did not have the digest; the next Blob fetches it.
	Damaged(d digest.Digest) error
}

// Credentials are those of the host's own store; false without any.
type Credentials interface {
	For(host string) (registry.AuthConfig, bool, error)
}

// Pool bounds what runs at once. Ref is the resource that wants a place, such as
// image/app; TryEnter never waits.
type Pool interface {
	TryEnter(ref string) (leave func(), ok bool)
}

// Space describes why there is no room for another image; empty: there is.
type Space interface {
	Short(ctx context.Context) (message string, err error)
}

// Options are what the reconciler needs. Pools, Space, Credentials and Output may
// be nil: then nothing is bounded, refused, known or kept.
type Options struct {
	Engine      *dockerapi.Engine
	Owner       convert.Owner
	Ledger      *File
	Content     Content
	Credentials Credentials
	Output      *Store
	Pulls       Pool
	Builds      Pool // and loads
	Space       Space
	Log         *slog.Logger     // nil discards
	Now         func() time.Time // wall clock; nil takes time.Now
	// Declared lists the names of the images that have a row; nil finds no orphans.
	Declared func(ctx context.Context) (map[string]bool, error)
}

// Reconciler keeps images as declared.
type Reconciler struct {
	o     Options
	pulls flights

	mu        sync.Mutex
	freeSince map[string]time.Time // by reference and ID
	pinned    map[string]int       // references that builds use now
}

// Desired is what is asked of an image.
type Desired = spec.Desired[spec.Image]

// Verbs of Desired. A new Nonce asks again.
const (
	// VerbCancel stops what runs and begins nothing until another verb or
	// declaration comes.
	VerbCancel = "cancel"
	// VerbRetry starts afresh after a failure or a cancel.
	VerbRetry = "retry"
	// VerbRebuild builds, pulls or loads although the image is there.
	VerbRebuild = "rebuild"
)

// DefaultTimeout ends a build that declares none.
const DefaultTimeout = clock.Hour

// New makes the reconciler.
func New(o Options) *Reconciler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reconciler{o: o, pulls: flights{running: map[string]*flight{}}, freeSince: map[string]time.Time{}, pinned: map[string]int{}}
}

// Policy is the policy of images: an act is ended by what it does (no progress,
// the build's own timeout), not by the loop.
func Policy() engine.Policy {
	return engine.Policy{
		Retry:      engine.RetryPolicy{Max: 3, Base: 2 * time.Second, Cap: time.Minute},
		ActTimeout: 12 * time.Hour, OnDrift: engine.Enforce,
		Resync: time.Minute, Revive: 10 * time.Minute, CleanupGrace: dockerapi.NoGrace, History: engine.History{Keep: 20},
	}
}
