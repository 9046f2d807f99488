package hosting

import (
	"slices"
	"sort"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// intruder is whom a problem with an operator's resource costs its place: another owner's
// without which the operator's stands, else the resource itself. What others set never costs
// operators theirs.
func (a *admission) intruder(rid spec.ID) spec.ID {
	if a.entries[rid].Owner != spec.Operators {
		return rid
	}
	others := slices.DeleteFunc(a.set.IDs(), func(id spec.ID) bool { return a.entries[id].Owner == spec.Operators })
	if len(others) == 0 {
		return rid
	}
	n := sort.Search(len(others)+1, func(n int) bool { return a.stands(rid, others[:min(n, len(others))]) })
	if n == 0 || n > len(others) {
		return rid
	}
	return others[n-1]
}

// stands reports whether nothing is wrong with a resource in the set without some of it.
func (a *admission) stands(rid spec.ID, gone []spec.ID) bool {
	rest := a.set.Without(gone)
	problems := rest.Check()
	if len(problems) == 0 {
		problems = a.bounds.CheckSet(rest)
	}
	return !slices.ContainsFunc(problems, func(p spec.Problem) bool { return culprit(rest, p) == rid })
}
