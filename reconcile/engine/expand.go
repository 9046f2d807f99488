package engine

import "time"

// Expand computes the rows and transitions that a record writes besides its own
// row: the intents and verdicts applied to children as they stand in the
// store's transaction. get returns nil for a ref without a row. A row with
// Created 0 is new. Stores call it, so that all of them agree.
func Expand(rec Record, get func(Ref) (*Row, error)) (rows []Row, ts []Transition, err error) {
	index := make(map[Ref]int, len(rec.Intents)) // of rows
	find := func(ref Ref) (*Row, int, error) {
		if i, ok := index[ref]; ok {
			cur := rows[i]
			return &cur, i, nil
		}
		cur, err := get(ref)
		return cur, -1, err
	}
	put := func(r Row, at int) {
		if at < 0 {
			index[r.Ref] = len(rows)
			rows = append(rows, r)
			return
		}
		rows[at] = r
	}
	for _, in := range rec.Intents {
		cur, at, err := find(in.Ref)
		if err != nil {
			return nil, nil, err
		}
		next, ch, err := ApplyIntent(cur, &rec.Row, in, rec.Now, Cause{TriggerParent, rec.Row.Ref.String()})
		if err != nil {
			return nil, nil, err
		}
		if ch.Changed {
			put(next, at)
			ts = append(ts, ch.Transition...)
		}
	}
	for _, v := range rec.Verdicts {
		cur, at, err := find(v.Child)
		if err != nil {
			return nil, nil, err
		}
		if cur == nil {
			continue
		}
		if next, changed := ApplyVerdict(*cur, v); changed {
			put(next, at)
		}
	}
	return rows, ts, nil
}

// Drop decides which of a resource's transitions (in order of N) a history
// policy does not keep: it keeps the newest Keep, no older than Age, and always the newest into
// each phase; a negative Keep keeps none. It returns the N of those to drop.
func (h History) Drop(ts []Transition, now time.Time) []int64 {
	last := map[Phase]int64{}
	for _, t := range ts {
		if h.Keep >= 0 {
			last[t.To] = t.N
		}
	}
	var drop []int64
	for i, t := range ts {
		old := h.Keep < 0 || h.Keep > 0 && i < len(ts)-h.Keep
		aged := h.Age > 0 && !t.At.Add(h.Age).After(now)
		if (old || aged) && last[t.To] != t.N {
			drop = append(drop, t.N)
		}
	}
	return drop
}
