package drift

import (
	"encoding/json"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Preview lists the fields of a leg that setting an object would change on its node, as far as
// the server knows what the node has, and what a push would wait for.
func (s *State) Preview(kind, name string, d *nodeconfig.Definition, l *nodeconfig.Leg, now clock.Instant) ([]Field, *Wait) {
	rules, want := s.RulesOf(l.Node, kind, name), d.Config(l)
	var acked, before, actual json.RawMessage
	o := s.Objects[Key(kind, name)]
	if was := o.at(l); was != nil {
		before = o.Definition.Config(o.Definition.Leg(l.Role))
		if was.Acked != nil {
			acked, actual = was.Acked.Observed, was.Acked.Observed
		}
	}
	if n := s.Nodes[l.Node]; n != nil {
		if e := n.Episodes[Key(kind, l.ID)]; e != nil {
			actual = e.Actual
		}
	}
	was, is := diff.Form{}, rules.Form(want)
	if len(before) > 0 {
		was = rules.Form(before)
	}
	fields := slices.DeleteFunc(table(rules, acked, want, actual, nil), func(f Field) bool {
		v, there := is[f.Field]
		w, before := was[f.Field]
		return there == before && v == w
	})
	after := &Object{Kind: kind, Name: name, Version: 1, Definition: *d, Legs: map[string]*Leg{}}
	if o != nil {
		after.Version = o.Version + 1
	}
	for i := range d.Legs {
		after.Legs[d.Legs[i].Role] = &Leg{Status: Pending}
	}
	w := s.Waits(after, l.Role, now)
	if w != nil && (w.Code == WaitsTurn || w.Code == WaitsOrder) {
		w = nil
	}
	return fields, w
}
