package drift

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// PushNow has what is pending or failed be pushed now: of the object that it names, or of a node.
type PushNow struct{ Kind, Name, Node string }

// PushOutcome is what asking for a push of a leg comes to. Now says that nothing but other pushes, or
// the comparison of its node, comes first; else Message says what it waits for, and Next what an
// operator can do.
type PushOutcome struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Role    string `json:"role"`
	Node    string `json:"node"`
	Now     bool   `json:"now"`
	Message string `json:"message"`
	Next    string `json:"next,omitempty"`
}

// decide refuses where nothing can be pushed. What is acknowledged, or on its way, needs nothing.
func (in PushNow) decide(s *State, by By, now clock.Instant) ([]event.OfNodes, error) {
	refs, err := s.asked(in)
	if err != nil {
		return nil, err
	}
	all := s.outcomes(refs, now)
	if len(all) > 0 && !slices.ContainsFunc(all, func(o PushOutcome) bool { return o.Now }) {
		return nil, refuse(CodeConflict, "nothing can be pushed now: %s", whyNot(all))
	}
	return s.requests(refs, by, now), nil
}

// PushOutcomes lists what a push would come to, for each leg that is pending or failed, or that its node
// has otherwise by now.
func (s *State) PushOutcomes(in PushNow, now clock.Instant) ([]PushOutcome, error) {
	refs, err := s.asked(in)
	return s.outcomes(refs, now), err
}

func (s *State) asked(in PushNow) ([]legRef, error) {
	if in.Node != "" {
		_, err := s.known(in.Node)
		return s.legsOf(in.Node), err
	}
	o, err := s.object(in.Kind, in.Name)
	if err != nil {
		return nil, err
	}
	return s.legsOfObject(o), nil
}

func (s *State) legsOfObject(o *Object) (refs []legRef) {
	for i := range o.Definition.Legs {
		refs = append(refs, legRef{o.key(), o.Definition.Legs[i].Role})
	}
	return refs
}

func (s *State) outcomes(refs []legRef, now clock.Instant) []PushOutcome {
	out := []PushOutcome{}
	for _, r := range refs {
		o, d, l := s.leg(r)
		w := s.Waits(o, r.role, now)
		if w == nil {
			if w = s.differs(o, d, l); w == nil {
				continue
			}
		}
		x := PushOutcome{Kind: o.Kind, Name: o.Name, Role: r.role, Node: d.Node, Message: w.Message, Next: w.Next}
		if o.Anonymous {
			x.Name = d.ID
		}
		switch w.Code {
		case WaitsRetry, WaitsTurn:
			x.Now, x.Message = true, "it is pushed now"
		case WaitsConnection:
			x.Next = "steady node run beside the device: it is pushed as soon as the node connects"
		case WaitsComparison:
			x.Now, x.Message, x.Next = l.RetryAt > now, w.Message+", and it is pushed right after", "steady node show "+d.Node
		case WaitsOrder:
			x.Message += ", and it is pushed right after"
		}
		out = append(out, x)
	}
	return out
}

// differs is what a push of a leg waits for that was acknowledged, where its node has something else by
// now; nil where it has not, or where an operator decided about that.
func (s *State) differs(o *Object, d *nodeconfig.Leg, l *Leg) *Wait {
	n := s.Nodes[d.Node]
	if n == nil || l.Status != Pushed || l.Gone {
		return nil
	}
	e := n.Episodes[Key(o.Kind, d.ID)]
	if e == nil || e.Decided {
		return nil
	}
	return &Wait{Code: WaitsConflict, Message: "it was pushed, and node " + d.Node + " " + differs[e.Drift], Next: "steady drift resolve " + e.Episode + " --repush"}
}

// requests ends the back-off of those legs that are in one and whose push waits for nothing that an
// operator has to do.
func (s *State) requests(refs []legRef, by By, now clock.Instant) (out []event.OfNodes) {
	for _, r := range refs {
		o, d, l := s.leg(r)
		w := s.Waits(o, r.role, now)
		if w != nil && l.RetryAt > now && slices.Contains([]string{WaitsRetry, WaitsOrder, WaitsComparison}, w.Code) {
			out = append(out, event.PushRequested{SyncOf: o.sync(d), Actor: by.Actor, Reason: by.Reason})
		}
	}
	return out
}

// whyNot names what keeps legs from being pushed, each cause once.
func whyNot(all []PushOutcome) string {
	var causes []string
	for _, x := range all {
		cause := x.Message
		if x.Next != "" {
			cause += fmt.Sprintf(" (next: %s)", x.Next)
		}
		if !slices.Contains(causes, cause) {
			causes = append(causes, cause)
		}
	}
	return strings.Join(causes, "; ")
}
