package hosting

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// prune takes out of the set, one at a time, what makes it invalid, until it is
// valid: what stands only against something that is out already stays.
func (a *admission) prune() {
	for {
		a.set.Normalize()
		code, problems := managed.Invalid, a.set.Check()
		if len(problems) == 0 {
			code, problems = managed.OutOfBounds, a.bounds.CheckSet(&a.set)
		}
		if len(problems) == 0 {
			return
		}
		p := problems[0]
		about := culprit(&a.set, p)
		rid := a.intruder(about)
		message := fmt.Sprintf("%s: %s", about, p.Message)
		if rid != about {
			message = fmt.Sprintf("%s gives way to %s, which operators set: %s", rid, about, p.Message)
		}
		if foreign := a.foreign(rid); foreign != "" {
			message = foreign
		}
		a.refuse(a.entries[rid], code, "%s", message)
		a.set.Remove(rid)
	}
}

// culprit is the resource of a set that a problem is about. One that is about none costs
// the last of its list, or of the longest.
func culprit(set *spec.Set, p spec.Problem) spec.ID {
	var longest *spec.Kind
	for _, k := range spec.Known.All() {
		if longest == nil || len(k.Of(set)) > len(longest.Of(set)) {
			longest = k
		}
	}
	if len(p.Path) > 0 {
		k := spec.Known.Listed(p.Path[0])
		if k != nil && len(p.Path) > 1 && set.Has(spec.ID{Kind: k.Name, Name: p.Path[1]}) {
			return spec.ID{Kind: k.Name, Name: p.Path[1]}
		}
		if k != nil && len(k.Of(set)) > 0 {
			longest = k
		}
	}
	list := longest.Of(set)
	return spec.ID{Kind: longest.Name, Name: *list[len(list)-1].Named()}
}

// foreign says when a resource names one of a bundle.
func (a *admission) foreign(rid spec.ID) string {
	for _, n := range a.set.Find(rid).Needs() {
		if a.set.Has(n.ID) {
			continue
		}
		if _, bundle := a.declared(n.ID); bundle {
			return fmt.Sprintf("%s names %s of the bundle; a managed resource can only name others of the managed layer: set one of its own, or declare %s in the bundle", rid, n.ID, rid)
		}
	}
	return ""
}
