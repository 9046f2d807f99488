// Package driftsim is a world in a box for the configuration of nodes: the fold that ships
// (internal/core/drift) with models of devices and of the program beside each, operators and
// hands that edit at once, and faults. One seed is one schedule. Package judge, which reads
// the log and the devices, judges after every event.
package driftsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/driftsim/judge"
)

// Config is one schedule.
type Config struct {
	Seed  uint64
	Nodes int // 1 to 4 drawn by the seed, if zero
	Steps int // 40 to 160 drawn by the seed, if zero
	// Trace is told what happens.
	Trace func(at clock.Instant, words string)
}

// Result is what came of one.
type Result struct {
	Seed       uint64
	Events     int
	Violations []judge.Violation
}

// entry is one of the log.
type entry struct {
	at clock.Instant
	ev event.OfNodes
}

// World is a schedule that is played.
type World struct {
	cfg   Config
	rng   *rand.Rand
	now   clock.Instant
	state *drift.State
	log   []entry
	nodes []*node
	judge *judge.Judge
	// quiet says that faults and edits have ended.
	quiet bool
	made  int // names that were given
}

// Run plays a schedule. It stops at the first violation.
func Run(cfg Config) (r Result) {
	w := &World{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 15)), now: 1_000_000, state: drift.New()}
	r.Seed = cfg.Seed
	w.judge = w.newJudge()
	defer func() {
		if p := recover(); p != nil {
			if _, ended := p.(*stop); !ended {
				w.judge.Found = append(w.judge.Found, judge.Violation{Invariant: "panic", Message: fmt.Sprint(p)})
				if cfg.Trace != nil {
					panic(p)
				}
			}
		}
		r.Events, r.Violations = len(w.log), w.judge.Found
	}()
	count := cfg.Nodes
	if count == 0 {
		count = 1 + w.rng.IntN(4)
	}
	for i := range count {
		w.nodes = append(w.nodes, newNode(w, fmt.Sprintf("n%d", i+1)))
	}
	steps := cfg.Steps
	if steps == 0 {
		steps = 40 + w.rng.IntN(120)
	}
	for range steps {
		w.act()
		w.check()
	}
	w.end()
	w.check()
	return r
}

// stop ends a schedule at its first violation.
type stop struct{}

func (w *World) check() {
	if len(w.judge.Found) > 0 {
		panic(&stop{})
	}
}

func (w *World) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *World) trace(format string, args ...any) {
	if w.cfg.Trace == nil {
		return
	}
	for i, a := range args {
		if ev, is := a.(event.OfNodes); is {
			raw, _ := json.Marshal(ev)
			args[i] = ev.EventType() + " " + string(raw)
		}
	}
	w.cfg.Trace(w.now, fmt.Sprintf(format, args...))
}

// must has what a connection reports be refused by nobody.
func (w *World) must(err error) {
	if err != nil {
		panic(err)
	}
}

// act is one step of a schedule.
func (w *World) act() {
	w.wait()
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	switch p := w.rng.IntN(100); {
	case p < 45:
		w.deliver()
	case p < 55:
		if n.conn == nil || w.chance(10) {
			w.connect(n)
		}
	case p < 75:
		w.operate()
	case p < 87:
		n.byHand()
	case p < 90:
		w.cut(n, w.chance(70))
	default:
		w.fault(n)
	}
	w.due()
	w.pump()
	for w.chance(60) && w.deliver() {
		w.pump()
	}
}

// wait lets time pass: mostly little.
func (w *World) wait() {
	switch p := w.rng.IntN(200); {
	case p < 120:
		w.now = w.now.Add(clock.Duration(w.rng.IntN(1500)))
	case p < 180:
		w.now = w.now.Add(clock.Duration(w.rng.IntN(60)) * clock.Second)
	case p < 199:
		w.now = w.now.Add(clock.Duration(w.rng.IntN(600)) * clock.Second)
	default:
		w.now = w.now.Add(clock.Duration(w.rng.IntN(9)) * clock.Day)
	}
}

// due has the server do what time alone has become due.
func (w *World) due() {
	for range 20 {
		if at := w.state.Due(); at == 0 || at > w.now {
			return
		}
		w.commit(w.state.Next(w.now))
	}
	w.judge.Violate("S45", "something is due again and again at %s", w.now)
}

// crash ends the server, and starts one from the log, or from a snapshot with the rest of
// the log. What was on its way is lost.
func (w *World) crash() {
	for _, n := range w.nodes {
		w.cut(n, false)
		n.late = nil
	}
	again, err := w.refold(w.rng.IntN(len(w.log) + 1))
	if err != nil {
		panic(err)
	}
	a, b := w.image(w.state), w.image(again)
	if a != b {
		w.judge.Violate("S53", "the state folded again is another one:\n%s\n%s", a, b)
	}
	w.trace("the server is started again")
	w.restart(again)
}

// restart has the server go on with a state: connections of before are gone.
func (w *World) restart(s *drift.State) {
	w.state = s
	for _, n := range w.nodes {
		if st := s.Nodes[n.name]; st != nil && st.Online {
			w.must(w.step(drift.Disconnected{Node: n.name, Session: st.Session, Reason: "the server was started again"}))
		}
	}
}

func (w *World) image(s *drift.State) string {
	raw, err := json.Marshal(s)
	w.must(err)
	return string(raw)
}

// refold makes the state from the log, with a snapshot in JSON after so many entries.
func (w *World) refold(snapshotAt int) (*drift.State, error) {
	s := drift.New()
	for i, e := range w.log {
		if i == snapshotAt && i > 0 {
			restored := &drift.State{}
			if err := json.Unmarshal([]byte(w.image(s)), restored); err != nil {
				return nil, err
			}
			s = drift.Restore(restored)
		}
		en, err := event.NewEntry(e.at, e.ev.On(), e.ev)
		if err != nil {
			return nil, err
		}
		if err := s.Apply(en); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// restore puts the server back to a backup: an older beginning of its log.
func (w *World) restore() {
	for _, n := range w.nodes {
		w.cut(n, false)
		n.late = nil
	}
	keep := len(w.log) - w.rng.IntN(min(len(w.log), 40)+1)
	for keep > 0 && keep < len(w.log) && w.log[keep].at == w.log[keep-1].at {
		keep-- // what is decided together is in a backup together
	}
	w.trace("the server is restored from a backup: %d of %d entries", keep, len(w.log))
	w.log = w.log[:keep]
	s, err := w.refold(0)
	if err != nil {
		panic(err)
	}
	found := w.judge.Found
	w.judge = w.newJudge()
	for _, e := range w.log {
		w.judge.Log(e.at, e.ev)
	}
	w.judge.Committed()
	w.judge.Found = found
	w.restart(s)
}

// refused reports whether an operator's change was refused in words.
func refused(err error) bool {
	var r *drift.Refusal
	return errors.As(err, &r)
}
