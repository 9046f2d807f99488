package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestL5LoggedWaitsAreWhatWhySays: a blocked wave names every host of the open waves that waits
// for a grant, each once, under the gate that why answers with at that moment.
func TestL5LoggedWaitsAreWhatWhySays(t *testing.T) {
	named := 0
	rapid.Check(t, func(t *rapid.T) {
		w, home := newRandomWorld(t)
		w.other = true // TestEveryInvariantOverRandomWorlds replays them
		look := func(_ event.Entry, ev event.Event) {
			b, ok := ev.(event.WaveBlocked)
			if !ok {
				return
			}
			logged := map[string]string{}
			for _, wait := range b.Waits {
				if wait.Total != len(wait.Hosts) || wait.Reason == "" {
					t.Fatalf("%+v names %d", wait, len(wait.Hosts))
				}
				for _, h := range wait.Hosts {
					if logged[h] != "" {
						t.Fatalf("%s waits for %s and %s", h, logged[h], wait.Gate)
					}
					logged[h] = wait.Gate
				}
			}
			r := w.s.Rollouts[b.Manifest]
			for i := range r.Members {
				leaf, want := &r.Plan.Leaves[i], ""
				if s := r.Members[i].Status; leaf.Wave <= r.Cursor && (s == rollout.Waiting || s == rollout.Refused) {
					a := testkit.Value(plan.Why(w.s, leaf.Host, w.now))(t)
					if a.Rollout != r.Name {
						continue // a newer one names it
					}
					if a.Block != nil {
						want = string(a.Block.Code)
					}
				}
				if logged[leaf.Host] != want {
					t.Fatalf("%s waits for %q in the log, for %q by why\n%s", leaf.Host, logged[leaf.Host], want, w.tail())
				}
				if want != "" {
					named++
				}
			}
		}
		steps := actions(w, home)
		for name, step := range steps {
			steps[name] = func(t *rapid.T) {
				w.s.Watch(look)
				step(t)
			}
		}
		t.Repeat(steps)
	})
	if named == 0 {
		t.Fatal("nobody ever waited")
	}
}

// A wave of many hosts names 50 for each reason, in a record that does not grow with the fleet, and events about
// a host find it.
func TestLoggedWaitsAreBounded(t *testing.T) {
	var names []string
	for i := range 120 {
		names = append(names, fmt.Sprintf("h%03d", i))
	}
	all := strings.Join(names, " ")
	w := onOne(t, all)
	w.commit(plan.Freeze(w.s, "h119", w.now.Add(clock.Day), "looked at", "ada", w.now))
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: all, target: bundles[1], budget: 1}))
	w.live(1)
	var waits []event.HostWait
	for _, e := range w.log {
		if b, ok := testkit.Value(event.Decode(e))(t).(event.WaveBlocked); ok && b.Rollout == "c@r2" {
			if waits != nil {
				t.Fatalf("logged again: %+v", b)
			}
			waits = b.Waits
			if about := event.About(&e); len(e.Body) > 4096 || !slices.Contains(about, event.HostSubject("h001")) || !slices.Contains(about, event.HostSubject("h119")) {
				t.Errorf("%d bytes about %v", len(e.Body), about)
			}
		}
	}
	if len(waits) != 2 || waits[0].Gate != "freeze" || !slices.Equal(waits[0].Hosts, []string{"h119"}) || waits[1].Gate != "budget" || waits[1].Total != 118 || len(waits[1].Hosts) != event.MaxNamed {
		t.Fatalf("waits: %+v", waits)
	}
	for _, wait := range waits {
		if wait.Reason == "" {
			t.Errorf("%s without a reason", wait.Gate)
		}
	}
}
