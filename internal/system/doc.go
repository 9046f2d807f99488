// Package system holds the managers of what a host runs without containers:
// generation, file and system. The kind system has two drivers: nix switches a
// Nix profile, exec runs commands, which are called steps.
//
// A generation is the parent of a bundle's files and its system. It switches in a
// fixed order: steps that are left are undone, last first; files that are no
// longer declared are removed; files are written; the Nix system is switched; steps
// run one after the other.
// It is converged when all of them were observed so in this run.
//
// Which steps are undone: on the way forward those that the new bundle does not
// name any more, on the way back every step that the abandoned bundle had begun.
package system

import (
	"context"
	"io"
	"log/slog"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// The kinds of this package.
const (
	KindGeneration = "generation"
	KindFile       = "file"
	KindSystem     = "system"
)

// Current names the one generation of a host; it is a root.
var Current = engine.Ref{Kind: KindGeneration, ID: "current"}

// Content gives bundles and blobs by digest, verified.
type Content interface {
	// Bundle returns a bundle. The result is shared and must not be changed.
	Bundle(ctx context.Context, d digest.Digest) (*fleet.Bundle, error)
	// Blob opens content of a size; its digest is checked by whoever copies it.
	Blob(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error)
	// Damaged says that the copy did not have the digest; the next Blob fetches it.
	Damaged(d digest.Digest) error
}

// Ledger remembers what the agent itself did; see the state package. What Will…
// records is durable before the thing happens.
type Ledger interface {
	Wrote(ctx context.Context, path string, d digest.Digest) (bool, error)
	WillWrite(ctx context.Context, path string, d digest.Digest) error
	Forget(ctx context.Context, path string) error
	WillMake(ctx context.Context, path string) error
	Made(ctx context.Context, path string) (bool, error)
	Unmake(ctx context.Context, path string) error
	Step(ctx context.Context, name string) (run string, done bool, err error)
	SetStep(ctx context.Context, name, run string, done bool) error
	ForgetStep(ctx context.Context, name string) error
}

// Keeper stores a copy of what somebody else wrote before it is replaced, and
// reports it.
type Keeper interface {
	Keep(ctx context.Context, path string, d digest.Digest, content io.Reader) error
}

// Host is what the managers need of the agent.
type Host struct {
	Root    string // absolute folder
	Name    string // of the host
	BootID  string // of the present boot; empty where none is known, and nothing is staged then
	Content Content
	Ledger  Ledger
	Keeper  Keeper
	Log     *slog.Logger
	// Title names what a bundle declares of containers on the engine; nil where
	// there is none.
	Title container.Titled
	// Asks are the verbs for what the bundle declares of containers; may be nil.
	Asks func() map[container.ID]deploy.Ask
	// Systems is a folder for what is known of switches of systems.
	Systems string
	// Resync is how often files and steps with a check are looked at.
	Resync clock.Duration
}

// Register adds the kinds of this package to a loop.
func Register(l *reconcile.Loop, h Host) error {
	files, err := newFiles(h)
	if err != nil {
		return err
	}
	history := engine.History{Keep: 20}
	if err := reconcile.Register(l, KindGeneration, &generations{host: h}, engine.Policy{
		Resync: 10 * clock.Minute, OnDrift: engine.Enforce, Revive: 5 * clock.Minute, History: history,
	}); err != nil {
		return err
	}
	if err := reconcile.Register(l, KindFile, files, engine.Policy{
		Retry:      engine.RetryPolicy{Max: 5, Base: 500 * clock.Millisecond, Cap: 10 * clock.Second},
		ActTimeout: 10 * clock.Minute, OnDrift: engine.Enforce,
		Resync: h.Resync, Revive: 5 * clock.Minute, History: history,
	}); err != nil {
		return err
	}
	return reconcile.Register(l, KindSystem, &systems{&execs{host: h}, &nixes{host: h}}, engine.Policy{
		Retry:      engine.RetryPolicy{Max: 3, Base: clock.Second, Cap: 10 * clock.Second},
		ActTimeout: MaxTimeout + clock.Minute, ObserveTimeout: MaxTimeout + clock.Minute, OnDrift: engine.Enforce,
		Resync: h.Resync, Revive: 5 * clock.Minute, History: history,
	})
}
