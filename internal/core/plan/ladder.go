package plan

import (
	"iter"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// GateState says how far what a gate is asked about has come.
type GateState string

// The states. NotReached is open now, and asked again once those before it open.
const (
	Passed     GateState = "passed"
	Closed     GateState = "holds"
	NotReached GateState = "notReached"
)

// Gate is one gate's answer, in the order in which they are asked: a rung of the ladder that
// leads to a grant, to a wave's promotion, or to the opening of a rollout.
type Gate struct {
	Gate gate.Code `json:"gate"`
	// Rule tells gates of one code apart where they answer apart.
	Rule  string      `json:"rule,omitempty"`
	State GateState   `json:"state"`
	Block *gate.Block `json:"block,omitempty"`
}

// climb says of each gate how far what waits before them has come.
func climb(gates []Gate) []Gate {
	open := Passed
	for i := range gates {
		if gates[i].State = open; gates[i].Block != nil {
			gates[i].State, open = Closed, NotReached
		}
	}
	return gates
}

// beside says of the gates of a host that waits at none of them that they stand so, but for the
// one that holds it all the same.
func beside(gates []Gate, all GateState, b *gate.Block) {
	for i := range gates {
		if gates[i].State = all; b != nil && gates[i].Gate == b.Code {
			gates[i].State = Closed
		}
	}
}

// waves asks every gate that may keep the rollout that f is of from going on as a whole.
func (f *facts) waves() []Gate {
	if f.r.Phase.Ended() || f.r.Plan == nil {
		return nil
	}
	list := gate.Of(gate.ToPromote, gate.AtOffer)
	out := append(make([]Gate, 0, 1+len(list)), Gate{Gate: gate.Overlay, Block: gate.FirstCode(f, gate.ToUpdate, gate.AtOffer, gate.Overlay)})
	f.purpose = gate.ToPromote
	for _, g := range list {
		out = append(out, Gate{Gate: g.Code, Rule: g.Rule, Block: g.Check(f, true)})
	}
	return climb(out)
}

// Blocks are the answers of the gates that hold.
func Blocks(gates []Gate) (out []*gate.Block) {
	for i := range gates {
		if b := gates[i].Block; b != nil {
			out = append(out, b)
		}
	}
	return out
}

// WaveGates answers for the open wave of a rollout: every gate that may keep it from being
// promoted, in order, with when time can clear it.
func WaveGates(s *State, r *rollout.Rollout, now clock.Instant) []Gate {
	f := s.rolloutFacts(gate.ToUpdate, r, now)
	f.q = Explain(s, now)
	return f.waves()
}

// Step is what comes next of a rollout that goes forward.
type Step struct {
	// Wave is the one that opens; empty where the rollout is over then.
	Wave string `json:"wave,omitempty"`
	// Comes is when that comes about, and Ends when the rollout does.
	Comes rollout.Estimate `json:"comes"`
	Ends  rollout.Estimate `json:"ends"`
	// Message has both in words.
	Message string `json:"message"`
	// Block is the first that holds it; nil where it comes at the next tick.
	Block *gate.Block `json:"block,omitempty"`
}

// NextStep says what comes next of a rollout, by the gates of its open wave; nil where none of its
// waves opens any more.
func NextStep(s *State, r *rollout.Rollout, now clock.Instant) *Step { return Explain(s, now).Step(r) }

// Step is NextStep.
func (q *Explainer) Step(r *rollout.Rollout) *Step {
	c := q.course(r)
	if c == nil {
		return nil
	}
	out := &Step{Comes: c.Waves[r.Cursor].Done, Ends: c.End}
	if holds := q.rollout(r).blocks; len(holds) > 0 {
		out.Block = holds[0]
	}
	if r.Cursor+1 < len(c.Waves) {
		out.Wave = c.Waves[r.Cursor+1].Name
		out.Message = "wave " + out.Wave + " opens " + out.Comes.Message(q.now) + "; "
	}
	if out.Wave != "" && out.Comes.Hangs != "" {
		out.Message += "the rollout ends some time after that"
	} else {
		out.Message += "the rollout ends " + out.Ends.Message(q.now)
	}
	return out
}

// Upcoming is a host that a grant comes to soon, and what holds it until then.
type Upcoming struct {
	Host  string      `json:"host"`
	Wave  string      `json:"wave"`
	Block *gate.Block `json:"block,omitempty"`
	// Turn is when its grant comes.
	Turn *Turn `json:"turn,omitempty"`
}

// Turn is when a host's grant comes, also in words.
type Turn struct {
	rollout.Estimate
	Message string `json:"message"`
}

// Upcoming lists the first hosts of a rollout's open waves in the order in which they get their
// grants: those that nothing of their own keeps back.
func (q *Explainer) Upcoming(r *rollout.Rollout, most int) []Upcoming {
	out := []Upcoming{}
	if r.Phase.Ended() || r.Plan == nil {
		return out
	}
	q.facts = facts{s: q.s, now: q.now, purpose: gate.ToUpdate, r: r, c: q.s.Channels[r.Channel], q: q}
	f := &q.facts
	for i := range line(r) {
		if len(out) == most {
			break
		}
		wave := r.Plan.Leaves[i].Wave
		if wave > r.Cursor || q.kept(f.at(i)) {
			continue
		}
		out = append(out, Upcoming{Host: f.h.Name, Wave: r.Plan.Header.Waves[wave].Name, Block: first(q.gates(f)), Turn: q.turn(r, i)})
	}
	return out
}

// turn is when the grant of a member that waits comes; nil where none does.
func (q *Explainer) turn(r *rollout.Rollout, i int) *Turn {
	c := q.course(r)
	if c == nil {
		return nil
	}
	e := c.Turn(i)
	if e == nil {
		return nil
	}
	return &Turn{Estimate: *e, Message: "its grant comes " + e.Message(q.now)}
}

// line are the members that wait for a grant, in the order in which the planner looks at them.
func line(r *rollout.Rollout) iter.Seq[int] {
	return func(yield func(int) bool) {
		sets := []*rollout.Set{&r.InSlot}
		for k := range r.Classes {
			sets = append(sets, &r.Classes[k].Free)
		}
		for _, set := range sets {
			for i := set.Next(0); i >= 0; i = set.Next(i + 1) {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// kept reports whether something of the host's own keeps it back: others pass it.
func (q *Explainer) kept(f *facts) bool {
	if f.h.Grant != nil && !f.h.Grant.yields() {
		return true
	}
	g := gate.FirstClosed(f, f.purpose, gate.PerHost)
	return g != nil && g.Code != gate.Canary
}
