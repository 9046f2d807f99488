package workspace_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"
	info "github.com/moby/moby/api/types/system"
	"github.com/moby/moby/api/types/volume"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// TestNothingRunsPastItsEnd plays hosts with workspaces that have an end, on an engine that may be slow or not answer
// for a while: containers that ignore their signal, are paused, have commands before their stop that do not end, and
// any grace. Nothing runs past its end but where the engine itself did not answer, which the reason names; and what stops when
// it is asked to is gone soon, whatever the others do. STEADY_DEADLINES is how many are played, STEADY_SEED the first.
func TestNothingRunsPastItsEnd(t *testing.T) {
	runs, first := 300, uint64(1)
	if s := os.Getenv("STEADY_DEADLINES"); s != "" {
		n, err := strconv.Atoi(s)
		testkit.Must(t, err)
		runs = n
	}
	if s := os.Getenv("STEADY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		testkit.Must(t, err)
		first = n
	}
	sum := ends{}
	for seed := first; seed < first+uint64(runs) && !t.Failed(); seed++ {
		synctest.Test(t, func(t *testing.T) {
			for _, words := range newDock(t, seed, &sum).play() {
				t.Error(words)
			}
		})
	}
	t.Logf("%+v", sum)
	if runs >= 300 && (sum.killed == 0 || sum.obeyed == 0 || sum.hung == 0 || sum.alone == 0 || sum.named == 0) {
		t.Error("some of what is to be tried did not happen")
	}
}

var (
	firstFlag = flag.Uint64("first", 1, "the first seed of a hunt")
	seedsFlag = flag.Int("seeds", 1, "how many seeds a hunt plays")
	_         = flag.String("want", "", "the invariants that a hunt is for: there is one")
)

// TestHunt plays hosts until one breaks S57. Package mutant runs it with planted faults.
func TestHunt(t *testing.T) {
	testkit.Only(t, os.Getenv("STEADY_HUNT") != "", "package mutant runs it")
	for seed := *firstFlag; seed < *firstFlag+uint64(*seedsFlag); seed++ {
		var found []string
		fmt.Println("playing", seed)
		synctest.Test(t, func(t *testing.T) { found = newDock(t, seed, &ends{}).play() })
		if len(found) > 0 {
			fmt.Printf("found %q\n", "S57: "+found[0])
			return
		}
	}
}

// ends counts what came of the containers.
type ends struct{ obeyed, killed, hung, alone, named, restarts int }

// dock is a host with an engine of the simulation.
type dock struct {
	workspace.Engine // what is not below is not called

	t         *testing.T
	seed      uint64
	r         *rand.Rand
	sum       *ends
	store     *memory.Store
	boxes     []*simBox
	slow      time.Duration
	from, to  time.Time // the engine does not answer
	found     []string
	restarted bool
	book      *book
	carried   sync.WaitGroup // stops, by the engine

	mu   sync.Mutex
	hear func(dockerapi.Event)
	loop *reconcile.Controller
}

// simBox is a container of the simulation.
type simBox struct {
	box

	mu    sync.Mutex
	asked time.Time // to stop, first
	dead  time.Time
	gone  time.Time
}

// box is what is drawn of a container.
type box struct {
	n         int
	grace     time.Duration
	obeys     time.Duration // ends so long after its signal; negative: it ignores it
	paused    bool
	hooks     int
	endsAt    time.Time // the end that its workspace has
	removedAt time.Time // from the layer; zero: the host was cut off before
	fails     int       // attempts to stop it, by the engine, that are to come
	tries     int       // all of them
}

func (b *simBox) isDead() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.dead.IsZero()
}

// fail reports whether the engine fails to stop it this time.
func (b *simBox) fail() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails--
	return b.fails >= 0
}

func (b *simBox) id() string   { return fmt.Sprintf("%064d", b.n) }
func (b *simBox) name() string { return fmt.Sprintf("w%d", b.n) }
func (b *simBox) ref() engine.Ref {
	return engine.Ref{Kind: spec.KindWorkspace, ID: b.name()}
}

