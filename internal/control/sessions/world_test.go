package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// world is a server's real state and log with hosts that do what their layers say, in the time of a
// synctest bubble, or in that of its steps. The log outlives every process.
type world struct {
	t        testkit.T
	mu       sync.Mutex
	state    *server.State
	log      []event.Entry
	roster   map[string]fleet.RosterHost // another one after each change
	rosterMu sync.Mutex
	agents   map[string]*agent
	down     error // of the store
	ran      []string
	exec     error // of a command
	changed  chan struct{}

	client *http.Client // nil: the runner's own
	retry  reconcile.RetryPolicy
	runner *Runner
	stop   context.CancelFunc
	done   chan error
	ctx    context.Context
	end    context.CancelFunc
	living sync.WaitGroup // the hosts
	// overtake happens once, before the first booking of a pod is decided.
	overtake func(*world)
	steps    *steps // nil in a bubble
}

// now is the time of the world.
func (w *world) now() time.Time {
	if w.steps != nil {
		return w.steps.now
	}
	return time.Now()
}

func (w *world) clock() clock.Instant { return clock.FromTime(w.now()) }

// agent is a host: what runs on it, until when, and what it does wrong.
type agent struct {
	online  bool
	facts   event.HostFacts
	running map[string]clock.Instant // by kind/name: its notAfter
	broken  map[string]bool          // by name: fails
	told    map[string]engine.Phase
	keeps   map[string]string // by kind/name: why it cannot be removed
}

const day = 24 * time.Hour

func newWorld(t testkit.T, hosts ...string) *world {
	w := hostsOf(t, hosts)
	w.ctx, w.end = context.WithCancel(context.Background())
	w.fold()
	w.start()
	w.living.Go(w.live)
	return w
}

func hostsOf(t testkit.T, hosts []string) *world {
	w := &world{t: t, roster: map[string]fleet.RosterHost{}, agents: map[string]*agent{}, changed: make(chan struct{}, 1)}
	for _, name := range hosts {
		w.roster[name] = fleet.RosterHost{Channel: "lab", Bundle: digest.Of([]byte("empty")), Tags: []string{"lab"},
			Delegation: &fleet.Delegation{Kinds: []string{"image", "network", "volume", "workspace"},
				Bounds: spec.Bounds{Kinds: []string{"image", "network", "volume", "workspace"}, Images: []string{"*"}, Owners: []string{spec.OwnerSession}, Devices: true}}}
		w.agents[name] = &agent{online: true, running: map[string]clock.Instant{}, broken: map[string]bool{}, told: map[string]engine.Phase{},
			facts: event.HostFacts{CPUs: 8, Memory: 16 << 30, Arch: "amd64", Engine: "docker", GPUs: []event.GPU{{Vendor: "nvidia", Model: "t4", Memory: 16 << 30}, {Vendor: "nvidia", Model: "t4", Memory: 16 << 30}}}}
	}
	return w
}

// fold makes the state again of the log.
func (w *world) fold() {
	w.state = server.NewState(nil)
	for name, a := range w.agents {
		w.state.Plan.Hosts[name] = &plan.Host{Name: name, Incarnation: 1, Online: a.online, Facts: &a.facts}
	}
	for _, e := range w.log {
		w.check(w.state.Apply(e))
	}
}

func (w *world) check(err error) {
	if err != nil {
		w.t.Fatalf("%v", err)
	}
}

