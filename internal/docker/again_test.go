package docker_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

// killsEnv is how often the engine is killed; the default fits into a check of
// every change.
const killsEnv = "STEADY_ENGINE_KILLS"

// TestF23EngineKilledAgainAndAgain kills an engine under an agent that stays: first
// at rest, where nothing is replaced for it, then again before the agent has
// mended what the last kill did, at any of the changes that it asks for, with
// other declarations meanwhile. Once the engine lives, one container runs with its
// data and as declared last, and those of others are as they were.
func TestF23EngineKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	kills, seed := 4, uint64(1)
	if s := os.Getenv(killsEnv); s != "" {
		n := testkit.Value(strconv.Atoi(s))(t)
		kills, seed = n, rand.Uint64()
	}
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w, p := broken(t)
	same := w.foreign("web", restarted...)
	w.start()
	w.declare(replaced(0, false))
	w.converged()
	w.run("web", "sh", "-c", "echo kept >/data/mark; echo kept >/scratch/mark")

	before := w.one("web", true)
	w.d.Kill()
	w.d.Start()
	w.settled()
	if after := w.one("web", true); after.ID != before.ID {
		t.Errorf("container %.12s was replaced by %.12s for an engine that was killed at rest", before.ID, after.ID)
	}
	same()

	version := 0
	for range kills - 1 {
		if random.IntN(2) == 0 {
			version++
			w.declare(replaced(version, false))
		}
		w.killAt(p, 1+random.IntN(8))
		w.d.Start()
	}
	w.settled()
	w.replacedRight(version, false)
	same()
}

// killAt kills the engine when the agent asks for its n-th change from now on, or
// once there is nothing more to ask for. The engine gets the request.
func (w *world) killAt(p *dockertest.Proxy, n int) {
	w.t.Helper()
	reached, letGo := hold(p, n)
	w.until("neither a change nor rest", func() (bool, string) {
		select {
		case <-reached:
			return true, ""
		default:
		}
		words, err := w.a.unsettled(w.ctx)
		w.ok(err)
		return words == "", words
	})
	w.d.Kill()
	letGo()
}
