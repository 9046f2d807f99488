package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"testing"
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

// crowd is a server of many hosts that are nearly full, and measures how long its reducer is kept.
type crowd struct {
	t       testkit.T
	now     time.Time
	state   *server.State
	roster  map[string]fleet.RosterHost
	runner  *Runner
	turns   *reconcile.Stepper
	longest time.Duration // one read or decision in the reducer, of the thread's processor time
	sum     time.Duration
}

// newCrowd is hosts of 32 CPUs, each with 30 pods of one CPU until different hours of the day.
func newCrowd(t testkit.T, hosts int) *crowd {
	w := &crowd{t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), state: server.NewState(nil), roster: map[string]fleet.RosterHost{}}
	kinds := []string{"network"}
	var rows []engine.StoredRow
	for i := range hosts {
		name := fmt.Sprintf("h%05d", i)
		w.roster[name] = fleet.RosterHost{Channel: "lab", Bundle: digest.Of([]byte("empty")), Delegation: &fleet.Delegation{Kinds: kinds,
			Bounds: spec.Bounds{Kinds: kinds, Owners: []string{spec.OwnerSession}}}}
		w.state.Plan.Hosts[name] = &plan.Host{Name: name, Incarnation: 1, Online: true, Facts: &event.HostFacts{CPUs: 32, Memory: 256 << 30, Arch: "amd64", Engine: "docker"}}
		for k := range 30 {
			rows = append(rows, w.full(name, i, k))
		}
	}
	w.do(event.ResourceRecorded{Write: testkit.Value(json.Marshal(engine.Write{At: w.now, Rows: rows}))(t)})
	r, err := New(w, func() time.Time { return w.now }, slog.New(slog.DiscardHandler), reconcile.RetryPolicy{})
	testkit.Must(t, err)
	w.runner = r
	w.turns = testkit.Value(r.Stepper(context.Background()))(t)
	w.longest, w.sum = 0, 0
	return w
}

// full is the row of a pod that nobody reconciles any more, and that has its host all the same.
func (w *crowd) full(host string, i, k int) engine.StoredRow {
	ref := engine.Ref{Kind: session.KindPod, ID: fmt.Sprintf("old%d-%d/p/p", i, k)}
	b := session.PodReport{Reservation: place.Reservation{Pod: place.Pod{Owner: ref.ID, Group: session.Of(ref)}, Host: host, Resources: place.Resources{MilliCPU: 1000, Memory: 1 << 30},
		Slot: place.Slot{From: clock.FromTime(w.now.Add(-time.Hour)), To: clock.FromTime(w.now.Add(time.Duration(3+(i+k)%20) * time.Hour))}}}
	return engine.StoredRow{Row: engine.Row{Ref: ref, Created: int64(1 + i*30 + k), Generation: 1, Revision: 1, Desired: json.RawMessage(`{}`), Phase: engine.Orphaned}, State: stateOf(w.t, b)}
}

// stateOf is the state of a row that reports a booking.
func stateOf(t testkit.T, b session.PodReport) json.RawMessage {
	report := testkit.Value(json.Marshal(b))(t)
	return testkit.Value(json.Marshal(map[string]string{"report": string(report)}))(t)
}

func (w *crowd) do(ev event.Event) {
	_, err := w.state.Record("", clock.FromTime(w.now), ev)
	testkit.Must(w.t, err)
}

// measured runs what the reducer does.
func (w *crowd) measured(do func()) {
	cost := testkit.ThreadTime(w.t, do)
	w.longest, w.sum = max(w.longest, cost), w.sum+cost
}

func (w *crowd) ViewState(_ context.Context, read func(*server.State)) error {
	w.measured(func() { read(w.state) })
	return nil
}

func (w *crowd) Record(_ context.Context, host string, decide func(*server.State, clock.Instant) ([]event.Event, error)) (err error) {
	w.measured(func() {
		var events []event.Event
		var entries []event.Entry
		if events, err = decide(w.state, clock.FromTime(w.now)); err == nil {
			entries, err = w.state.Record(host, clock.FromTime(w.now), events...)
		}
		w.runner.Committed(w.state, entries)
	})
	return err
}

