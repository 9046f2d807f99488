package sim

import (
	"os"
	"strconv"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// withLabs is a schedule in which sessions come and go beside everything else.
func withLabs(seed uint64) Config {
	return Config{Seed: seed, Hosts: 1 + int(seed%4), Labs: 3, Trust: Never, Liars: Never, Model: Never}
}

// TestSessionsInTheWorld plays sessions, by the controller as it ships, together with rollouts, crashes,
// partitions, restored logs and wrong clocks: S56 to S58 beside all other invariants.
func TestSessionsInTheWorld(t *testing.T) {
	testkit.Only(t, *seedFlag == 0, "replaying one schedule")
	t.Parallel()
	play(t, seeds(t), withLabs)
}

// TestSessionsForWeeks plays 200 sessions on 50 hosts in 30 days, as often as STEADY_SESSION_WEEKS says, and
// each within a minute.
func TestSessionsForWeeks(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("STEADY_SESSION_WEEKS"))
	testkit.Only(t, n != 0, "set STEADY_SESSION_WEEKS: each takes half a minute")
	t.Parallel()
	play(t, n, func(seed uint64) Config {
		return Config{Seed: seed, Hosts: 50, Labs: 200, Faulty: 30 * clock.Day, Releases: 20, Trust: Never, Liars: Never, Model: Never}
	})
}

// TestSessionsComeToEverything: what may become of sessions does in schedules.
func TestSessionsComeToEverything(t *testing.T) {
	all := map[string]int{}
	for seed := range uint64(60) {
		for what, n := range Run(withLabs(seed + 1)).Labs { // order-free: sums
			all[what] += n
		}
	}
	for _, kind := range []string{session.KindSession, session.KindPart, session.KindPod, session.KindPhase} {
		for _, phase := range []engine.Phase{engine.Waiting, engine.Converged, engine.Failed, engine.Deleted} {
			if kind != session.KindSession && all[kind+" "+string(phase)] < 10 {
				t.Errorf("%d of 60 schedules have a %s that is %s: %v", all[kind+" "+string(phase)], kind, phase, all)
			}
		}
	}
	if all["pod "+string(engine.Orphaned)] == 0 || all["session "+string(engine.Converged)] == 0 {
		t.Errorf("no pod is an orphan, or no session ran: %v", all)
	}
	t.Logf("%v", all)
}
