package control

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

const (
	// marksKept is how many marks are remembered, of which people are shown at most MaxMarks.
	marksKept = 4000
	// MaxMarks is the most that Marks returns.
	MaxMarks = 500
	// marksLook is how long one request may read on in the log for them.
	marksLook = time.Second
)

// Mark is a record that somebody who looks back looks for.
type Mark struct {
	Seq     uint64        `json:"seq"`
	At      clock.Instant `json:"at"`
	Type    string        `json:"type"`
	Subject event.Subject `json:"subject,omitzero"`
}

// Timeline is the log from its first record to its last, with the marks of what was read of it
// up to Through.
type Timeline struct {
	First   Place  `json:"first"`
	Last    Place  `json:"last"`
	Through uint64 `json:"through"`
	Marks   []Mark `json:"marks"`
}

// Place is a record, and when it was committed.
type Place struct {
	Seq uint64        `json:"seq"`
	At  clock.Instant `json:"at"`
}

// marks remembers those of the log.
type marks struct {
	mu      sync.Mutex
	through uint64
	list    []Mark
}

// Timeline returns the marks of the log. It reads on from where the last request ended, for a
// second at most: of a long log the first answers are of its first part.
func (c *Control) Timeline(ctx context.Context) (t Timeline, err error) {
	base, err := c.cfg.Store.Base(ctx)
	if err != nil {
		return t, err
	}
	t.First.Seq, t.Last.Seq = base.Seq+1, c.Head().Seq
	for _, p := range []*Place{&t.First, &t.Last} {
		if p.At, err = committedBehind(ctx, c.cfg.Store, p.Seq-min(p.Seq, 1)); err != nil {
			return t, err
		}
	}
	m := &c.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	err = m.read(ctx, c.cfg.Store, base.Seq)
	t.Through, t.Marks = m.through, thin(m.list, MaxMarks)
	return t, err
}

// read reads on in the log. The caller has mu.
func (m *marks) read(ctx context.Context, log store.Log, base uint64) error {
	m.list = slices.DeleteFunc(m.list, func(x Mark) bool { return x.Seq <= base })
	m.through = max(m.through, base)
	for begun := time.Now(); time.Since(begun) < marksLook; {
		records, err := log.Read(ctx, m.through, 1000)
		if err != nil || len(records) == 0 {
			return err
		}
		for i := range records {
			r := &records[i]
			if event.Importance(r.Type) > 0 {
				at, err := committed(ctx, log, records, i)
				if err != nil {
					return err
				}
				m.list = append(m.list, Mark{r.Seq, at, r.Type, subjectOf(r)})
			}
			m.through = r.Seq
		}
		if len(m.list) > 2*marksKept {
			m.list = thin(m.list, marksKept)
		}
	}
	return nil
}

// subjectOf is what a record is about before all else.
func subjectOf(r *event.Record) event.Subject {
	for _, s := range event.About(&r.Entry) {
		return s
	}
	return r.Subject
}

// thin leaves at most so many marks: it takes the least important away first, and of those that
// are alike as many here as there.
func thin(list []Mark, most int) []Mark {
	out := slices.Clone(list)
	for least := 1; len(out) > most; least++ {
		n := 0
		for i := range out {
			if event.Importance(out[i].Type) == least {
				n++
			}
		}
		keep, at := max(0, n-(len(out)-most)), 0
		out = slices.DeleteFunc(out, func(x Mark) bool {
			if event.Importance(x.Type) != least {
				return false
			}
			at++
			return at*keep/n == (at-1)*keep/n
		})
	}
	return out
}
