package workspace

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/storage"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Engine is what the reconciler needs of the engine.
type Engine interface {
	dockerapi.Inspected
	ContainerList(ctx context.Context, all bool, labels ...string) ([]container.Summary, error)
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
	ContainerCreate(ctx context.Context, c dockerapi.Creation) (id string, warnings []string, err error)
	ContainerStart(ctx context.Context, id string) error
	ContainerStop(ctx context.Context, id string, grace time.Duration, signal string) error
	ContainerUnpause(ctx context.Context, id string) error
	ContainerRename(ctx context.Context, id, name string) error
	ContainerUpdate(ctx context.Context, id string, limits *container.Resources, restart *container.RestartPolicy) (warnings []string, err error)
	ContainerRemove(ctx context.Context, id string, r dockerapi.Removal) error
	ContainerLogs(ctx context.Context, id string, l dockerapi.Logs, each func(dockerapi.LogLine) error) error
	Run(ctx context.Context, id string, x dockerapi.Exec, most int) (code int, output []byte, err error)
	NetworkConnect(ctx context.Context, id, container string, endpoint *network.EndpointSettings) error
	NetworkDisconnect(ctx context.Context, id, container string, force bool) error
	VolumeRemove(ctx context.Context, name string) error
}

// Ledger keeps what is known of containers, by their ids, over restarts of the
// agent. Losing it makes causes unknown; nothing is removed for it.
type Ledger interface {
	Baseline(ctx context.Context, id string) ([]byte, bool, error)
	SetBaseline(ctx context.Context, id string, b []byte) error
	Forget(ctx context.Context, id string) error
}

// Secrets is the host's own store. The error of a secret that is not there wraps
// fs.ErrNotExist.
type Secrets interface {
	Get(name string) ([]byte, error)
}

// Pool bounds how many containers start at once. TryEnter never waits. Room tells
// without entering; who finds none is notified when there is.
type Pool interface {
	TryEnter(ref string) (leave func(), ok bool)
	Room(ref string) bool
}

// Target is where requests for a workspace go.
type Target struct {
	ID        string
	Addresses map[string]netip.Addr // by the engine's name of the network
}

// Upstreams is notified of a workspace's replacement, so that requests go to a
// container only while it is good.
type Upstreams interface {
	// Pause keeps requests back until the next Set, for a bounded time.
	Pause(workspace string)
	// Set leads requests to a container that is good.
	Set(workspace string, to Target)
	// Drain waits, for a bounded time, until no request is under way to a
	// container that is about to stop.
	Drain(ctx context.Context, workspace string, from Target)
}

// Options are what the reconciler needs. Starts, Upstreams and Log may be nil.
type Options struct {
	Engine    Engine
	Owner     convert.Owner
	Ledger    Ledger
	Content   storage.Blobs
	Secrets   Secrets
	Starts    Pool
	Hooks     Pool // of workspaces that run commands after a start; nil: any number
	Upstreams Upstreams
	// Dir is a folder for configs and secrets that containers mount read-only.
	// It outlives the agent.
	Dir string
	// HostRoot is the folder of the files of the engine's machine; empty where that is another machine.
	HostRoot string
	// Declared lists the names of the workspaces that have a row; nil finds no
	// orphans.
	Declared func(ctx context.Context) (map[string]bool, error)
	// Replacing reports whether a network of this name is being made anew, so that
	// nothing is connected to the one that goes; nil is no.
	Replacing func(network string) bool
	// Halted reports whether the host is disabled, so that nothing may run; nil is no.
	Halted func() bool
	// GPUs describes what the host lacks for a workspace's GPUs; nil is nothing.
	GPUs func(ctx context.Context, w *spec.Workspace) (lacks string, err error)
	// Snapshotting reports whether a workspace is being captured; nil is no.
	Snapshotting func(name string) bool
	// Digest is the host's keyed digest, as secret.Keyed makes it.
	Digest func(string) string
	// Wake has a workspace looked at once a stop that went on between its turns has ended. Without it acts wait
	// for every stop.
	Wake func(engine.Ref)
	// Clock is the clock of the ends of resources; nil takes Now.
	Clock func() time.Time
	Log   *slog.Logger
	Now   func() time.Time // wall clock, with its monotonic part; nil takes time.Now
}

// Desired is what is asked of a workspace.
type Desired = spec.Desired[spec.Deployment]

// Codes beside those of internal/core/replace.
const (
	CodeNoSlot engine.Code = "waiting-for-start-slot"
)

// Observed is what is on the engine of one workspace, compared with what was
// desired at its generation.
type Observed struct {
	Seen       replace.Seen `json:"seen"`
	Halted     bool         `json:"halted,omitempty"`
	Captured   bool         `json:"captured,omitempty"` // now, by a snapshot
	Queued     bool         `json:"queued,omitempty"`   // as many containers start as may at once
	StartFirst bool         `json:"startFirst"`
	// StopFirst reports why a replacement stops the one in place first.
	StopFirst string `json:"stopFirst,omitempty"`
	// HealthWait is how long the health check may take by its own settings; 0 without one.
	HealthWait clock.Duration `json:"healthWait,omitempty"`
}

