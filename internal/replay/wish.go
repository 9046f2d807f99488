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
}

// Change reads the wish. Errors are *ChangeError.
func (w *Wish) Change() (*Change, error) {
	c := &Change{Delay: map[uint64]clock.Duration{}, Drop: w.Drop}
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
	Differences []Difference `json:"differences"`
}

// rerun runs the planner over a history with something changed.
func (j *Job) rerun(h *History) (*WhatIf, error) {
	c, err := j.Otherwise.Change()
	if err != nil {
		return nil, err
	}
	a := j.Assumed
	a.Activation.Min, a.Activation.Max = 0, 0 // those that were measured
	out, err := Rerun(h, c, Options{Assumed: a, Seed: j.Seed, Beyond: j.Horizon})
	if err != nil {
		return nil, err
	}
	w := &WhatIf{Outcome: out, Differences: Diff(out.Views())}
	w.bound()
	return w, nil
}

// mostShown bounds each list of an answer that is kept.
const mostShown = 500

func (w *WhatIf) bound() {
	w.Modelled = w.Modelled[:min(mostShown, len(w.Modelled))]
	w.Differences = w.Differences[:min(mostShown, len(w.Differences))]
	if d := w.Divergence; d != nil {
		for _, list := range []*[]event.Entry{&d.Recorded, &d.New} {
			*list = (*list)[:min(mostShown, len(*list))]
		}
	}
}
