package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/release/sessionfile"
	"github.com/steadyfleet/steady/internal/testkit"
)

// stubborn are services that do not stop when they are asked to, each in a way of its own.
var stubborn = []string{
	`command: [sh, -c, "trap '' TERM; while true; do sleep 1; done"]`,
	`command: [sh, -c, "trap '' TERM; while true; do sleep 1; done"], restart: always`,
	`command: [sh, -c, "trap '' USR1; while true; do sleep 1; done"], stop_signal: SIGUSR1`,
	`command: [sh, -c, "trap '' TERM; while true; do sleep 1; done"], pre_stop: [{command: [sleep, "600"]}, {command: [sleep, "600"]}]`,
	`command: [sh, -c, "trap 'sleep 600' TERM; while true; do sleep 1; done"], healthcheck: {test: [CMD, "true"], start_period: 1h, interval: 1h}`,
	`command: [sh, -c, "trap '' HUP; while true; do sleep 1; done"], stop_signal: "1"`,
}

// obedient is one that stops at once.
const obedient = `command: [sh, -c, "trap 'exit 0' TERM; sleep 100000 & wait"]`

// ending is a session that is watched to its end.
type ending struct {
	name      string
	workspace string
	deadline  time.Time
}

// TestSessionsEndByTheirDeadline: containers that ignore their signal, with any grace, are killed by the cleanup
// deadline of their session, which is retired then. There are nine rounds at night, and one otherwise.
func TestSessionsEndByTheirDeadline(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, dockertest.Here)
	l := newLease(t, sessionFleet)
	r := newRand(t)
	died := l.deaths(t)
	rounds := 1
	if testkit.Nightly() {
		rounds = 9
	}
	for round := range rounds {
		var all []ending
		for i, service := range stubborn {
			all = append(all, l.timed(t, r, fmt.Sprintf("s%d-%d", round, i), service))
		}
		quick := l.timed(t, r, fmt.Sprintf("q%d", round), obedient)
		testkit.Eventually(t, "all of them run", func() bool { return len(l.containers(t)) == len(all)+1 })
		testkit.Value(l.engine.Client().ContainerPause(t.Context(), l.prefix+all[0].workspace, client.ContainerPauseOptions{}))(t)
		for _, e := range append(all, quick) {
			testkit.Eventually(t, e.name+" is retired", func() bool {
				st := testkit.Value(l.operator.Session(t.Context(), e.name))(t)
				if st.State == session.Orphaned {
					t.Fatalf("%s is an orphan: %+v", e.name, st.Parts)
				}
				return st.State == session.Retired
			})
			if late := died.last(t, e.workspace).Sub(e.deadline); late > died.slack() {
				t.Errorf("the container of %s ran until %s after its cleanup deadline; the engine took up to a third of %s to answer", e.name, late, died.slack())
			}
		}
		for _, e := range all {
			if at, other := died.last(t, e.workspace), died.last(t, quick.workspace); at.Before(other) {
				t.Errorf("the container of %s, which ignores its signal, ended at %s, and that of %s, which does not, at %s", e.name, at, quick.name, other)
			}
		}
		if names := l.containers(t); len(names) > 0 {
			t.Errorf("%v run when all is over", names)
		}
	}
}

// timed asks for a session of one container with a grace and a timeslot of any length.
func (l *lease) timed(t *testing.T, r *rand.Rand, name, service string) ending {
	t.Helper()
	graces := []string{"20s", "5m", "8760h"}
	text := fmt.Sprintf(`name: %s
timeslot: {end: in %ds, cleanupDeadline: in %ds}
parts:
- name: p
  moves: %t
  pods:
  - name: w
    cpus: 0.01
    memory: 16m
    compose: {services: {s: {image: %q, pull_policy: never, stop_grace_period: %s, %s}}}
`, name, 40+r.IntN(5), 60+r.IntN(15), r.IntN(2) == 0, dockertest.BusyboxRef, graces[r.IntN(len(graces))], service)
	f, problems := sessionfile.Read(name+".yaml", []byte(text), time.Now())
	if f == nil || len(problems) > 0 {
		t.Fatalf("%v\n%s", problems, text)
	}
	testkit.Value(l.operator.CreateSession(t.Context(), name, operator.NewSessionOf(&f.Spec, nil)))(t)
	out := ending{name: name, deadline: f.Spec.Timeslot.CleanupDeadline}
	for _, w := range f.Spec.Parts[0].Pods[0].Workloads {
		if w.Kind == spec.KindWorkspace {
			out.workspace = w.Name
		}
	}
	return out
}

// deaths are when containers ended by the engine's events, and how long the engine took to answer at the most.
type deaths struct {
	mu   sync.Mutex
	at   map[string]time.Time // by workspace
	slow time.Duration
}

func (d *deaths) last(t *testing.T, workspace string) time.Time {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ended := d.at[workspace]
	if !ended {
		t.Fatalf("no end of %s was seen, of %v", workspace, d.at)
	}
	return at
}

// slack is how late the engine may be by itself.
func (d *deaths) slack() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return 3 * d.slow
}

func (l *lease) deaths(t *testing.T) *deaths {
	d := &deaths{at: map[string]time.Time{}}
	e := testkit.Value(dockerapi.Open(dockerapi.Options{Socket: l.engine.Socket()}))(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	done.Go(func() {
		err := e.Watch(ctx, func(ev dockerapi.Event) {
			if name := ev.Attributes[convert.LabelName]; ev.Subject == dockerapi.Container && ev.Action == "die" && strings.HasPrefix(ev.Name, l.prefix) {
				d.mu.Lock()
				d.at[name] = ev.Time
				d.mu.Unlock()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	done.Go(func() {
		for ctx.Err() == nil {
			began := time.Now()
			if _, err := e.ContainerList(ctx, false); err != nil && ctx.Err() == nil {
				t.Log(err)
			}
			d.mu.Lock()
			d.slow = max(d.slow, time.Since(began))
			d.mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait(); testkit.Must(t, e.Close()) })
	return d
}