func newDock(t *testing.T, seed uint64, sum *ends) *dock {
	r := rand.New(rand.NewPCG(seed, 0xdead))
	d := &dock{t: t, seed: seed, r: r, sum: sum, store: memory.New(), book: &book{m: map[string][]byte{}}}
	if r.IntN(3) == 0 {
		d.slow = d.some(1500 * time.Millisecond)
	}
	now := time.Now()
	for n := range 1 + r.IntN(12) {
		b := &simBox{box: box{n: n, grace: d.some(20 * time.Minute).Truncate(time.Second), obeys: d.some(2 * time.Second), endsAt: now.Add(70*time.Second + d.some(15*time.Minute))}}
		if r.IntN(2) == 0 {
			b.obeys = -1
		}
		if b.paused = r.IntN(5) == 0; r.IntN(5) == 0 {
			b.hooks = 1 + r.IntN(3)
		}
		if r.IntN(2) == 0 {
			b.removedAt = b.endsAt.Add(-d.some(b.endsAt.Sub(now) - time.Second))
		}
		if r.IntN(6) == 0 {
			b.fails = 1 + r.IntN(4)
			b.tries = b.fails
		}
		d.boxes = append(d.boxes, b)
	}
	if r.IntN(4) == 0 {
		d.from = now.Add(d.some(15 * time.Minute))
		d.to = d.from.Add(d.some(5 * time.Minute))
	}
	return d
}

// some is a part of a time, mostly a small one.
func (d *dock) some(most time.Duration) time.Duration {
	x := d.r.Float64()
	return time.Duration(x * x * float64(most))
}

// start runs an agent's part until the result is called.
func (d *dock) start() (stop func()) {
	d.mu.Lock()
	workers := 4
	if !d.from.IsZero() {
		workers = 16 // one for each that waits for an engine which does not answer
	}
	d.loop = reconcile.New(d.store, reconcile.WithWorkers(workers))
	loop := d.loop
	d.mu.Unlock()
	m := workspace.New(workspace.Options{Engine: d, Owner: convert.Owner{Fleet: "f", Host: "h", Prefix: "h."}, Ledger: d.book,
		Secrets: &store{}, Dir: d.t.TempDir(), Digest: func(s string) string { return s }, Now: time.Now,
		Wake: func(ref engine.Ref) { loop.Enqueue(ref, engine.Cause{Trigger: engine.TriggerExternal}) }})
	testkit.Must(d.t, errors.Join(system.RegisterLayer(loop, func(s string) string { return "h." + s }),
		reconcile.Register(loop, spec.KindWorkspace, m, workspace.Policy())))
	d.mu.Lock()
	d.hear = func(e dockerapi.Event) {
		m.OnEvent(e)
		for _, ref := range m.Affected(e) {
			loop.Enqueue(ref, engine.Cause{Trigger: engine.TriggerExternal})
		}
	}
	d.mu.Unlock()
	m.OnEvent(dockerapi.Event{Subject: dockerapi.Resync})
	ctx, cancel := context.WithCancel(d.t.Context())
	var done sync.WaitGroup
	done.Go(func() { testkit.Must(d.t, loop.Run(ctx)) })
	return func() { cancel(); done.Wait(); m.Close() }
}

// declare sets the layer as it is now.
func (d *dock) declare() {
	l := deploy.Layer{}
	now := time.Now()
	for _, b := range d.boxes {
		if !b.removedAt.IsZero() && !now.Before(b.removedAt) {
			continue
		}
		grace := clock.FromStd(b.grace)
		l.Set.Workspaces = append(l.Set.Workspaces, spec.Workspace{Name: b.name(), Image: "i", StopGrace: &grace, PreStop: make([]spec.Hook, b.hooks)})
		end := clock.FromTime(b.endsAt)
		l.Until = append(l.Until, deploy.LayerEnd{Kind: spec.KindWorkspace, Name: b.name(), NotAfter: end, StopFrom: end.Add(-clock.Minute), Owner: spec.SessionOwner(b.name())})
	}
	l.Set.Normalize()
	_, err := d.loop.Apply(d.t.Context(), engine.Upsert(deploy.ManagedLayer, l), engine.Cause{Trigger: engine.TriggerOperator})
	testkit.Must(d.t, err)
}