func (w *world) start() {
	r, err := New(w, w.now, slog.New(slog.DiscardHandler), w.retry)
	w.check(err)
	if w.steps != nil {
		w.runner = r
		w.steps.turns, err = r.Stepper(context.Background())
		w.check(err)
		return
	}
	if w.client != nil {
		r.client = w.client
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	w.runner, w.done = r, make(chan error, 1)
	go func() { w.done <- r.Run(ctx) }()
}

// restart ends the server and begins another one on the same log.
func (w *world) restart() {
	if w.steps == nil {
		w.stop()
		w.check(<-w.done)
	}
	w.mu.Lock()
	w.fold()
	w.mu.Unlock()
	w.start()
}

func (w *world) close() {
	w.end()
	w.stop()
	w.check(<-w.done)
	w.living.Wait()
}

// ViewState implements Server.
func (w *world) ViewState(_ context.Context, read func(*server.State)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	read(w.state)
	return nil
}

// Record implements Server.
func (w *world) Record(_ context.Context, host string, decide func(*server.State, clock.Instant) ([]event.Event, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.down != nil {
		return w.down
	}
	now := w.clock()
	events, err := decide(w.state, now)
	if overtake := w.overtake; overtake != nil && w.books(events) {
		w.overtake = nil
		overtake(w)
		events, err = decide(w.state, now)
	}
	if err != nil {
		return err
	}
	w.record(host, events...)
	return nil
}

// books reports whether events book a host.
func (w *world) books(events []event.Event) bool {
	for _, ev := range events {
		var write engine.Write
		if ev, is := ev.(event.ResourceRecorded); is {
			w.check(json.Unmarshal(ev.Write, &write))
		}
		for _, r := range write.Rows {
			if w.check(r.SetState(r.State)); session.Booking(&r.Row) != nil {
				return true
			}
		}
	}
	return false
}

// record appends events; the caller has mu.
func (w *world) record(host string, events ...event.Event) {
	entries, err := w.state.Record(host, w.clock(), events...)
	w.check(err)
	w.log = append(w.log, entries...)
	if host == "" { // rows
		w.holds()
	}
	w.runner.Committed(w.state, entries)
	if host != "" {
		w.kick()
	}
}

// Target implements Server.
func (w *world) Target(_ context.Context, host string) (*managed.Target, error) {
	h, ok := w.Roster()[host]
	return &managed.Target{Host: host, Declared: ok, Delegation: h.Delegation, Bundle: &spec.Set{}}, nil
}

// Roster implements Server.
func (w *world) Roster() map[string]fleet.RosterHost {
	w.rosterMu.Lock()
	defer w.rosterMu.Unlock()
	return w.roster
}

// bounds declares a host otherwise: in another roster, as a release does.
func (w *world) bounds(host string, change func(*spec.Bounds)) {
	w.rosterMu.Lock()
	defer w.rosterMu.Unlock()
	h, d := w.roster[host], *w.roster[host].Delegation
	change(&d.Bounds)
	h.Delegation, w.roster = &d, maps.Clone(w.roster)
	w.roster[host] = h
}

// Bundle implements Server.
func (w *world) Bundle(context.Context, digest.Digest) (*fleet.Bundle, error) {
	return &fleet.Bundle{}, nil
}

// Exec implements Server: a command succeeds while its host is there and its workload is not broken.
func (w *world) Exec(_ context.Context, host, workspace string, argv []string, _ string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.agents[host]
	w.ran = append(w.ran, strings.Join(argv, " ")+" in "+workspace+" on "+host)
	if !a.online || a.broken["workspace/"+workspace] {
		return errors.New("exit code 1: no")
	}
	return w.exec
}

// live has hosts follow their layers a second after something changed, and the server drop what has ended.
func (w *world) live() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.changed:
			select {
			case <-w.ctx.Done():
				return
			case <-time.After(time.Second):
			}
		case <-timer.C:
		}
		timer.Reset(w.tend())
	}
}

// tend has the server drop what has ended and the hosts follow their layers, and says when to look again.
func (w *world) tend() (next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock()
	if due := w.state.Managed.Due(); w.down == nil && due.Reached(now) {
		entries, err := w.state.Next(now)
		w.check(err)
		w.log = append(w.log, entries...)
		w.runner.Committed(w.state, entries)
	}
	for _, name := range slices.Sorted(maps.Keys(w.agents)) {
		w.follow(name, w.agents[name])
	}
	next = time.Hour
	if due := w.state.Managed.Due(); due != 0 {
		next = max(time.Second, due.Sub(now).Std())
	}
	return next
}

