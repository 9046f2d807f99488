package replay

import (
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Wish is a change as people write it, each part as the flag of steady replay that is called so.
type Wish struct {
	Delay  []string `json:"delay,omitempty"`
	Drop   []uint64 `json:"drop,omitempty"`
	Policy []string `json:"policy,omitempty"`
	Budget []string `json:"budget,omitempty"`
	From   uint64   `json:"from,omitempty"` // as --seq
}

// Change reads the wish. Errors are *ChangeError.
func (w *Wish) Change() (*Change, error) {
	c := &Change{Delay: map[uint64]clock.Duration{}, Drop: w.Drop, From: w.From}
	for _, text := range w.Delay {
		seq, by, ok := strings.Cut(text, "=")
		n, err := strconv.ParseUint(seq, 10, 63)
		d, failed := clock.ParseDuration(by)
		if !ok || err != nil || failed != nil {
			return nil, changeErrorf("--delay %q: expected SEQ=TIME, such as 1187=10m", text)
		}
		c.Delay[n] = d
	}
	for _, text := range w.Policy {
		e, err := ParsePolicy(text)
		if err != nil {
			return nil, changeErrorf("--policy %v", err)
		}
		c.Edits = append(c.Edits, e)
	}
	for _, text := range w.Budget {
		i := strings.LastIndex(text, "=")
		n := 0
		var err error
		if i > 0 {
			n, err = strconv.Atoi(text[i+1:])
		}
		if i < 1 || err != nil || n < 1 {
			return nil, changeErrorf("--budget %q: expected SELECTOR=N with N of at least 1, such as tags:web=1", text)
		}
		c.Edits = append(c.Edits, Budget(text[:i], n))
	}
	return c, nil
}

// WhatIf is what a rerun came to, beside what is recorded.
type WhatIf struct {
	*Outcome
	// FirstRecorded and FirstNew describe what the divergence has, in the same order.
	FirstRecorded []string     `json:"firstRecorded"`
	FirstNew      []string     `json:"firstNew"`
	Recorded      View         `json:"recorded"`
	End           View         `json:"end"`
	Differences   []Difference `json:"differences"`
}

// WhatIf compares the outcome with what is recorded; describe words events.
func (o *Outcome) WhatIf(describe func([]event.Entry) []string) *WhatIf {
	w := &WhatIf{Outcome: o, FirstRecorded: []string{}, FirstNew: []string{}}
	w.Recorded, w.End = ViewAt(o.Recorded, 0, o.RecordedAt), ViewAt(o.End, 0, o.EndedAt)
	w.Differences = Diff(w.Recorded, w.End)
	if d := o.Divergence; d != nil {
		w.FirstRecorded, w.FirstNew = describe(d.Recorded), describe(d.New)
	}
	return w
}

// rerun runs the planner over a history with something changed.
func (j *Job) rerun(h *History, progress func(done, of int), describe func([]event.Entry) []string) (*WhatIf, error) {
	c, err := j.Otherwise.Change()
	if err != nil {
		return nil, err
	}
	a := j.Assumed
	a.Activation.Min, a.Activation.Max = 0, 0 // those that were measured
	out, err := Rerun(h, c, Options{Assumed: a, Seed: j.Seed, Beyond: j.Horizon, Progress: progress})
	if err != nil {
		return nil, err
	}
	w := out.WhatIf(describe)
	w.bound()
	return w, nil
}

// mostShown bounds each list of an answer that is kept.
const mostShown = 500

func (w *WhatIf) bound() {
	w.Modelled, w.Differences = first(w.Modelled), first(w.Differences)
	w.FirstRecorded, w.FirstNew = first(w.FirstRecorded), first(w.FirstNew)
	for _, v := range []*View{&w.Recorded, &w.End} {
		v.Channels, v.Rollouts, v.Hosts = first(v.Channels), first(v.Rollouts), first(v.Hosts)
	}
	if d := w.Divergence; d != nil {
		d.Recorded, d.New = first(d.Recorded), first(d.New)
	}
}

func first[T any](list []T) []T { return list[:min(mostShown, len(list))] }
