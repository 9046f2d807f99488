package engine

import (
	"encoding/json"
	"slices"
	"time"
)

// Write is what one call changes in a Table, as data: a table that folds the writes of another one,
// in order, is its copy. It encodes as JSON, and its names are frozen.
type Write struct {
	At          time.Time    `json:"at"`
	Rows        []StoredRow  `json:"rows,omitempty"` // as they stand now
	Transitions []Transition `json:"transitions,omitempty"`
	Raised      []Raised     `json:"raised,omitempty"`
	Events      []Received   `json:"events,omitempty"`
	// Acked has the triggers of a resource up to a number removed, and Handled the data of
	// its events.
	Acked   *UpTo `json:"acked,omitempty"`
	Handled *UpTo `json:"handled,omitempty"`
	// Trimmed transitions are no longer kept, nor anything of purged resources.
	Trimmed *Trimmed `json:"trimmed,omitempty"`
	Purged  []Ref    `json:"purged,omitempty"`
}

// IsZero reports whether there is nothing to write.
func (w *Write) IsZero() bool {
	return len(w.Rows) == 0 && len(w.Raised) == 0 && len(w.Events) == 0 && w.Acked == nil && w.Handled == nil && w.Trimmed == nil && len(w.Purged) == 0
}

// StoredRow is a row with the part that only the framework reads.
type StoredRow struct {
	Row
	State json.RawMessage `json:"state"`
	// SameDesired says that what is desired is as before, and left out.
	SameDesired bool `json:"sameDesired,omitempty"`
}

// Raised is a trigger of the outbox.
type Raised struct {
	N     int64 `json:"n"`
	Ref   Ref   `json:"ref"`
	Cause Cause `json:"cause"`
}

// Received is an event in the inbox of a resource.
type Received struct {
	Ref Ref `json:"ref"`
	Event
}

// UpTo names the triggers, or events, of a resource up to a number.
type UpTo struct {
	Ref Ref   `json:"ref"`
	N   int64 `json:"n"`
}

// Trimmed names transitions of a resource.
type Trimmed struct {
	Ref Ref     `json:"ref"`
	N   []int64 `json:"n"`
}

func stored(r Row) StoredRow { return StoredRow{Row: r, State: r.State()} }

// Fold applies a write. It fails on a row that does not decode, with nothing changed.
func (t *Table) Fold(w Write) error {
	rows := make([]Row, len(w.Rows))
	for i := range w.Rows {
		rows[i] = w.Rows[i].Row
		if before := t.rows[rows[i].Ref]; w.Rows[i].SameDesired && before != nil {
			rows[i].Desired = before.row.Desired
		}
		if err := rows[i].SetState(w.Rows[i].State); err != nil {
			return err
		}
	}
	for i := range rows {
		t.put(rows[i])
	}
	for _, x := range w.Transitions {
		if r := t.rows[x.Ref]; r != nil {
			r.history = append(r.history, x)
		}
	}
	for _, x := range w.Raised {
		t.raised = max(t.raised, x.N)
		if r := t.rows[x.Ref]; r != nil { // a parent may be purged
			r.outbox = append(r.outbox, Raise(x))
		}
	}
	for _, e := range w.Events {
		t.received = max(t.received, e.N)
		if r := t.rows[e.Ref]; r != nil {
			r.receive(e.Event)
		}
	}
	t.drop(w)
	return nil
}

func (k *kept) receive(e Event) {
	if k.known == nil {
		k.known = map[eventName]struct{}{}
	}
	k.inbox, k.known[eventName{e.Source, e.ID}] = append(k.inbox, e), struct{}{}
}

// drop takes away what a write removes.
func (t *Table) drop(w Write) {
	if a := w.Acked; a != nil && t.rows[a.Ref] != nil {
		r := t.rows[a.Ref]
		r.outbox = without(r.outbox, func(x Raise) bool { return x.N <= a.N })
	}
	if h := w.Handled; h != nil && t.rows[h.Ref] != nil {
		for r := t.rows[h.Ref]; r.bare < len(r.inbox) && r.inbox[r.bare].N <= h.N; r.bare++ {
			r.inbox[r.bare].Data = nil
		}
	}
	if x := w.Trimmed; x != nil && t.rows[x.Ref] != nil {
		r := t.rows[x.Ref]
		r.history = without(r.history, func(h Transition) bool { return slices.Contains(x.N, h.N) })
	}
	for _, ref := range w.Purged {
		t.remove(ref)
	}
}

// without is a copy without those that are gone: readers may still have the old one.
func without[T any](all []T, gone func(T) bool) []T {
	var kept []T
	for _, v := range all {
		if !gone(v) {
			kept = append(kept, v)
		}
	}
	return kept
}
