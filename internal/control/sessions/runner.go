// Package sessions runs the kinds of sessions on the server: their rows are a fold of its log,
// their pods entries of the managed layers of hosts.
package sessions

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Server is what sessions need of the server that they run on.
type Server interface {
	// ViewState runs read on the committed state, in the reducer, which serves nobody else meanwhile: read takes a
	// bounded number of steps, and neither changes nor keeps any of it. What searches or describes does so on a copy.
	ViewState(ctx context.Context, read func(*server.State)) error
	// Record has events recorded that decide makes of the committed state.
	Record(ctx context.Context, host string, decide func(*server.State, clock.Instant) ([]event.Event, error)) error
	Target(ctx context.Context, host string) (*managed.Target, error)
	Roster() map[string]fleet.RosterHost
	Bundle(ctx context.Context, d digest.Digest) (*fleet.Bundle, error)
	// Exec runs a command in a workspace of a host, and fails unless its exit code is 0.
	Exec(ctx context.Context, host, workspace string, argv []string, actor string) error
}

// Runner runs sessions while the server leads.
type Runner struct {
	srv    Server
	now    func() time.Time
	client *http.Client
	loop   *reconcile.Controller
	began  time.Time // while the server was away no host could report
	// attempts is how often a phase is attempted whose file has no number.
	attempts int

	news      news
	admission sync.Mutex // from a check against others to what is asked for

	mu   sync.Mutex
	used map[digest.Digest]used // by bundle

	scenes   scenes
	searches searches
	declared declared
}

// parents is the policy of the kinds that act through their children alone. A resync finds what no event announced.
var parents = reconcile.Policy{OnDrift: reconcile.Enforce, Resync: 10 * time.Minute, CleanupGrace: session.MaxLength, Revive: reconcile.Never}

// MaxAttempts bounds Retry.Max.
const MaxAttempts = 100

// DefaultRetry is the policy of retries where the server has none of its own.
var DefaultRetry = reconcile.RetryPolicy{Max: session.DefaultAttempts, Base: time.Second, Cap: time.Minute}

// withDefaults fills the zero fields.
func withDefaults(r reconcile.RetryPolicy) reconcile.RetryPolicy {
	return reconcile.RetryPolicy{Max: cmp.Or(r.Max, DefaultRetry.Max), Base: cmp.Or(r.Base, DefaultRetry.Base), Cap: cmp.Or(r.Cap, DefaultRetry.Cap)}
}

// ofPods is the policy of pods. What concerns a pod wakes it: see Committed.
func ofPods(retry reconcile.RetryPolicy) reconcile.Policy {
	return reconcile.Policy{OnDrift: reconcile.Enforce, Resync: 10 * time.Minute, CleanupGrace: session.MaxLength, Revive: reconcile.Never, Retry: retry}
}

// ofPhases is the policy of phases, which count their attempts themselves: the last of them is final.
func ofPhases(retry reconcile.RetryPolicy) reconcile.Policy {
	retry.Max = 1 + max(retry.Max, 1+session.MaxRetries)
	return reconcile.Policy{OnDrift: reconcile.Enforce, CleanupGrace: session.MaxLength, Revive: reconcile.Never, ActTimeout: commandTimeout, Retry: retry}
}

// New makes the runner of a server, by whose policy pods and phases are tried again; its zero fields are those of
// DefaultRetry. Options are further ones of its controller. Nothing runs before Run.
func New(srv Server, now func() time.Time, log *slog.Logger, retry reconcile.RetryPolicy, options ...reconcile.Option) (*Runner, error) {
	retry = withDefaults(retry)
	r := &Runner{srv: srv, now: now, client: newClient(), attempts: retry.Max, used: map[digest.Digest]used{}}
	r.loop = reconcile.New(logStore{r}, append(options, reconcile.WithNow(now), reconcile.WithUnknownFields(), reconcile.WithLogger(log))...)
	for _, k := range []reconcile.Kind{
		reconcile.Of(session.KindSession, parent[session.Spec]{session.Decide}, parents),
		reconcile.Of(session.KindPart, parent[session.PartSpec]{session.DecidePart}, parents),
		reconcile.Of(session.KindPod, pods{r}, ofPods(retry)),
		reconcile.Of(session.KindPhase, phases{r}, ofPhases(retry)),
		reconcile.Of(session.KindTemplate, parent[session.Template]{session.DecideTemplate}, parents),
		reconcile.Of(session.KindQuota, parent[session.Quota]{session.DecideQuota}, parents),
	} {
		if err := k(r.loop); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Run reconciles until ctx ends.
func (r *Runner) Run(ctx context.Context) error {
	r.began = r.now()
	return r.loop.Run(ctx)
}

// Stepper has a simulation take the turns itself, in place of Run.
func (r *Runner) Stepper(ctx context.Context) (*reconcile.Stepper, error) { return r.loop.Stepper(ctx) }

// Committed has the pods looked at that committed events of hosts may concern. It never blocks.
func (r *Runner) Committed(s *server.State, entries []event.Entry) {
	r.news.tell()
	r.scenes.note(r, s, entries)
	if s.Booked.Len() == 0 {
		return
	}
	news, release := map[string]string{}, ""
	for i := range entries {
		switch host := entries[i].Host(); {
		case entries[i].Type == (event.ReleaseAccepted{}).EventType():
			release = entries[i].Type // hosts may be declared otherwise
		case host != "" && news[host] == "":
			news[host] = entries[i].Type
		}
	}
	if len(news) == 0 && release == "" {
		return
	}
	var refs []engine.Ref
	for ref, b := range s.Booked.All() { // order-free: sorted below
		if news[b.Host] != "" || release != "" {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, engine.Ref.Compare)
	for _, ref := range refs {
		b, _ := s.Booked.Of(ref)
		r.loop.Enqueue(ref, engine.Cause{Trigger: engine.TriggerExternal, ID: cmp.Or(news[b.Host], release)})
	}
}

// parent is a kind that acts through its children alone.
type parent[D any] struct {
	decide func(engine.View[D, session.NeedsNothing]) engine.Decision
}

// Observe implements reconcile.Reconciler.
func (parent[D]) Observe(context.Context, engine.Resource[D]) (session.NeedsNothing, error) {
	return session.NeedsNothing{}, nil
}

// Decide implements reconcile.Reconciler.
func (p parent[D]) Decide(v engine.View[D, session.NeedsNothing]) engine.Decision { return p.decide(v) }

// Act implements reconcile.Reconciler.
func (parent[D]) Act(context.Context, engine.Resource[D], engine.Action) error { return nil }