// Reconciler keeps workspaces as declared.
type Reconciler struct {
	o     Options
	cache *dockerapi.Inspector
	files *storage.Folder

	stopping sync.WaitGroup // tasks

	mu          sync.Mutex
	known       map[engine.Ref]*engine.Resource[Desired] // as last observed alone; not changed
	firstSeen   map[string]ran
	comparisons map[string]comparison
	tails       map[string]tail
	checks      map[string]check
	ends        map[string]ending
	completed   map[string]completed // by workspace, as in the ledger
	upstreams   map[string]string    // last told of a workspace's place
	counters    map[string]record
	needs       map[engine.Ref]*needs // of the last check
	copies      map[engine.Ref]copyState
	stops       map[engine.Ref]string // how the commands before the last stop failed
	tasks       map[string]*stopTask  // by container
	stays       map[engine.Ref]stay
}

// New makes the reconciler.
func New(o Options) *Reconciler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Clock == nil {
		o.Clock = o.Now
	}
	m := &Reconciler{o: o, cache: dockerapi.NewInspector(o.Engine, o.Now), known: map[engine.Ref]*engine.Resource[Desired]{},
		firstSeen: map[string]ran{}, comparisons: map[string]comparison{}, tails: map[string]tail{}, checks: map[string]check{}, ends: map[string]ending{}, completed: map[string]completed{}, upstreams: map[string]string{}, counters: map[string]record{}, needs: map[engine.Ref]*needs{},
		copies: map[engine.Ref]copyState{}, stops: map[engine.Ref]string{},
		tasks: map[string]*stopTask{}, stays: map[engine.Ref]stay{}}
	m.files = storage.NewFolder(o.Dir, o.Content, m.secret)
	return m
}

// OnEvent takes the events of the engine. Without it what was seen is trusted for a
// second only.
func (m *Reconciler) OnEvent(e dockerapi.Event) {
	m.noteEnd(e)
	m.cache.OnEvent(e)
}

// Policy is the policy of workspaces: outside changes are cured, except of those
// that are declared to report only.
func Policy() engine.Policy {
	return engine.Policy{
		Retry:      engine.RetryPolicy{Max: 3, Base: time.Second, Cap: time.Minute},
		ActTimeout: 10 * time.Minute, OnDrift: engine.Enforce,
		Resync: time.Minute, Revive: 5 * time.Minute, History: engine.History{Keep: 50}, CleanupGrace: dockerapi.NoGrace,
	}
}

var (
	_ reconcile.Reconciler[Desired, Observed] = (*Reconciler)(nil)
	_ reconcile.BulkObserver[Observed]        = (*Reconciler)(nil)
	_ reconcile.OrphanLister                  = (*Reconciler)(nil)
)

// title is the engine's name of a workspace.
func (m *Reconciler) title(d *Desired) string { return d.Spec.Workspace.EngineName(m.o.Owner.Title) }

// Want is what steps depend on of what is desired.
func (m *Reconciler) Want(r *engine.Resource[Desired], o *Observed) replace.Want {
	w := &r.Desired.Spec.Workspace
	return replace.Want{
		Title: m.title(&r.Desired), Run: w.State, Restart: w.Restart, Suspended: r.Desired.Suspended, Delete: r.Delete, ReportOnly: w.ReportOnly,
		HasConverged: r.Status.ConvergedGeneration == r.Generation, Verb: r.Desired.Verb, Nonce: r.Desired.Nonce,
		StartFirst: o.StartFirst, Monitor: w.Update.Monitor, HealthWait: cmp.Or(w.Update.HealthWait, max(o.HealthWait, replace.DefaultHealthWait)),
	}
}

// Decide decides on the next step.
func (m *Reconciler) Decide(v engine.View[Desired, Observed]) engine.Decision {
	d := m.decide(&v.Resource, &v.Observed, clock.FromTime(v.Now))
	// The engine waits for as long as a container has to stop, and the rest of the act comes after.
	longest := clock.Duration(0)
	for _, c := range v.Observed.Seen.Containers {
		longest = max(longest, c.StopGrace)
	}
	d = d.Within(Policy().ActTimeout + longest.Std())
	if !v.Observed.Queued {
		return d
	}
	why := noSlot
	switch _, runs := d.Action().(replace.RunHooks); {
	case runs:
		why = noHookSlot
	case !starts(d.Action()):
		return d
	}
	return engine.WaitUntil(v.Now.Add(slotPause), engine.NewReason(CodeNoSlot, why))
}

// decide decides without regard to how many containers start.
func (m *Reconciler) decide(r *engine.Resource[Desired], o *Observed, now clock.Instant) engine.Decision {
	w := m.Want(r, o)
	w.Halted, w.Snapshotting = o.Halted, o.Captured
	return replace.Decide(w, o.Seen, now)
}

// Act takes one step.
func (m *Reconciler) Act(ctx context.Context, r engine.Resource[Desired], a engine.Action) error {
	step, ok := a.(replace.Action)
	if !ok {
		return reconcile.Terminal(engine.CodeBadIntent, fmt.Errorf("a workspace has no action %s", a.ActionName()))
	}
	err := dockerapi.ErrorOf(ctx, step.Carry(&handler{m: m, ctx: ctx, r: r, title: m.title(&r.Desired)}))
	return m.insist(ctx, &r, err)
}
