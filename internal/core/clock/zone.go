package clock

import (
	"errors"
	"slices"
)

// Zone is a time zone as a table of its offsets, signed with the windows that
// use it: every machine and every replay finds the same instants, whatever its
// own database of zones says.
type Zone struct {
	Name string `json:"name"`
	// The table holds from From until before Until. Nothing opens outside.
	From  Instant `json:"from"`
	Until Instant `json:"until"`
	// Offset is in force at From: seconds to add to UTC.
	Offset      int64        `json:"offset"`
	Transitions []Transition `json:"transitions"` // ascending, after From and before Until
}

// Transition is when another offset begins.
type Transition struct {
	At     Instant `json:"at"`
	Offset int64   `json:"offset"`
}

const (
	second         = int64(Second)
	maxOffset      = 26 * 3600
	maxTransitions = 64
	dayMillis      = int64(Day)
)

func (z *Zone) check() error {
	bad := func(offset int64) bool { return offset < -maxOffset || offset > maxOffset }
	if z.Name == "" || len(z.Name) > 64 || z.From <= 0 || z.Until <= z.From || bad(z.Offset) || len(z.Transitions) > maxTransitions {
		return errors.New("its table of a time zone has no name, no span, or is out of bounds")
	}
	at := z.From
	for _, t := range z.Transitions {
		if t.At <= at || t.At >= z.Until || bad(t.Offset) {
			return errors.New("the transitions of time zone " + z.Name + " are not in order")
		}
		at = t.At
	}
	return nil
}

// OffsetAt returns the offset in force at an instant, in seconds. Before the
// table it is the first one.
func (z *Zone) OffsetAt(t Instant) int64 {
	offset := z.Offset
	for i := range z.Transitions {
		if z.Transitions[i].At > t {
			break
		}
		offset = z.Transitions[i].Offset
	}
	return offset
}

// bounds returns the least and the greatest offset of the table, in seconds.
func (z *Zone) bounds() (least, most int64) {
	least, most = z.Offset, z.Offset
	for i := range z.Transitions {
		least, most = min(least, z.Transitions[i].Offset), max(most, z.Transitions[i].Offset)
	}
	return least, most
}

// instant finds when the wall clock shows a local time: the first time where it
// does so twice, and the end of the gap where it never does.
func (z *Zone) instant(local int64) Instant {
	offset := z.Offset
	for i := 0; ; i++ {
		t := Instant(local - offset*second)
		if i == len(z.Transitions) || t < z.Transitions[i].At {
			return t
		}
		next := z.Transitions[i]
		if Instant(local-next.Offset*second) < next.At { // skipped by the clocks
			return next.At
		}
		offset = next.Offset
	}
}

// Agrees reports whether two tables say the same of every instant from one until
// another.
func (z *Zone) Agrees(o *Zone, from, until Instant) bool {
	if z.Name != o.Name {
		return false
	}
	cut := func(z *Zone) []Transition {
		out := []Transition{{from, z.OffsetAt(from)}}
		for _, t := range z.Transitions {
			if t.At > from && t.At < until {
				out = append(out, t)
			}
		}
		return out
	}
	return slices.Equal(cut(z), cut(o))
}
