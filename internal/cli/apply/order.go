package apply

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// Order sorts resources so that each comes behind what it needs, host by host.
func Order(list []Resource) []Resource {
	hosts := map[string][]Resource{}
	var names []string
	for _, r := range list {
		if hosts[r.Host] == nil {
			names = append(names, r.Host)
		}
		hosts[r.Host] = append(hosts[r.Host], r)
	}
	slices.Sort(names)
	out := make([]Resource, 0, len(list))
	for _, name := range names {
		out = append(out, order(hosts[name])...)
	}
	return out
}

// order sorts the resources of one host. Of a circle none comes first; the host
// says what is wrong with it.
func order(list []Resource) []Resource {
	slices.SortStableFunc(list, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(slices.Index(spec.Kinds, a.Kind), slices.Index(spec.Kinds, b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	needs := spec.Dependencies(Set(list))
	byID := map[spec.ID]*Resource{}
	for i := range list {
		byID[list[i].ID] = &list[i]
	}
	out := make([]Resource, 0, len(list))
	seen := map[spec.ID]bool{}
	var visit func(r *Resource)
	visit = func(r *Resource) {
		if r == nil || seen[r.ID] {
			return
		}
		seen[r.ID] = true
		for _, n := range needs[r.ID] {
			visit(byID[n.ID])
		}
		out = append(out, *r)
	}
	for i := range list {
		visit(&list[i])
	}
	return out
}

// Set joins resources of one host.
func Set(list []Resource) *spec.Set {
	all := new(spec.Set)
	for _, r := range list {
		s, _, err := spec.Builtin.Read(r.Kind, r.Name, r.Spec)
		if err != nil {
			continue // it was read before
		}
		all.Add(s)
	}
	all.Normalize()
	return all
}
