package plan

import (
	"cmp"
	"iter"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Explainer answers for the hosts of one state at one instant, and works out once
// what hosts of a rollout or of a channel share. It is over as soon as anything is
// folded into the state. It is not safe for concurrent use.
type Explainer struct {
	s        *State
	now      clock.Instant
	facts    facts             // of the host that is asked about
	rollouts []*common         // few: of each channel's newest and last converged one
	room     [2]*common        // of rollouts, as long as it is enough
	pending  map[string][]Gate // of the channel's next rollout
	restored *Restored         // nil when only the state is asked
	courses  []courseOf        // of rollouts that were asked for
}

// common is what is true of every host of a rollout.
type common struct {
	r      *rollout.Rollout
	blocks []*gate.Block
	asked  []shared
	opens  clock.Instant // when time can promote the open wave
	soaks  clock.Instant // when it can bring the first host through its soak
}

// shared is a gate's answer that hosts share: of the rollout, or of a wave of it.
type shared struct {
	g     *gate.Gate
	wave  int
	block *gate.Block
}

// ask asks a gate, once for all hosts that share its answer.
func (q *Explainer) ask(g *gate.Gate, f *facts) *gate.Block {
	wave := -1
	switch {
	case f.purpose != gate.ToUpdate || g.Scope > gate.PerWave:
		return g.Check(f, true)
	case g.Scope == gate.PerWave:
		wave = f.wave
	}
	all := q.rollout(f.r)
	for i := range all.asked {
		if s := &all.asked[i]; s.g == g && s.wave == wave {
			return s.block
		}
	}
	b := g.Check(f, true)
	all.asked = append(all.asked, shared{g, wave, b})
	return b
}

// Explain begins to answer for a state at an instant.
func Explain(s *State, now clock.Instant) *Explainer {
	q := &Explainer{s: s, now: now}
	q.rollouts = q.room[:0]
	return q
}

func (q *Explainer) rollout(r *rollout.Rollout) *common {
	for _, all := range q.rollouts {
		if all.r == r {
			return all
		}
	}
	asking := q.facts // who asks may be in the middle of it
	q.facts = *q.s.rolloutFacts(gate.ToUpdate, r, q.now)
	q.facts.q = q
	all := &common{r: r, blocks: Blocks(q.facts.waves()), soaks: q.s.canarySoaks(r, q.now), asked: make([]shared, 0, 8)}
	if all.opens = latest(all.blocks); all.opens != 0 {
		if c := q.course(r); c != nil && c.End.Hangs == "" {
			all.opens = cmp.Or(upcoming(c.Waves[r.Cursor].Done.Earliest, q.now), all.opens)
		}
	}
	q.facts = asking
	q.rollouts = append(q.rollouts, all)
	return all
}

// explainPending says what the next rollout of a channel waits for.
func (q *Explainer) explainPending(a *Answer, c *Channel) {
	a.Pending = c.pending().Rollout
	gates, known := q.pending[c.Name]
	if !known {
		f := q.s.openFacts(c, q.now)
		f.q = q
		if q.restored != nil {
			f.restored = *q.restored
		}
		for _, g := range gate.Of(gate.ToOpen, gate.AtOffer) {
			if g.Scope != gate.PerServer || q.restored != nil {
				gates = append(gates, Gate{Gate: g.Code, Block: g.Check(f, true)})
			}
		}
		if q.pending == nil {
			q.pending = map[string][]Gate{}
		}
		q.pending[c.Name] = climb(gates)
	}
	a.PendingGates, a.PendingBlock = gates, first(gates)
}

// Queued is a rollout that a release lists and that has not opened.
type Queued struct {
	Rollout  string
	Channel  string
	Manifest digest.Digest
	// Since is when a release listed it first.
	Since clock.Instant
	// Block is what it waits for; nil when it opens with the next look.
	Block *gate.Block
	// Behind is the rollout of its own channel that it waits for, if it is that.
	Behind string
}

// Queued lists the rollouts that wait, by channel.
func (q *Explainer) Queued() []Queued {
	var out []Queued
	for _, name := range q.s.ChannelNames() {
		c := q.s.Channels[name]
		ref := c.pending()
		if ref == nil {
			continue
		}
		var a Answer
		q.explainPending(&a, c)
		w := Queued{Rollout: ref.Rollout, Channel: name, Manifest: ref.Digest, Since: c.PendingSince, Block: a.PendingBlock}
		if r := q.s.Rollouts[c.Active]; r != nil && w.Block != nil && w.Block.Code == gate.Queue {
			w.Behind = r.Name
		}
		out = append(out, w)
	}
	return out
}

// FindQueued returns a rollout that waits by name or by manifest digest.
func (q *Explainer) FindQueued(id string) (Queued, bool) {
	for _, w := range q.Queued() {
		if w.Rollout == id || string(w.Manifest) == id {
			return w, true
		}
	}
	return Queued{}, false
}

// Restored is what a server knows beside the state: how far its log lacks, or may
// lack, what hosts know, as one that was restored from a backup does. The zero value
// holds nothing up.
type Restored struct {
	// Behind blocks everything but ways back, or is nil.
	Behind *gate.Block
	// Reported reports whether a host has said how far its events go, and the log has them;
	// nil when that is of no matter any more.
	Reported func(host string) bool
	// Missing are the hosts that may be in flight without the state knowing; nil when
	// there are none. They count until an instant at most.
	Missing iter.Seq[string]
	Until   clock.Instant
}

// Claim is why the server may not take a host's claim of an offer yet, or nil.
func (r Restored) Claim(s *State, name, grant string) *gate.Block {
	h := s.Hosts[name]
	if h == nil || h.Grant == nil || h.Grant.ID != grant {
		return r.Behind
	}
	if h.Grant.Claimed { // the host asks again: there is room for it already
		r.Missing = nil
	}
	return s.ask(r.claimFacts(h)).restore()
}

// claimFacts is all that the gates of the server itself read of a host's offer.
func (r Restored) claimFacts(h *Host) facts {
	return facts{purpose: purposes[h.Grant.Purpose], claim: true, h: h, i: -1, restored: r}
}

func (f *facts) restore() *gate.Block {
	return gate.FirstCode(f, f.purpose, gate.AtClaim, gate.Restore)
}

// offered reports whether a host has a grant that it has not claimed.
func (h *Host) offered() bool { return h.Grant != nil && !h.Grant.Claimed }

// Restored makes the answers tell what the server itself waits for: a gate before all
// those that the state knows of.
func (q *Explainer) Restored(r Restored) *Explainer {
	q.restored = &r
	return q
}

// server is the gate of the server itself for a host, or nothing when only the state
// is asked.
func (q *Explainer) server(h *Host) []Gate {
	switch {
	case q.restored == nil:
		return nil
	case h.offered():
		f := q.restored.claimFacts(h)
		f.s = q.s
		return []Gate{{Gate: gate.Restore, Block: f.restore()}}
	default:
		return []Gate{{Gate: gate.Restore, Block: q.restored.Behind}}
	}
}

// unclaimed says of an offer that its claim has to wait for the server, if it has to.
func unclaimed(b *gate.Block) string {
	if b == nil {
		return ""
	}
	return "; its claim waits: " + b.Message
}
