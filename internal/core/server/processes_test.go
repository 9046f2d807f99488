package server

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// agentOf plays an agent process: it sends back the latest mark that reached it.
type agentOf struct {
	id   string
	mark uint64
}

func (a *agentOf) beat() *Heartbeat {
	return &Heartbeat{Incarnation: 1, Process: a.id, Mark: a.mark}
}

func (a *agentOf) say(h *processes) (soon, twice bool) {
	mark, soon, twice := h.beat(a.beat(), rand.Uint64())
	a.mark = mark
	return soon, twice
}

// TestT11IdleCloneIsFound: two processes that have nothing to tell, each with its
// own heartbeats, are found after few, whoever of them began.
func TestT11IdleCloneIsFound(t *testing.T) {
	h, a, b := &processes{}, &agentOf{id: "a"}, &agentOf{id: "b"}
	for range 3 {
		if soon, twice := a.say(h); soon || twice {
			t.Fatalf("one process alone: soon %v, twice %v", soon, twice)
		}
	}
	if soon, twice := b.say(h); !soon || twice {
		t.Fatalf("another process: soon %v, twice %v", soon, twice)
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
	if _, soon, twice := h.beat(m, rand.Uint64()); soon || twice {
		t.Errorf("a new incarnation: soon %v, twice %v", soon, twice)
	}
}

// TestT11RestartsAreNoFork runs one process after another, as the lock of a state
// folder has it. Requests are repeated, answers lost, and both arrive late, also
// after the next process began, over restarts of the server: never a fork.
func TestT11RestartsAreNoFork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &processes{}
		alive, born := &agentOf{id: "p0"}, 0
		var late []*Heartbeat
		arrive := func(m *Heartbeat) uint64 {
			mark, _, twice := h.beat(m, rand.Uint64())
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
					h = &processes{}
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
	h := &processes{}
	for _, id := range []string{"", string(make([]byte, maxProcessID+1))} {
		for range 3 {
			if mark, soon, twice := h.beat(&Heartbeat{Incarnation: 1, Process: id}, rand.Uint64()); mark != 0 || soon || twice {
				t.Errorf("%d bytes: mark %d, soon %v, twice %v", len(id), mark, soon, twice)
			}
		}
	}
	for i := range 100 {
		a := &agentOf{id: fmt.Sprint(i)}
		a.say(h)
		a.say(h)
	}
	if n := len(h.former); n > maxFormer {
		t.Errorf("%d processes are remembered", n)
	}
}

// A process that never got a second word in before the next one began is heard
// late: it died, and the one that is alive goes on.
func TestT11LateWordOfADeadProcessIsNoFork(t *testing.T) {
	h, old, alive := &processes{}, &agentOf{id: "old"}, &agentOf{id: "alive"}
	(&agentOf{id: "first"}).say(h)
	old.say(h)
	late := old.beat()
	alive.say(h)
	alive.say(h)
	h.beat(late, rand.Uint64())
	for range 3 {
		if _, twice := alive.say(h); twice {
			t.Fatal("the only process that is alive looks like a second one")
		}
	}
}

// TestParkedHeartbeatIsRecordedOnce: what a host says of itself counts for the
// incarnation that it has, and once.
func TestParkedHeartbeatIsRecordedOnce(t *testing.T) {
	beat := func(v View, m Heartbeat) HeartbeatAnswer {
		s := &Session{}
		return s.Heartbeat(&v, m, 0, 1)
	}
	parked := Heartbeat{Incarnation: 2, LastSeq: 5, Parked: "behind-anchor"}
	if a := beat(View{Incarnation: 2, Seq: 7}, parked); a.Parked != parked.Parked || !a.Behind {
		t.Errorf("answered %+v", a)
	}
	if a := beat(View{Incarnation: 2, Seq: 5, Forked: true, Parked: true}, parked); a.Parked != "" {
		t.Errorf("what the log has is recorded again: %+v", a)
	}
	if a := beat(View{Incarnation: 3, Seq: 7}, parked); a.Parked != "" || a.Behind {
		t.Errorf("another incarnation: %+v", a)
	}
	if a := beat(View{Incarnation: 2, Seq: 5}, Heartbeat{Incarnation: 2, LastSeq: 5}); a.Parked != "" || a.Behind {
		t.Errorf("a sound host: %+v", a)
	}
}
