package document

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/managed"
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
		return cmp.Or(cmp.Compare(slices.Index(container.Kinds, a.Kind), slices.Index(container.Kinds, b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	needs := container.Dependencies(Set(list))
	byID := map[container.ID]*Resource{}
	for i := range list {
		byID[list[i].ID] = &list[i]
	}
	out := make([]Resource, 0, len(list))
	seen := map[container.ID]bool{}
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
func Set(list []Resource) *container.Set {
	all := new(container.Set)
	for _, r := range list {
		s, _, err := managed.ReadSpec(r.Kind, r.Name, r.Spec)
		if err != nil {
			continue // it was read before
		}
		all.Add(s)
	}
	all.Normalize()
	return all
}
