package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Reasons answers for the hosts of one state at one instant, and works out once
// what hosts of a rollout or of a channel share. It is over as soon as anything is
// folded into the state. It is not safe for concurrent use.
type Reasons struct {
	s        *State
	now      clock.Instant
	rollouts []*common         // few: of each channel's newest and last converged one
	pending  map[string][]Gate // of the channel's next rollout
	restored *Restored         // nil when only the state is asked
}

// common is what is true of every host of a rollout.
type common struct {
	r              *rollout.Rollout
	stale, overlay *gate.Block
	holds          []*gate.Block
	waves          []shut
	opens          clock.Instant // when time can promote the open wave
	soaks          clock.Instant // when it can bring the first host through its soak
}

// shut is what keeps every host of a wave.
type shut struct {
	asked            bool
	wave, compliance *gate.Block
}

// wave asks the gates that all hosts of a wave of a rollout share.
func (q *Reasons) wave(r *rollout.Rollout, all *common, i int) *shut {
	if all.waves == nil {
		all.waves = make([]shut, len(r.Plan.Header.Waves))
	}
	w := &all.waves[i]
	if !w.asked {
		names := r.Plan.Header.Waves
		w.asked = true
		w.wave = gate.CheckWave(r.Name, i, names[i].Name, r.Cursor, names[r.Cursor].Name, all.opens)
		w.compliance = q.s.compliance(r, i)
	}
	return w
}

// Ask begins to answer for a state at an instant.
func Ask(s *State, now clock.Instant) *Reasons {
	return &Reasons{s: s, now: now}
}

func (q *Reasons) rollout(r *rollout.Rollout) *common {
	for _, all := range q.rollouts {
		if all.r == r {
			return all
		}
	}
	s := q.s
	all := &common{r: r, stale: s.stale(s.Channels[r.Channel], q.now), overlay: s.overlay(r), soaks: s.canarySoaks(r, q.now)}
	all.holds = s.holding(r, all.overlay, q.now)
	all.opens = latest(all.holds)
	q.rollouts = append(q.rollouts, all)
	return all
}

// explainPending says what the next rollout of a channel waits for.
func (q *Reasons) explainPending(a *Answer, c *Channel) {
	a.Pending = c.pending().Rollout
	gates, known := q.pending[c.Name]
	if !known {
		s := q.s
		var queue *gate.Block
		if cur := s.Rollouts[c.Active]; s.keeps(c, cur, c.pending()) {
			queue = gate.CheckQueue(a.Pending, cur.Name, standing(cur), q.rollout(cur).opens)
		}
		if q.restored != nil {
			gates = append(gates, Gate{gate.Restore, q.restored.Behind})
		}
		gates = append(gates, Gate{gate.Queue, queue},
			Gate{gate.ChannelEdge, gate.CheckChannelEdges(c.Name, s.predecessors(c.Name, q.now))})
		if q.pending == nil {
			q.pending = map[string][]Gate{}
		}
		q.pending[c.Name] = gates
	}
	a.PendingGates, a.PendingBlock = gates, first(gates)
}
