package managed

import (
	"strings"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// bounds refuses what the host's declaration does not let the managed layer have:
// the host would refuse it as well.
func (t *Target) bounds(in Input, set *spec.Set) error {
	b := t.Delegation.Bounds
	b.Kinds = t.Delegation.Kinds
	one := *set
	if problems := b.CheckSet(&one); len(problems) > 0 {
		for i, p := range problems { // they are of a set with this one resource
			problems[i].Path = p.Path[min(len(p.Path), 2):]
		}
		return t.outside(in, spec.Problems(problems))
	}
	if b.RequireSigned && len(in.Envelope) == 0 {
		return refuse(OutOfBounds, "host %s accepts only entries that an operator has signed (requireSigned); sign %s with the override key: steady apply -f FILE --sign KEYS", t.Host, ID(in.Kind, in.Name))
	}
	return nil
}

func (t *Target) outside(in Input, why error) error {
	return refuse(OutOfBounds, "%s is outside of what host %s allows: %v; change it, or hosts.%s.bounds in fleet.yaml, and roll out the release",
		ID(in.Kind, in.Name), t.Host, why, t.Host)
}

// room refuses one workspace more than the host's declaration allows.
func (t *Target) room(h *Host, in Input) error {
	most := t.Delegation.Bounds.MaxWorkspaces
	if most == 0 || in.Kind != spec.KindWorkspace {
		return nil
	}
	n := 1
	for id := range h.Entries { // order-free: it only counts
		if strings.HasPrefix(id, spec.KindWorkspace+"/") && id != ID(in.Kind, in.Name) {
			n++
		}
	}
	if n > most {
		return refuse(OutOfBounds, "host %s would have %d workspaces in its managed layer: hosts.%s.bounds.maxWorkspaces in fleet.yaml allows %d", t.Host, n, t.Host, most)
	}
	return nil
}
