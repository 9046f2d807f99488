// Package control is the server's runtime. One goroutine, the reducer, owns the
// state and is the only one that appends to the log: it takes inputs from
// bounded queues, halting ones first, folds and plans a batch of them, appends
// the batch at once, and only then answers whoever waits and carries out what
// was decided. Everything that needs no state is done before, by the callers'
// goroutines.
package control

import (
	"context"
	"io"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/core/plan"
)

// Control is a server without its edges.
type Control struct {
	cfg Config
}

// Open takes the lease, and folds the log into the state from the newest
// snapshot on. A log with an event of an unknown type is an error that names
// it. Run must follow.
func Open(ctx context.Context, cfg Config) (*Control, error) { panic("filled in by the next commit") }

// Run is the reducer. It returns nil when ctx ends, after a snapshot, and an
// error when the log cannot be appended to any more: the process must end then.
// It may be called once.
func (c *Control) Run(ctx context.Context) error { panic("filled in by the next commit") }

// Metrics returns the registry of the server's collectors.
func (c *Control) Metrics() *prometheus.Registry { panic("filled in by the next commit") }

// View runs read on the committed state, in the reducer: it must be quick, must
// not change the state and must not keep any of it.
func (c *Control) View(ctx context.Context, read func(*plan.State)) error {
	panic("filled in by the next commit")
}

// Pushed says what came of a release.
type Pushed struct {
	Version uint64 `json:"version"`
	Ref     string `json:"ref"`
	// Outcome is "accepted", "refreshed" for a newer timestamp alone, or
	// "unchanged".
	Outcome string `json:"outcome"`
}

// PushRelease verifies a packed release (see release.Pack) to its last byte and
// makes it the fleet's newest. What does not verify changes nothing.
func (c *Control) PushRelease(ctx context.Context, packed io.Reader, actor string) (Pushed, error) {
	panic("filled in by the next commit")
}

// PushFolder is PushRelease for a release folder on this machine.
func (c *Control) PushFolder(ctx context.Context, dir, actor string) (Pushed, error) {
	panic("filled in by the next commit")
}

// Operate carries out a verb on a rollout. Errors are *plan.VerbError.
func (c *Control) Operate(ctx context.Context, verb plan.Verb, rollout, reason, actor string) error {
	panic("filled in by the next commit")
}

// Reconcile has the planner look at everything now.
func (c *Control) Reconcile(ctx context.Context) error { panic("filled in by the next commit") }

// BootstrapAdminToken makes an admin token if there is no operator yet, writes
// it to DataDir/admin.token, readable by its owner alone, and returns the path;
// empty when there was nothing to do.
func (c *Control) BootstrapAdminToken(ctx context.Context) (path string, err error) {
	panic("filled in by the next commit")
}
