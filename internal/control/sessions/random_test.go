package sessions

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"math/rand/v2"

	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestRandomLives plays schedules of sessions with hosts that fail, are cut off and return, a server that is
// restarted and one that cannot write. At any time no GPU is booked twice and nothing runs past its end;
// when all has settled every session is retired, or an orphan with one alert, and one failure was escalated
// once. STEADY_SESSION_SEEDS plays so many; STEADY_SESSION_SEED replays one.
func TestRandomLives(t *testing.T) {
	randomLives(t, 60, 1, func(t *testing.T, seed uint64) { randomLife(stepped(t, namesOf(seed)...), seed, 3, 40) })
}

// TestRandomLivesOnWorkers plays a thirtieth of them in a bubble, in which turns run on workers as they do on a server.
func TestRandomLivesOnWorkers(t *testing.T) {
	randomLives(t, 10, 30, func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, namesOf(seed)...)
			defer w.close()
			randomLife(w, seed, 3, 40)
		})
	})
}

func randomLives(t *testing.T, n, share uint64, play func(*testing.T, uint64)) {
	from := uint64(1)
	if testing.Short() {
		n /= 10
	}
	if s := os.Getenv("STEADY_SESSION_SEEDS"); s != "" {
		n = max(1, number(t, s)/share)
	}
	if s := os.Getenv("STEADY_SESSION_SEED"); s != "" {
		from, n = number(t, s), 1
	}
	began := time.Now()
	for seed := from; seed < from+n && !t.Failed(); seed++ {
		if play(t, seed); t.Failed() {
			t.Logf("replay: STEADY_SESSION_SEED=%d go test ./internal/control/sessions -run TestRandomLives", seed)
		}
	}
	t.Logf("%.0f schedules a minute, %d schedules", float64(n)/time.Since(began).Minutes(), n)
}

func number(t *testing.T, s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func namesOf(seed uint64) (names []string) {
	for i := range 1 + rand.New(rand.NewPCG(seed, 2)).IntN(4) {
		names = append(names, fmt.Sprintf("h%d", i))
	}
	return names
}

func randomLife(w *world, seed uint64, sessions, steps int) {
	r, names, made := rand.New(rand.NewPCG(seed, 1)), slices.Sorted(maps.Keys(w.agents)), 0
	for range steps {
		w.randomStep(r, names, sessions, &made)
		w.pass(time.Duration(r.IntN(600)) * time.Second)
	}
	for _, h := range names {
		w.online(h, r.IntN(4) > 0)
	}
	w.mu.Lock()
	w.down = nil
	w.mu.Unlock()
	w.pass(2 * day)
	w.settled(made)
}

func (w *world) randomStep(r *rand.Rand, hosts []string, sessions int, made *int) {
	ctx, host := context.Background(), hosts[r.IntN(len(hosts))]
	name := fmt.Sprintf("s%d", r.IntN(sessions))
	switch r.IntN(12) {
	case 0, 1, 2:
		if err := w.runner.Create(ctx, name, randomSession(r, w.now()), nil, "ann"); err == nil {
			*made++
		}
	case 3:
		w.online(host, false)
	case 4, 5:
		w.online(host, true)
	case 6:
		w.breaks(host, fmt.Sprintf("network/n%d-net", r.IntN(4)), r.IntN(2) == 0)
	case 7:
		w.restart()
	case 8:
		_ = w.runner.Extend(ctx, name, w.now().Add(time.Duration(1+r.IntN(180))*time.Minute).UTC(), "ann") // may be refused
	case 9:
		_ = w.runner.Stop(ctx, name, "ann") // there may be none
	case 10:
		w.mu.Lock()
		if w.down = nil; r.IntN(2) == 0 {
			w.down = errDown
		}
		w.mu.Unlock()
	case 11:
		_ = w.runner.SetPart(ctx, name, "p0", r.IntN(2) == 0, "ann")
	}
}

func randomSession(r *rand.Rand, at time.Time) session.Spec {
	now := at.UTC().Truncate(time.Millisecond)
	minutes := func(n int) time.Duration { return time.Duration(r.IntN(n)) * time.Minute }
	s := session.Spec{OnFailure: action(r)}
	s.Timeslot.ProvisionAt = now.Add(minutes(60))
	s.Timeslot.Start = s.Timeslot.ProvisionAt.Add(minutes(20))
	s.Timeslot.End = s.Timeslot.Start.Add(time.Minute + minutes(180))
	s.Timeslot.CleanupDeadline = s.Timeslot.End.Add(minutes(30))
	for i := range 1 + r.IntN(3) {
		p := session.Part{Name: fmt.Sprintf("p%d", i), OnFailure: action(r)}
		if i > 0 && r.IntN(2) == 0 {
			p.After = []session.Gate{{Part: fmt.Sprintf("p%d", r.IntN(i))}}
		}
		for k := range 1 + r.IntN(2) {
			x := pod(fmt.Sprintf("n%d", k), r.IntN(3))
			x.Resources = place.Resources{MilliCPU: int64(r.IntN(5000)), Memory: int64(r.IntN(9)) << 30}
			x.Workloads[0].Name = fmt.Sprintf("n%d-net", r.IntN(4)+4*i+12*k)
			p.Pods = append(p.Pods, x)
		}
		s.Parts = append(s.Parts, p)
	}
	return s
}

func action(r *rand.Rand) engine.FailureAction {
	return []engine.FailureAction{"", engine.Abort, engine.Continue}[r.IntN(3)]
}

// settled checks what must hold once all timeslots are over.
func (w *world) settled(made int) {
	w.t.Helper()
	all, err := w.runner.List(context.Background())
	w.check(err)
	orphans := 0
	for _, st := range all {
		if st.State != session.Retired && st.State != session.Orphaned {
			w.t.Fatalf("session %s is %s (%s) when all is over, of %d made\n%s", st.Name, st.State, st.Reason, made, w.story(st.Name))
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.agents {
		if left := a.live(w.clock()); len(left) > 0 {
			w.t.Fatalf("%v runs when all is over", left)
		}
	}
	for _, row := range w.state.Rows.List(engine.Filter{}) {
		if row.Phase == engine.Orphaned {
			orphans++
			if !row.Alerts() {
				w.t.Fatalf("%s is an orphan and nobody is told", row.Ref)
			}
		} else if !row.Phase.Terminal() {
			w.t.Fatalf("%s is %s when all is over", row.Ref, row.Phase)
		}
		escalated := map[int64]int{}
		for _, x := range w.state.Rows.History(row.Ref, 0, 0) {
			if x.Reason.Code == engine.CodeRetryRequested {
				clear(escalated)
			}
			if x.Escalated {
				escalated[x.Generation]++
			}
			if escalated[x.Generation] > 1 {
				w.t.Fatalf("%s escalated generation %d twice", row.Ref, x.Generation)
			}
		}
	}
}
