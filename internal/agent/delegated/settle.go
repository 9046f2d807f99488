package delegated

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/validate"
)

// settle takes out of the set, one at a time, what makes it invalid, until it is
// valid: what stands only against something that is out already stays.
func (a *admission) settle() {
	for {
		a.set.Normalize()
		code, problems := managed.Invalid, validate.Set(&a.set)
		if len(problems) == 0 {
			code, problems = managed.OutOfBounds, a.bounds.CheckSet(&a.set)
		}
		if len(problems) == 0 {
			return
		}
		p := problems[0]
		rid := a.culprit(p)
		words := fmt.Sprintf("%s: %s", rid, p.Words)
		if foreign := a.foreign(rid); foreign != "" {
			words = foreign
		}
		a.refuse(a.entries[rid], code, "%s", words)
		remove(&a.set, rid)
	}
}

var kindOf = map[string]string{
	"networks": container.KindNetwork, "volumes": container.KindVolume, "images": container.KindImage,
	"workspaces": container.KindWorkspace, "snapshots": container.KindSnapshot, "routes": container.KindRoute,
}

// culprit is the resource that a problem is about. One that is about none costs
// the last of its list, or of the longest.
func (a *admission) culprit(p container.Problem) container.ID {
	names := members(&a.set)
	if len(p.Path) > 0 {
		kind := kindOf[p.Path[0]]
		if len(p.Path) > 1 && slices.Contains(names[kind], p.Path[1]) {
			return container.ID{Kind: kind, Name: p.Path[1]}
		}
		if list := names[kind]; len(list) > 0 {
			return container.ID{Kind: kind, Name: list[len(list)-1]}
		}
	}
	longest := container.Kinds[0]
	for _, k := range container.Kinds {
		if len(names[k]) > len(names[longest]) {
			longest = k
		}
	}
	list := names[longest]
	return container.ID{Kind: longest, Name: list[len(list)-1]}
}

// foreign says when a resource names one of a bundle.
func (a *admission) foreign(rid container.ID) string {
	for _, n := range container.Dependencies(&a.set)[rid] {
		if a.set.Has(n.ID) {
			continue
		}
		if _, bundle := a.declared(n.ID); bundle {
			return fmt.Sprintf("%s names %s of the bundle; a managed resource can only name others of the managed layer: set one of its own, or declare %s in the bundle", rid, n.ID, rid)
		}
	}
	return ""
}

// members lists the names of a set by kind, in its order.
func members(s *container.Set) map[string][]string {
	return map[string][]string{
		container.KindNetwork:   names(s.Networks, func(v *container.Network) string { return v.Name }),
		container.KindVolume:    names(s.Volumes, func(v *container.Volume) string { return v.Name }),
		container.KindImage:     names(s.Images, func(v *container.Image) string { return v.Name }),
		container.KindWorkspace: names(s.Workspaces, func(v *container.Workspace) string { return v.Name }),
		container.KindSnapshot:  names(s.Snapshots, func(v *container.Snapshot) string { return v.Name }),
		container.KindRoute:     names(s.Routes, func(v *container.Route) string { return v.Name }),
	}
}

func names[T any](list []T, name func(*T) string) []string {
	out := make([]string, 0, len(list))
	for i := range list {
		out = append(out, name(&list[i]))
	}
	return out
}

func remove(s *container.Set, rid container.ID) {
	switch rid.Kind {
	case container.KindNetwork:
		s.Networks = slices.DeleteFunc(s.Networks, func(v container.Network) bool { return v.Name == rid.Name })
	case container.KindVolume:
		s.Volumes = slices.DeleteFunc(s.Volumes, func(v container.Volume) bool { return v.Name == rid.Name })
	case container.KindImage:
		s.Images = slices.DeleteFunc(s.Images, func(v container.Image) bool { return v.Name == rid.Name })
	case container.KindWorkspace:
		s.Workspaces = slices.DeleteFunc(s.Workspaces, func(v container.Workspace) bool { return v.Name == rid.Name })
	case container.KindSnapshot:
		s.Snapshots = slices.DeleteFunc(s.Snapshots, func(v container.Snapshot) bool { return v.Name == rid.Name })
	case container.KindRoute:
		s.Routes = slices.DeleteFunc(s.Routes, func(v container.Route) bool { return v.Name == rid.Name })
	}
}
