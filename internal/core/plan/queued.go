package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/gate"
)

// Queued is a rollout that a release lists and that has not opened.
type Queued struct {
	Rollout  string
	Channel  string
	Manifest digest.Digest
	// Since is when a release listed it first.
	Since clock.Instant
	// Block is what it waits for; nil when it opens with the next look.
	Block *gate.Block
}

// Queued lists the rollouts that wait, by channel.
func (q *Reasons) Queued() []Queued {
	var out []Queued
	for _, name := range q.s.ChannelNames() {
		c := q.s.Channels[name]
		ref := c.pending()
		if ref == nil {
			continue
		}
		var a Answer
		q.explainPending(&a, c)
		out = append(out, Queued{Rollout: ref.Rollout, Channel: name, Manifest: ref.Digest, Since: c.PendingSince, Block: a.PendingBlock})
	}
	return out
}

// FindQueued returns a rollout that waits by name or by manifest digest.
func (q *Reasons) FindQueued(id string) (Queued, bool) {
	for _, w := range q.Queued() {
		if w.Rollout == id || string(w.Manifest) == id {
			return w, true
		}
	}
	return Queued{}, false
}
