package daemon

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
)

var errCut = errors.New("cut here by the test")

// cutAt makes the agent die after its n-th commit from now; every later commit
// fails too. It reports whether it has happened. Over asks so for the last time:
// if it has not, it never will.
func (b *box) cutAt(n int) (happened, over func() bool) {
	var mu sync.Mutex
	count := 0
	b.agent.cut = func() error {
		mu.Lock()
		defer mu.Unlock()
		if count++; count >= n {
			return errCut
		}
		return nil
	}
	happened = func() bool {
		mu.Lock()
		defer mu.Unlock()
		return count >= n
	}
	return happened, func() bool {
		mu.Lock()
		defer mu.Unlock()
		if count < n {
			n = math.MaxInt
		}
		return n < math.MaxInt
	}
}

// crash waits until the agent is dead and closes what it had open.
func (b *box) crash() {
	b.t.Helper()
	if err := <-b.done; !errors.Is(err, errCut) {
		b.t.Fatalf("the agent ended with %v", err)
	}
	b.cancel()
	testkit.Must(b.t, b.agent.Close())
	b.agent = nil
}

// TestF4ActivationSurvivesACutAnywhere kills an agent after every single commit
// of an activation, and starts it again. S23, S24: one claim, one end.
func TestF4ActivationSurvivesACutAnywhere(t *testing.T) {
	t.Parallel()
	two := newPack(t, "web", []file{{path: "a", content: "two"}, {path: "new/b", content: "b"}}, step("start", "up-2", "down-2"))
	everyCut(t, two, nil, host.Converged, func(t *testing.T, b *box) {
		b.want("a", "two")
		b.want("new/b", "b")
		b.want("only-1", gone)
		if log := b.content("log"); !strings.HasSuffix(log, "up-2\n") || strings.Contains(log, "down") {
			t.Errorf("the steps ran as %q", log)
		}
	})
}

// TestF4RevertSurvivesACutAnywhere does the same with an activation that fails.
func TestF4RevertSurvivesACutAnywhere(t *testing.T) {
	t.Parallel()
	two := newPack(t, "web", []file{{path: "a", content: "two"}, {path: "blocked", content: "b"}}, step("start", "up-2", "down-2"))
	block := func(b *box) {
		testkit.Must(b.t, os.MkdirAll(filepath.Join(b.root, "blocked"), 0o755))
		testkit.Must(b.t, os.WriteFile(filepath.Join(b.root, "blocked", "x"), []byte("mine"), 0o644))
	}
	everyCut(t, two, block, host.Reverted, func(t *testing.T, b *box) {
		b.want("a", "one")
		b.want("only-1", "x")
		b.want("blocked/x", "mine")
		if log := b.content("log"); !strings.HasSuffix(log, "up-1\n") {
			t.Errorf("the steps ran as %q", log)
		}
	})
}

func everyCut(t *testing.T, two pack, before func(*box), end host.Phase, check func(*testing.T, *box)) {
	one := newPack(t, "web", []file{{path: "a", content: "one"}, {path: "only-1", content: "x"}}, step("start", "up-1", "down-1"))
	for n := 1; ; n++ {
		s := newServer(t)
		b := newBox(t, s, "web-1").start()
		b.roll(single("web-1", 1, "r1", one), "g1", one)
		b.phase(host.Converged)
		b.stop()
		if before != nil {
			before(b)
		}
		b.open()
		happened, over := b.cutAt(n)
		b.run()
		b.roll(single("web-1", 2, "r2", two), "g2", two)
		done := func() bool {
			m := b.agent.Status().Machine
			return m.Grant == "g2" && m.Phase == end
		}
		testkit.Eventually(t, "the cut or the end", func() bool { return happened() || done() })
		if !over() { // it was over before commit n: every cut was tried
			b.stop()
			if n < 10 {
				t.Fatalf("only %d cuts were tried", n-1)
			}
			return
		}
		b.crash()
		b.start()
		testkit.Eventually(t, string(end)+" after the cut", done)
		check(t, b)
		testkit.Eventually(t, "all events acknowledged", func() bool { st := b.agent.Status(); return st.AckedSeq == st.LastSeq })
		claims, ends := 0, 0
		for _, e := range reported[event.HostStepped](s) {
			if e.Rollout != "stable@r2" {
				continue
			}
			if e.Input == (host.Claimed{}).Kind() {
				claims++
			}
			if e.From != e.To && e.To == end {
				ends++
			}
		}
		if claims != 1 || ends != 1 {
			t.Errorf("cut %d: %d claims and %d ends were reported", n, claims, ends)
		}
		b.stop()
		if t.Failed() {
			t.Fatalf("after cut %d", n)
		}
	}
}

// TestAgentsNeverShareAFolder holds the lock to its promise.
func TestAgentsNeverShareAFolder(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1")
	b.open()
	if a, err := Open(Config{StateDir: b.state, Root: b.root, Clock: b.clock}); err == nil {
		testkit.Must(t, a.Close())
		t.Error("a second agent opened the folder")
	}
	testkit.Must(t, b.agent.Close())
	if _, err := Enrol(t.Context(), EnrolConfig{StateDir: b.state, Token: s.token("web-1"), Clock: b.clock}); !errors.Is(err, ErrEnrolled) {
		t.Errorf("a second enrolment: %v", err)
	}
}

// TestDamagedBlobIsAMiss turns a bit in the cache; it is fetched again.
func TestDamagedBlobIsAMiss(t *testing.T) {
	s := newServer(t)
	b := newBox(t, s, "web-1").start()
	one := newPack(t, "web", []file{{path: "a", content: "one"}})
	b.roll(single("web-1", 1, "r1", one), "g1", one)
	b.phase(host.Converged)
	blob := filepath.Join(b.state, "blobs", digest.Of([]byte("one")).Hex())
	testkit.Must(t, os.WriteFile(blob, []byte("0ne"), 0o600))
	testkit.Must(t, os.Remove(filepath.Join(b.root, "a")))
	testkit.Eventually(t, "the file is back", func() bool { return b.content("a") == "one" })
	testkit.Eventually(t, "the repair is reported", func() bool {
		states := statesOf(s, "file/a")
		return strings.HasPrefix(states, "Ready Applying ") && strings.HasSuffix(states, " Ready")
	})
}

// statesOf lists the states that the server was told of a resource.
func statesOf(s *server, resource string) string {
	var states []string
	for _, e := range reported[event.ResourceReported](s) {
		if e.Resource == resource {
			states = append(states, e.State)
		}
	}
	return strings.Join(states, " ")
}