func (w *crowd) Target(_ context.Context, host string) (*managed.Target, error) {
	return &managed.Target{Host: host, Declared: true, Delegation: w.roster[host].Delegation, Bundle: &spec.Set{}}, nil
}

func (w *crowd) Roster() map[string]fleet.RosterHost { return w.roster }

func (w *crowd) Bundle(context.Context, digest.Digest) (*fleet.Bundle, error) {
	return &fleet.Bundle{}, nil
}

func (w *crowd) Exec(context.Context, string, string, []string, string) error { return nil }

// ask asks for a session of pods that no host has room for; each wants a thousandth of a CPU more than the one before where they differ.
func (w *crowd) ask(name string, parts, pods int, differ int64) {
	s := session.Spec{Timeslot: session.Timeslot{ProvisionAt: w.now, Start: w.now.Add(time.Minute), End: w.now.Add(2 * time.Hour), CleanupDeadline: w.now.Add(150 * time.Minute)}}
	for i := range parts {
		p := session.Part{Name: fmt.Sprintf("p%d", i), OnFailure: engine.Continue}
		for k := range pods {
			x := pod(fmt.Sprintf("n%d", k), 0)
			x.Resources.MilliCPU = 20_000 + differ*int64(i*pods+k)
			x.Workloads[0].Name = fmt.Sprintf("n%d-%d", i, k)
			p.Pods = append(p.Pods, x)
		}
		s.Parts = append(s.Parts, p)
	}
	testkit.Must(w.t, w.runner.Create(context.Background(), name, s, nil, "ann"))
}

// pass lets time go by.
func (w *crowd) pass(d time.Duration) {
	until := w.now.Add(d)
	for {
		next := w.turns.Step()
		if next.After(until) {
			w.now = until
			return
		}
		w.now = next
	}
}

// TestReducerIsNotKept checks that pods which no host has room for keep the reducer at no time for longer than a few times
// what one reading of all hosts takes in the same run.
func TestReducerIsNotKept(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // its assists are the time of whoever allocates
	w := newCrowd(t, 300)
	w.longest = 0
	for range 5 {
		w.runner.scenes.forget()
		testkit.Value(w.runner.scene(context.Background()))(t)
	}
	floor := w.longest
	w.longest = 0
	w.ask("lab", 1, 32, 1)
	w.pass(time.Minute)
	if most := 25 * floor; w.longest > most {
		t.Errorf("the reducer was kept for %s at once, and one reading of all hosts takes %s", w.longest, floor)
	}
	if len(w.runner.searches.waiting) != 32 {
		t.Errorf("%d pods wait", len(w.runner.searches.waiting))
	}
	t.Logf("longest %s, one reading of all hosts %s", w.longest, floor)
}

// BenchmarkReducer is of pods that no host has room for, in a minute of the server's time: how long the reducer is kept at once,
// and of that minute, and what all of it takes.
func BenchmarkReducer(b *testing.B) {
	for _, c := range []struct {
		name               string
		hosts, parts, pods int
		differ             int64
	}{
		{"64 pods on 1000 hosts", 1000, 1, 64, 0},
		{"64 pods that differ on 1000 hosts", 1000, 1, 64, 1},
		{"4096 pods that differ on 1000 hosts", 1000, 64, 64, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			var longest, sum time.Duration
			for range b.N {
				b.StopTimer()
				w := newCrowd(b, c.hosts)
				b.StartTimer()
				w.ask("lab", c.parts, c.pods, c.differ)
				w.pass(time.Minute)
				longest, sum = max(longest, w.longest), sum+w.sum
			}
			b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest")
			b.ReportMetric(float64(sum.Microseconds())/1000/float64(b.N), "ms-in-reducer/min")
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms-wall/min")
		})
	}
}
