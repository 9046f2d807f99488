package drift

import (
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// KindRow is a kind of objects, and how many there are.
type KindRow struct {
	nodeconfig.Kind
	// Command is what follows steady in commands on its objects.
	Command string `json:"command"`
	Nodes   int    `json:"nodes"`   // whose driver has such objects
	Objects int    `json:"objects"` // that the server knows
}

// KindRows lists the kinds that every fleet has, and then those that drivers have words of their
// own for, by name.
func (s *State) KindRows() []KindRow {
	counts := map[string]*KindRow{}
	of := func(kind string) *KindRow {
		r := counts[kind]
		if r == nil {
			r = &KindRow{Kind: *nodeconfig.KindOf(kind), Command: nodeconfig.Command(kind)}
			counts[kind] = r
		}
		return r
	}
	out := make([]KindRow, 0, len(nodeconfig.Kinds))
	for _, k := range nodeconfig.KindNames() {
		of(k)
	}
	for _, n := range s.Nodes { // order-free: it counts
		for _, c := range n.Collections {
			if n.RetiredAt == 0 {
				of(c.Kind).Nodes++
			}
		}
	}
	for _, o := range s.Objects { // order-free: it counts
		if !o.Anonymous {
			of(o.Kind).Objects++
		}
	}
	for _, k := range nodeconfig.KindNames() {
		out = append(out, *counts[k])
		delete(counts, k)
	}
	every := len(out)
	for _, r := range counts { // order-free: sorted below
		out = append(out, *r)
	}
	slices.SortFunc(out[every:], func(a, b KindRow) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// CheckKind refuses a kind of which no node has objects; "" is all of them.
func (s *State) CheckKind(kind string) error {
	var names []string
	for _, r := range s.KindRows() {
		names = append(names, r.Name)
	}
	if kind == "" || slices.Contains(names, kind) {
		return nil
	}
	return refuse(CodeUnknown, "no node has objects of kind %q: expected one of %s", kind, strings.Join(names, ", "))
}