func (d *dock) play() (found []string) {
	stop := d.start()
	d.declare()
	until := time.Now().Add(40 * time.Minute)
	crash := time.Time{}
	if d.r.IntN(3) == 0 {
		crash = time.Now().Add(d.some(16 * time.Minute))
	}
	seen := map[int]bool{}
	for time.Now().Before(until) && !d.over() {
		<-time.After(time.Second)
		synctest.Wait()
		now := time.Now()
		for _, b := range d.boxes {
			if at := b.removedAt; !at.IsZero() && now.Sub(at) >= 0 && now.Sub(at) < time.Second {
				d.declare()
			}
			d.named(b, now, seen)
		}
		if !crash.IsZero() && !now.Before(crash) {
			stop()
			stop, crash = d.start(), time.Time{}
			d.sum.restarts++
			d.restarted = true
		}
	}
	stop()
	d.carried.Wait()
	d.judge()
	return d.found
}

func (d *dock) over() bool {
	for _, b := range d.boxes {
		if b.gone.IsZero() {
			return false
		}
	}
	return true
}

// named checks that the reason of a workspace that runs past its end names the engine.
func (d *dock) named(b *simBox, now time.Time, seen map[int]bool) {
	if seen[b.n] || !b.dead.IsZero() || b.tries > 0 || now.Sub(b.endsAt) < 90*time.Second || d.answers(now) == now {
		return
	}
	row, err := d.store.Get(d.t.Context(), b.ref())
	testkit.Must(d.t, err)
	if seen[b.n] = true; !strings.Contains(row.Reason.Message, "container engine") {
		d.fail(b, "%s is past its end and is %s: %s", b.name(), row.Phase, row.Reason)
	}
	d.sum.named++
}

// answers is when an engine that does not answer at an instant does so.
func (d *dock) answers(at time.Time) time.Time {
	if !at.Before(d.from) && at.Before(d.to) {
		return d.to
	}
	return at
}

// Bounds of the judge.
const (
	afterHang = 2 * time.Minute  // calls that ran into it time out, and what they were for is tried again
	failed    = 20 * time.Second // from an attempt that the engine failed to the next
	promptly  = 10 * time.Second // from when something is to stop until it is gone, where nothing keeps it
)

