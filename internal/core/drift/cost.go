package drift

import (
	"bytes"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// digest is of all that an object's form under the rules of its node depends on.
func (x *Actual) digest() digest.Digest {
	return digest.Of([]byte(x.Kind + "\n" + string(x.Config)))
}

// Cost is what it takes to decide about an input, in bytes of objects that are to be read and compared. An object that is
// as it was read before, and is wanted so, costs nothing; the answer to a push, what it has beyond the push, which an operator
// asked for.
func (s *State) Cost(in Input) (cost int64) {
	n := s.Nodes[About(in)]
	if n == nil {
		return 0
	}
	switch in := in.(type) {
	case Snapshot:
		for i := range in.Objects {
			if x := &in.Objects[i]; !s.clean[n.Name][x.digest()] || s.compares(n, x) {
				cost += s.RulesOf(n.Name, x.Kind, x.ID).Weight(len(x.Config))
			}
		}
	case Answer:
		f := n.Flight
		if f == nil || f.Op != in.Op || in.Object == nil {
			return 0
		}
		size := len(in.Object.Config) + len(in.Want)
		if in.Outcome == Applied || in.Outcome == Already {
			size -= len(f.Config)
		}
		cost = s.RulesOf(n.Name, f.Kind, f.ID).Weight(max(0, size))
	}
	return cost
}

// compares reports whether an object is compared field by field.
func (s *State) compares(n *Node, x *Actual) bool {
	o, _, l := s.leg(s.legs[n.Name][place{x.Kind, x.ID}])
	return o != nil && (l.Acked == nil || l.Acked.Version != o.Version || !bytes.Equal(l.Acked.Observed, x.Config))
}
