package hosting

import (
	"fmt"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// claim is what a resource takes for itself on the host. A shared one does not
// mind others that share it.
type claim struct {
	by     spec.ID
	shared bool
}

// clashes says why a set of one resource would take something that is a
// bundle's: a name on the engine, the name of an image, a port of the host, the
// host name of routes.
func (a *admission) clashes(s *spec.Set) []string {
	var out []string
	ours := a.claims(s)
	for _, what := range slices.Sorted(maps.Keys(ours)) {
		if his, ok := a.taken[what]; ok && !(his.shared && ours[what].shared) {
			out = append(out, fmt.Sprintf("%s is of %s of the bundle", what, his.by))
		}
	}
	return out
}

// claims lists what the resources of a set take, in words.
func (a *admission) claims(s *spec.Set) map[string]claim {
	out := map[string]claim{}
	for id, r := range s.All() {
		for _, c := range r.Claims(a.title) {
			if other, twice := out[c.What]; !twice || other.shared {
				out[c.What] = claim{id, c.Shared}
			}
		}
	}
	return out
}
