package hosts

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/wire"
)

// agentOf plays an agent process: it sends back the latest mark that reached it.
type agentOf struct {
	id   string
	mark uint64
}

func (a *agentOf) beat() *wire.Heartbeat {
	return &wire.Heartbeat{Incarnation: 1, Process: a.id, Mark: a.mark}
}

func (a *agentOf) say(h *Host) (hurry, twice bool) {
	mark, hurry, twice := h.Beat(a.beat())
	a.mark = mark
	return hurry, twice
}

// TestT11IdleCloneIsFound: two processes that have nothing to tell, each with its
// own heartbeats, are found after few, whoever of them began.
func TestT11IdleCloneIsFound(t *testing.T) {
	h, a, b := &Host{Name: "h"}, &agentOf{id: "a"}, &agentOf{id: "b"}
	for range 3 {
		if hurry, twice := a.say(h); hurry || twice {
			t.Fatalf("one process alone: hurry %v, twice %v", hurry, twice)
		}
	}
	if hurry, twice := b.say(h); !hurry || twice {
		t.Fatalf("another process: hurry %v, twice %v", hurry, twice)
	}
	for n := 1; ; n++ {
		if n > 3 {
			t.Fatal("not found within three heartbeats of each")
		}
		_, byA := a.say(h)
		_, byB := b.say(h)
		if byA || byB {
			break
		}
	}
	again := &agentOf{id: "c"} // enrolled again: the earlier incarnation's processes say nothing
	m := again.beat()
	m.Incarnation = 2
	if _, hurry, twice := h.Beat(m); hurry || twice {
		t.Errorf("a new incarnation: hurry %v, twice %v", hurry, twice)
	}
}

// TestT11RestartsAreNoFork runs one process after another, as the lock of a state
// folder has it. Requests are repeated, answers lost, and both arrive late, also
// after the next process began, over restarts of the server: never a fork.
func TestT11RestartsAreNoFork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &Host{Name: "h"}
		alive, born := &agentOf{id: "p0"}, 0
		var late []*wire.Heartbeat
		arrive := func(m *wire.Heartbeat) uint64 {
			mark, _, twice := h.Beat(m)
			if twice {
				t.Fatalf("process %s looks like a second one", m.Process)
			}
			return mark
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				alive.mark = arrive(alive.beat())
			case 2: // the answer is lost
				arrive(alive.beat())
			case 3: // the request is under way
				late = append(late, alive.beat())
			case 4: // and arrives, perhaps twice
				if len(late) > 0 {
					arrive(rapid.SampledFrom(late).Draw(t, "late"))
				}
			case 5:
				if rapid.Bool().Draw(t, "server") {
					h = &Host{Name: "h"}
					continue
				}
				born++
				alive = &agentOf{id: fmt.Sprintf("p%d", born)}
			}
		}
	})
}

// Agents of before say nothing of their process, and one may say nonsense.
func TestProcessesThatSayNothing(t *testing.T) {
	h := &Host{Name: "h"}
	for _, id := range []string{"", string(make([]byte, maxProcessID+1))} {
		for range 3 {
			if mark, hurry, twice := h.Beat(&wire.Heartbeat{Incarnation: 1, Process: id}); mark != 0 || hurry || twice {
				t.Errorf("%d bytes: mark %d, hurry %v, twice %v", len(id), mark, hurry, twice)
			}
		}
	}
	for i := range 100 {
		a := &agentOf{id: fmt.Sprint(i)}
		a.say(h)
		a.say(h)
	}
	if n := len(h.processes.former); n > maxFormer {
		t.Errorf("%d processes are remembered", n)
	}
}

// A process that never got a second word in before the next one began is heard
// late: it died, and the one that is alive goes on.
func TestT11LateWordOfADeadProcessIsNoFork(t *testing.T) {
	h, old, alive := &Host{Name: "h"}, &agentOf{id: "old"}, &agentOf{id: "alive"}
	(&agentOf{id: "first"}).say(h)
	old.say(h)
	late := old.beat()
	alive.say(h)
	alive.say(h)
	h.Beat(late)
	for range 3 {
		if _, twice := alive.say(h); twice {
			t.Fatal("the only process that is alive looks like a second one")
		}
	}
}
