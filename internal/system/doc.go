// Package system holds the reconcilers of what a host runs without containers:
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
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// The kinds of this package.
const (
	KindGeneration = "generation"
	KindFile       = fleet.KindFile
	KindSystem     = fleet.KindSystem
)

// Current names the one generation of a host; it is a root.
var Current = engine.Ref{Kind: KindGeneration, ID: "current"}

// Content gives bundles and blobs by digest, verified.
type Content interface {
	// Bundle returns a bundle. The result is shared and must not be changed.
	Bundle(ctx context.Context, d digest.Digest) (*fleet.Bundle, error)
	// Blob opens content of a size; its digest is checked by whoever copies it.
	Blob(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error)
	// Damaged reports that the copy did not have the digest; the next Blob fetches it.
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

// Host is what the reconcilers need of the agent.
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
	Title spec.NameMapper
	// Requests are the verbs for what the bundle declares of containers; may be nil.
	Requests func() map[spec.ID]deploy.Request
	// Systems is a folder for what is known of switches of systems.
	Systems string
	// Nars brings systems that come path by path.
	Nars Nars
	// Resync is how often files and steps with a check are observed.
	Resync clock.Duration
}

// Register adds the kinds of this package to a loop.
func Register(l *reconcile.Controller, h Host) error {
	files, err := newFiles(h)
	if err != nil {
		return err
	}
	history := engine.History{Keep: 20}
	if err := reconcile.Register(l, KindGeneration, &generations{host: h}, engine.Policy{
		Resync: 10 * time.Minute, OnDrift: engine.Enforce, Revive: 5 * time.Minute, History: history,
	}); err != nil {
		return err
	}
	if err := reconcile.Register(l, KindFile, files, engine.Policy{
		Retry:      engine.RetryPolicy{Max: 5, Base: 500 * time.Millisecond, Cap: 10 * time.Second},
		ActTimeout: 10 * time.Minute, OnDrift: engine.Enforce,
		Resync: h.Resync.Std(), Revive: 5 * time.Minute, History: history,
	}); err != nil {
		return err
	}
	return reconcile.Register(l, KindSystem, &systems{&execs{host: h}, &nixes{host: h}}, engine.Policy{
		Retry:      engine.RetryPolicy{Max: 3, Base: time.Second, Cap: 10 * time.Second},
		ActTimeout: MaxTimeout.Std() + time.Minute, ObserveTimeout: MaxTimeout.Std() + time.Minute, OnDrift: engine.Enforce,
		Resync: h.Resync.Std(), Revive: 5 * time.Minute, History: history,
	})
}

// SystemDesired is what is desired of one part of the system, by its driver: Nix
// where that is set, else the commands of Exec.
type SystemDesired struct {
	Exec   fleet.Exec    `json:"exec,omitzero"`
	Nix    *fleet.Nix    `json:"nix,omitempty"`
	Bundle digest.Digest `json:"bundle"`
	Run    string        `json:"run"`
	// Released means that nobody declares the Nix system any more: what runs is left.
	Released bool `json:"released,omitempty"`
}

// SystemObserved is what one of the drivers saw.
type SystemObserved struct {
	Step StepObserved
	Nix  NixObserved
}

// systems is the reconciler of the kind system: each part goes to its driver.
type systems struct {
	execs *execs
	nix   *nixes
}

func (m *systems) Observe(ctx context.Context, r engine.Resource[SystemDesired]) (o SystemObserved, err error) {
	if r.Desired.Nix != nil {
		o.Nix, err = m.nix.Observe(ctx, r)
		return o, err
	}
	o.Step, err = m.execs.Observe(ctx, r)
	return o, err
}

func (m *systems) Decide(v engine.View[SystemDesired, SystemObserved]) engine.Decision {
	if v.Resource.Desired.Nix != nil {
		return decideNix(v.Resource, v.Observed.Nix, clock.FromTime(v.Now))
	}
	return decideStep(v.Resource, v.Observed.Step)
}

func (m *systems) Act(ctx context.Context, r engine.Resource[SystemDesired], a engine.Action) error {
	if r.Desired.Nix != nil {
		return m.nix.Act(ctx, r, a)
	}
	return m.execs.Act(ctx, r, a)
}
