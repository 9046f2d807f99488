// Package replay folds a server's log again: to any point of it, to show what was
// there then, and with something changed, to show what the same code would have
// decided.
package replay

import (
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Fold returns the state after the event at a sequence; 0 is before the first.
func Fold(h *History, docs plan.Documents, upTo uint64) (*plan.State, error) {
	switch {
	case upTo > h.End():
		return nil, fmt.Errorf("the log ends with event %d; there is no event %d", h.End(), upTo)
	case upTo < h.Base():
		return nil, fmt.Errorf("the log was pruned up to event %d; give an archive of it to look at event %d", h.Base(), upTo)
	}
	s, err := h.start(docs)
	if err != nil {
		return nil, err
	}
	return s, fold(s, h.Records[:upTo-h.Base()])
}

// start is the state that the log begins with.
func (h *History) start(docs plan.Documents) (*plan.State, error) {
	if h.Begins == nil {
		return plan.New(docs), nil
	}
	var parts struct{ Plan json.RawMessage }
	if err := json.Unmarshal(h.Begins.State, &parts); err != nil {
		return nil, fmt.Errorf("the state that the log begins with: %w", err)
	}
	return plan.Restore(parts.Plan, docs)
}

// Base is the event that the log begins behind, and End its last.
func (h *History) Base() uint64 {
	if h.Begins == nil {
		return 0
	}
	return h.Begins.Seq
}

// End is the last event of the log.
func (h *History) End() uint64 { return h.Base() + uint64(len(h.Records)) }

func (h *History) record(seq uint64) *event.Record { return &h.Records[seq-h.Base()-1] }

func fold(s *plan.State, records []event.Record) error {
	for i := range records {
		if err := s.Apply(records[i].Entry); err != nil {
			return fmt.Errorf("event %d: %w", records[i].Seq, err)
		}
	}
	return nil
}

// At returns when the server committed a record: a host's own event carries the
// host's clock, and what counts is the server's word after it.
func At(h *History, seq uint64) clock.Instant {
	for i := seq; i > h.Base() && i <= h.End(); i++ {
		if r := h.record(i); r.HostSeq == 0 {
			return r.At
		}
	}
	for i := min(seq, h.End()); i > h.Base(); i-- {
		if r := h.record(i); r.HostSeq == 0 {
			return r.At
		}
	}
	return 0
}

// Before returns the last sequence that was committed at or before an instant.
func Before(h *History, at clock.Instant) uint64 {
	last, whole := h.Base(), true
	for i := range h.Records {
		r := &h.Records[i]
		switch {
		case r.HostSeq != 0:
			whole = false // counts once its head does
		case r.At > at:
			return last
		case r.Type == (event.HostHead{}).EventType() || whole:
			last, whole = r.Seq, true
		}
	}
	return last
}

// Skew estimates how far the clock of each host is ahead of the server's, from the
// last report of each: too little by as long as that took to arrive.
func Skew(h *History) map[string]clock.Duration {
	skew, last := map[string]clock.Duration{}, map[string]clock.Instant{}
	for i := range h.Records {
		switch r := &h.Records[i]; {
		case r.HostSeq != 0:
			last[r.Host()] = r.At
		case r.Type == (event.HostHead{}).EventType():
			if at, ok := last[r.Host()]; ok {
				skew[r.Host()] = at.Sub(r.At)
				delete(last, r.Host())
			}
		}
	}
	return skew
}