func (d *dock) judge() {
	for _, b := range d.boxes {
		wait := time.Duration(0) // of a turn for the listing of all, and then for its own observation
		if d.slow > 0 {
			wait = 2 * engine.Policy{}.WithDefaults().ObserveTimeout
		}
		limit := b.endsAt.Add(time.Duration(b.tries) * (failed + wait))
		hung := !d.from.IsZero() && d.from.Before(limit.Add(time.Second)) && d.to.After(b.endsAt.Add(-afterHang))
		if hung {
			limit = maxTime(limit, d.to.Add(afterHang))
			d.sum.hung++
		}
		switch {
		case b.dead.IsZero():
			d.fail(b, "it runs for ever")
		case b.dead.After(limit):
			d.fail(b, "it ran until %s after its end", b.dead.Sub(b.endsAt))
		case b.gone.IsZero() || b.gone.After(maxTime(limit, d.to).Add(afterHang)):
			d.fail(b, "it ended and is not removed")
		case b.obeys >= 0 && b.grace > b.obeys && !b.removedAt.IsZero() && b.hooks == 0 && b.tries == 0 && d.from.IsZero() && !d.restarted &&
			b.gone.After(minTime(b.removedAt.Add(b.obeys+promptly+wait), b.endsAt.Add(promptly))):
			d.fail(b, "it ends when it is asked to and is gone %s after that", b.gone.Sub(b.removedAt))
		}
		switch {
		case b.removedAt.IsZero():
			d.sum.alone++
		case b.obeys >= 0:
			d.sum.obeyed++
		default:
			d.sum.killed++
		}
	}
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (d *dock) fail(b *simBox, format string, args ...any) {
	d.found = append(d.found, fmt.Sprintf("seed %d: %s: %s\n%+v\nthe engine is slow by %s and gave no answer from %s to %s", d.seed, b.name(),
		fmt.Sprintf(format, args...), &b.box, d.slow, d.from, d.to))
}

// call lets the time of one call pass, of which the engine may spend some before it answers.
func (d *dock) call(ctx context.Context, name string, limit time.Duration) error {
	now := time.Now()
	at := d.answers(now.Add(d.slow))
	late := time.NewTimer(limit)
	defer late.Stop()
	ready := time.NewTimer(at.Sub(now))
	defer ready.Stop()
	select {
	case <-ready.C:
		return nil
	case <-late.C:
		return &dockerapi.Error{Call: name, Kind: dockerapi.KindUnavailable, Socket: "sim", After: limit}
	case <-ctx.Done():
		return &dockerapi.Error{Call: name, Kind: dockerapi.KindInterrupted, Socket: "sim", Err: ctx.Err()}
	}
}

const callLimit = 30 * time.Second

func (d *dock) box(id string) *simBox {
	for _, b := range d.boxes {
		if (b.id() == id || "h."+b.name() == id) && b.gone.IsZero() {
			return b
		}
	}
	return nil
}

func notThere(what string) error {
	return &dockerapi.Error{Call: "inspect", Object: what, Kind: dockerapi.KindNotFound, Status: 404, Err: errors.New("no such thing")}
}

func (d *dock) labels(b *simBox) map[string]string {
	l := convert.Owner{Fleet: "f", Host: "h", Prefix: "h."}.Labels(spec.KindWorkspace, b.name(), "h."+b.name())
	l[convert.LabelReplica] = "1"
	if b.hooks > 0 {
		l[convert.LabelHooks] = `{"preStop":[` + strings.Repeat(`{"command":["sleep"]},`, b.hooks-1) + `{"command":["sleep"]}]}`
	}
	return l
}

func (d *dock) inspect(b *simBox) container.InspectResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	seconds := int(b.grace / time.Second)
	s := &container.State{Status: container.StateRunning, Running: b.dead.IsZero(), StartedAt: "2000-01-01T00:00:00Z"}
	switch {
	case !b.dead.IsZero():
		s.Status, s.FinishedAt, s.ExitCode = container.StateExited, b.dead.Format(time.RFC3339Nano), 137
	case b.paused:
		s.Status, s.Paused = container.StatePaused, true
	}
	return container.InspectResponse{ID: b.id(), Name: "/h." + b.name(), State: s, HostConfig: &container.HostConfig{},
		Config: &container.Config{Labels: d.labels(b), StopTimeout: &seconds}}
}

func (d *dock) Version(ctx context.Context) (dockerapi.Version, error) {
	return dockerapi.Version{API: "1.41"}, d.call(ctx, "version", callLimit)
}

func (d *dock) Info(ctx context.Context) (i info.Info, err error) {
	return i, d.call(ctx, "info", callLimit)
}

func (d *dock) ImageInspect(ctx context.Context, ref string) (i image.InspectResponse, err error) {
	if err := d.call(ctx, "image", callLimit); err != nil {
		return i, err
	}
	return i, notThere(ref)
}

func (d *dock) NetworkList(ctx context.Context, _ string, _ ...string) ([]network.Summary, error) {
	return nil, d.call(ctx, "networks", callLimit)
}

func (d *dock) VolumeList(ctx context.Context, _ ...string) ([]volume.Volume, error) {
	return nil, d.call(ctx, "volumes", callLimit)
}

func (d *dock) ContainerList(ctx context.Context, _ bool, labels ...string) (out []container.Summary, err error) {
	if err := d.call(ctx, "list", callLimit); err != nil {
		return nil, err
	}
	for _, b := range d.boxes {
		if c := d.inspect(b); b.gone.IsZero() && (len(labels) == 0 || strings.HasSuffix(labels[len(labels)-1], "="+b.name())) {
			out = append(out, container.Summary{ID: c.ID, Names: []string{c.Name}, Labels: c.Config.Labels, State: c.State.Status})
		}
	}
	return out, nil
}

