package memory

import (
	"encoding/json"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Write is what one call changed, as data: a store that folds the writes of another one, in
// order, is its copy. It encodes as JSON, and its names are frozen.
type Write struct {
	At          time.Time           `json:"at"`
	Rows        []Row               `json:"rows,omitempty"` // as they stand now
	Transitions []engine.Transition `json:"transitions,omitempty"`
	Raised      []Raised            `json:"raised,omitempty"`
	Events      []Received          `json:"events,omitempty"`
	// Acked has the triggers of a resource up to a number removed, and Handled the data of
	// its events.
	Acked   *UpTo `json:"acked,omitempty"`
	Handled *UpTo `json:"handled,omitempty"`
	// Trimmed transitions are no longer kept, nor anything of purged resources.
	Trimmed *Trimmed     `json:"trimmed,omitempty"`
	Purged  []engine.Ref `json:"purged,omitempty"`
}

// Row is a row with the part that only the framework reads.
type Row struct {
	engine.Row
	State json.RawMessage `json:"state"`
}

// Raised is a trigger of the outbox.
type Raised struct {
	N     int64        `json:"n"`
	Ref   engine.Ref   `json:"ref"`
	Cause engine.Cause `json:"cause"`
}

// Received is an event in the inbox of a resource.
type Received struct {
	Ref engine.Ref `json:"ref"`
	engine.Event
}

// UpTo names the triggers, or events, of a resource up to a number.
type UpTo struct {
	Ref engine.Ref `json:"ref"`
	N   int64      `json:"n"`
}

// Trimmed names transitions of a resource.
type Trimmed struct {
	Ref engine.Ref `json:"ref"`
	N   []int64    `json:"n"`
}

func rowOf(r engine.Row) Row { return Row{Row: r, State: r.State()} }

// Fold applies a write of another store. It fails on a row that does not decode, with
// nothing changed.
func (s *Store) Fold(w Write) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fold(w)
}

// fold changes the state; the caller has mu.
func (s *Store) fold(w Write) error {
	rows := make([]engine.Row, len(w.Rows))
	for i := range w.Rows {
		rows[i] = w.Rows[i].Row
		if err := rows[i].SetState(w.Rows[i].State); err != nil {
			return err
		}
	}
	for i := range rows {
		s.put(rows[i])
	}
	for _, t := range w.Transitions {
		r := s.of(t.Ref)
		r.history = append(r.history, t)
	}
	for _, x := range w.Raised {
		s.raised = max(s.raised, x.N)
		r := s.of(x.Ref)
		r.outbox = append(r.outbox, engine.Raise{N: x.N, Ref: x.Ref, Cause: x.Cause})
	}
	for _, e := range w.Events {
		s.received = max(s.received, e.N)
		r := s.of(e.Ref)
		r.inbox = append(r.inbox, e.Event)
	}
	s.drop(w)
	return nil
}

// drop takes away what a write removes.
func (s *Store) drop(w Write) {
	if a := w.Acked; a != nil {
		r := s.of(a.Ref)
		r.outbox = without(r.outbox, func(x engine.Raise) bool { return x.N <= a.N })
	}
	if h := w.Handled; h != nil {
		inbox := s.of(h.Ref).inbox
		for i := range inbox {
			if inbox[i].N <= h.N {
				inbox[i].Data = nil
			}
		}
	}
	if t := w.Trimmed; t != nil {
		gone := map[int64]bool{}
		for _, n := range t.N {
			gone[n] = true
		}
		r := s.of(t.Ref)
		r.history = without(r.history, func(x engine.Transition) bool { return gone[x.N] })
	}
	for _, ref := range w.Purged {
		s.remove(ref)
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