func (w *world) kick() {
	if w.steps != nil {
		w.steps.soon()
		return
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

func (w *world) follow(name string, a *agent) {
	if !a.online || w.down != nil {
		return
	}
	now := w.clock()
	a.running = map[string]clock.Instant{}
	if layer := w.state.Managed.Hosts[name]; layer != nil {
		for id, e := range layer.Entries {
			if !e.NotAfter.Reached(now) {
				a.running[id] = e.NotAfter
			}
		}
	}
	for id := range a.told {
		if _, ok := a.running[id]; !ok && a.keeps[id] != "" {
			if a.told[id] != engine.Waiting {
				a.told[id] = engine.Waiting
				w.record(name, event.ResourceReported{Resource: id, Phase: engine.Waiting, State: "Stopping", Message: a.keeps[id], Layer: event.LayerManaged})
			}
		} else if !ok {
			delete(a.told, id)
			w.record(name, event.ResourceReported{Resource: id, State: string(spec.Removed), Layer: event.LayerManaged})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(a.running)) {
		phase := engine.Converged
		if a.broken[id] {
			phase = engine.Failed
		}
		if a.told[id] != phase {
			a.told[id] = phase
			w.record(name, event.ResourceReported{Resource: id, Phase: phase, State: "Running", Layer: event.LayerManaged})
		}
	}
}

// live are the workloads of a host that have not ended by themselves, as a host that is cut off ends them.
func (a *agent) live(now clock.Instant) (out []string) {
	for id, until := range a.running {
		if until == 0 || !until.Reached(now) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// online connects or cuts off a host.
func (w *world) online(name string, on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.agents[name].online = on
	if h := w.state.Plan.Hosts[name]; h.Online && !on {
		h.LastSeen = clock.FromTime(time.Now())
	}
	w.state.Plan.Hosts[name].Online = on
	w.runner.Committed(w.state, []event.Entry{{Type: "host.returned", Subject: event.HostSubject(name)}})
	w.kick()
}

func (w *world) breaks(host, id string, broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.agents[host].broken[id] = broken
	w.kick()
}

// holds checks that no GPU is booked twice, and no host beyond what it has, at the start of any booking: nowhere
// is more booked than at one of them.
func (w *world) holds() {
	w.t.Helper()
	byHost := map[string][]session.PodReport{}
	for _, b := range w.state.Booked.All() {
		byHost[b.Host] = append(byHost[b.Host], b)
	}
	for name, all := range byHost {
		for i := range all {
			var sum place.Resources
			gpus := map[int]bool{}
			for k := range all {
				if all[k].Slot.From > all[i].Slot.From || all[k].Slot.To <= all[i].Slot.From {
					continue
				}
				sum = sum.Add(all[k].Resources)
				for _, g := range all[k].GPUs {
					if gpus[g] {
						w.t.Fatalf("double booking: GPU %d of %s at %s: %+v", g, name, all[i].Slot.From, all)
					}
					gpus[g] = true
				}
			}
			if !sum.Fits(place.Resources{MilliCPU: 8000, Memory: 16 << 30}) {
				w.t.Fatalf("double booking: %+v of %s at %s: %+v", sum, name, all[i].Slot.From, all)
			}
		}
	}
}

func (w *world) status(name string) session.Status {
	w.t.Helper()
	st, err := w.runner.Show(context.Background(), name)
	w.check(err)
	return st
}

// want fails unless a session is in that state.
func (w *world) want(name string, state session.State) session.Status {
	w.t.Helper()
	st := w.status(name)
	if st.State != state {
		raw, _ := json.MarshalIndent(st, "", " ")
		w.t.Fatalf("session %s is %s, want %s\n%s\n%s", name, st.State, state, raw, w.story(name))
	}
	return st
}

func (w *world) story(name string) string {
	var b strings.Builder
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, row := range w.state.Rows.List(engine.Filter{}) {
		if session.Of(row.Ref) != name {
			continue
		}
		fmt.Fprintf(&b, "%s %s %s\n", row.Ref, row.Phase, row.Reason)
		for _, t := range w.state.Rows.History(row.Ref, 0, 0) {
			fmt.Fprintf(&b, "   %s #%d %s -> %s %s %s\n", t.At.Format(time.TimeOnly), t.N, t.From, t.To, t.Reason, t.Error)
		}
	}
	return b.String()
}

func (w *world) runningOn(host string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.agents[host].live(w.clock())
}

var errDown = errors.New("the disk is slow today")

// slot is an hour that begins in ten minutes, provisioned from now on.
func slot() session.Timeslot {
	now := time.Now().UTC()
	return session.Timeslot{ProvisionAt: now.Add(time.Minute), Start: now.Add(10 * time.Minute), End: now.Add(70 * time.Minute), CleanupDeadline: now.Add(80 * time.Minute)}
}

func pod(name string, gpus int) session.Pod {
	return session.Pod{Name: name, Resources: place.Resources{MilliCPU: 1000, Memory: 1 << 30}, GPU: place.GPURequest{Count: gpus},
		Workloads: []session.Workload{{Kind: "network", Name: name + "-net", Spec: json.RawMessage(`{}`)}}}
}

func pass(d time.Duration) { time.Sleep(d) } // in a bubble
