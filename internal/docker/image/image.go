// Package image is the manager of images: pulled, built or loaded on the host.
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

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/registry"

	"github.com/steadyfleet/steady/internal/core/clock"
	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/ledger"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Engine is what the manager needs of the engine.
type Engine interface {
	ImageList(ctx context.Context, labels ...string) ([]image.Summary, error)
	ImageInspect(ctx context.Context, ref string) (image.InspectResponse, error)
	ImageTag(ctx context.Context, source, target string) error
	ImageRemove(ctx context.Context, ref string) ([]image.DeleteResponse, error)
	ImagePull(ctx context.Context, p daemon.Pull, each func(daemon.Line)) error
	ImageBuild(ctx context.Context, tar io.Reader, b daemon.Build, each func(daemon.Line)) (id string, err error)
	ImageLoad(ctx context.Context, tar io.Reader, each func(daemon.Line)) error
	ContainerList(ctx context.Context, all bool, labels ...string) ([]container.Summary, error)
}

// Ledger remembers the images that were made or taken here.
type Ledger interface {
	Newest(ctx context.Context, kind, name, ref string) (ledger.Image, bool, error)
	Add(ctx context.Context, i ledger.Image) error
	All(ctx context.Context) ([]ledger.Image, error)
	Drop(ctx context.Context, i ledger.Image) error
}

// Content gives blobs by digest; whoever copies them checks the digest.
type Content interface {
	Blob(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error)
	// Damaged says that a copy did not have the digest; the next Blob fetches it.
	Damaged(d digest.Digest) error
}

// Credentials are those of the host's own store; false without any.
type Credentials interface {
	For(host string) (registry.AuthConfig, bool, error)
}

// Output takes the lines of pulls and builds as they come.
type Output interface {
	// OpenLog begins a new log of an image, after what it had.
	OpenLog(name string) (io.WriteCloser, error)
}

// Pool bounds what runs at once. Ref is the resource that wants a place, such as
// image/app; TryEnter never waits.
type Pool interface {
	TryEnter(ref string) (leave func(), ok bool)
}

// Space says in words why there is no room for another image; empty: there is.
type Space interface {
	Short(ctx context.Context) (words string, err error)
}

// Options are what the manager needs. Pools, Space, Credentials and Output may
// be nil: then nothing is bounded, refused, known or kept.
type Options struct {
	Engine      Engine
	Owner       ownership.Owner
	Ledger      Ledger
	Content     Content
	Credentials Credentials
	Output      Output
	Pulls       Pool
	Builds      Pool // and loads
	Space       Space
	// Scratch is a folder for copies of contexts and archives while they are
	// checked; empty takes that of the system.
	Scratch string
	Log     *slog.Logger     // nil discards
	Now     func() time.Time // wall clock; nil takes time.Now
	// Declared lists the names of the images that have a row; nil finds no orphans.
	Declared func(ctx context.Context) (map[string]bool, error)
}

// Manager keeps images as declared.
type Manager struct {
	o     Options
	pulls sharing

	mu        sync.Mutex
	freeSince map[string]time.Time // by reference and ID
	busy      map[string]int       // references that builds use now
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

// New makes the manager.
func New(o Options) *Manager {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Manager{o: o, pulls: sharing{running: map[string]*shared{}}, freeSince: map[string]time.Time{}, busy: map[string]int{}}
}

// Policy is the policy of images: an act is ended by what it does (no progress,
// the build's own timeout), not by the loop.
func Policy() engine.Policy {
	return engine.Policy{
		Retry:      engine.RetryPolicy{Max: 3, Base: 2 * clock.Second, Cap: clock.Minute},
		ActTimeout: 12 * clock.Hour, OnDrift: engine.Enforce,
		Resync: clock.Minute, Revive: 10 * clock.Minute, History: engine.History{Keep: 20},
	}
}