func (d *dock) ContainerInspect(ctx context.Context, id string) (c container.InspectResponse, err error) {
	if err := d.call(ctx, "inspect", callLimit); err != nil {
		return c, err
	}
	if b := d.box(id); b != nil {
		return d.inspect(b), nil
	}
	return c, notThere(id)
}

func (d *dock) ContainerInspectIfChanged(ctx context.Context, id string, _ dockerapi.Sum) (*container.InspectResponse, dockerapi.Sum, error) {
	c, err := d.ContainerInspect(ctx, id)
	if err != nil {
		return nil, dockerapi.Sum{}, err
	}
	return &c, dockerapi.Sum{}, nil
}

// ContainerStop is carried on by the engine when its caller has gone. What the engine has to do itself, the kill,
// waits until it answers.
func (d *dock) ContainerStop(ctx context.Context, id string, grace time.Duration, _ string) error {
	if err := d.call(ctx, "stop", grace+callLimit); err != nil {
		return err
	}
	b := d.box(id)
	if b == nil {
		return notThere(id)
	}
	if b.fail() {
		return &dockerapi.Error{Call: "stop container", Object: id, Kind: dockerapi.KindFailed, Status: 500, Err: errors.New("tried to kill container, but did not receive an exit event")}
	}
	ended := make(chan struct{})
	d.carried.Go(func() {
		defer close(ended)
		now := time.Now()
		at := d.answers(now.Add(grace))
		b.mu.Lock()
		if b.asked.IsZero() {
			b.asked = now
		}
		if b.obeys >= 0 {
			at = minTime(at, b.asked.Add(b.obeys))
		}
		b.mu.Unlock()
		for time.Now().Before(at) && !b.isDead() {
			<-time.After(min(time.Second, time.Until(at)))
		}
		b.mu.Lock()
		first := b.dead.IsZero()
		if first {
			b.dead = time.Now()
		}
		b.mu.Unlock()
		if first {
			d.tell(b, "die")
		}
	})
	select {
	case <-ended:
		return nil
	case <-time.After(grace + callLimit):
		return &dockerapi.Error{Call: "stop container", Object: id, Kind: dockerapi.KindUnavailable, Socket: "sim", After: grace + callLimit}
	case <-ctx.Done():
		return &dockerapi.Error{Call: "stop container", Object: id, Kind: dockerapi.KindInterrupted, Socket: "sim", Err: ctx.Err()}
	}
}

func (d *dock) tell(b *simBox, action string) {
	d.mu.Lock()
	hear := d.hear
	d.mu.Unlock()
	hear(dockerapi.Event{Subject: dockerapi.Container, Action: action, ID: b.id(), Attributes: d.labels(b)})
}

func (d *dock) ContainerUnpause(ctx context.Context, id string) error {
	if err := d.call(ctx, "unpause", callLimit); err != nil {
		return err
	}
	if b := d.box(id); b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.paused = false
	}
	return nil
}

func (d *dock) ContainerRemove(ctx context.Context, id string, _ dockerapi.Removal) error {
	if err := d.call(ctx, "remove", callLimit); err != nil {
		return err
	}
	b := d.box(id)
	if b == nil {
		return notThere(id)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.dead.IsZero() {
		return &dockerapi.Error{Call: "remove container", Object: id, Kind: dockerapi.KindConflict, Status: 409, Err: errors.New("it runs")}
	}
	b.gone = time.Now()
	return nil
}

func (d *dock) ContainerLogs(ctx context.Context, _ string, _ dockerapi.Logs, _ func(dockerapi.LogLine) error) error {
	return d.call(ctx, "logs", callLimit)
}

// Run is a command that does not end.
func (d *dock) Run(ctx context.Context, _ string, _ dockerapi.Exec, _ int) (int, []byte, error) {
	<-ctx.Done()
	return 0, nil, ctx.Err()
}
