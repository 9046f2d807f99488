package container

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Dependencies gives for every resource of the set what it needs first.
func Dependencies(s *Set) map[ID][]Need {
	out := map[ID][]Need{}
	if s == nil {
		return out
	}
	for i := range s.Networks {
		out[ID{KindNetwork, s.Networks[i].Name}] = nil
	}
	for i := range s.Volumes {
		out[ID{KindVolume, s.Volumes[i].Name}] = nil
	}
	for i := range s.Images {
		out[ID{KindImage, s.Images[i].Name}] = nil
	}
	for i := range s.Workspaces {
		out[ID{KindWorkspace, s.Workspaces[i].Name}] = s.Workspaces[i].Needs()
	}
	for i := range s.Snapshots {
		out[ID{KindSnapshot, s.Snapshots[i].Name}] = s.Snapshots[i].Needs()
	}
	for i := range s.Routes {
		out[ID{KindRoute, s.Routes[i].Name}] = s.Routes[i].Needs()
	}
	return out
}

var listOf = map[string]string{
	KindNetwork: "networks", KindVolume: "volumes", KindImage: "images",
	KindWorkspace: "workspaces", KindSnapshot: "snapshots", KindRoute: "routes",
}

func (c checker) of(id ID) checker { return c.in(listOf[id.Kind], id.Name) }

func sortedIDs(deps map[ID][]Need) []ID { return slices.SortedFunc(maps.Keys(deps), ID.compare) }

func (s *Set) checkReferences(c checker) {
	deps := Dependencies(s)
	for _, id := range sortedIDs(deps) {
		for _, n := range deps[id] {
			if _, ok := deps[n.ID]; !ok {
				c.of(id).addf("%s %q names %s %q, which is not declared: expected one of the same set", id.Kind, id.Name, n.Kind, n.Name)
			}
		}
	}
	byName := map[string]*Workspace{}
	for i := range s.Workspaces {
		byName[s.Workspaces[i].Name] = &s.Workspaces[i]
	}
	for i := range s.Workspaces {
		for _, d := range s.Workspaces[i].DependsOn {
			other := byName[d.Workspace]
			if other == nil {
				continue
			}
			if d.Condition == Completed && other.State != Once {
				c.in("workspaces", s.Workspaces[i].Name, "dependsOn", d.Workspace).addf("waits for %q to end, which is not meant to: expected state once of it", d.Workspace)
			}
			if d.Required && other.State == Stopped {
				c.in("workspaces", s.Workspaces[i].Name, "dependsOn", d.Workspace).addf("waits for %q, which is declared stopped: expected it to run", d.Workspace)
			}
		}
	}
}

// checkCycles refuses what would wait for itself. It walks without recursion:
// a set may be a long chain.
func (s *Set) checkCycles(c checker) {
	deps := Dependencies(s)
	const (
		open = 1
		done = 2
	)
	state := map[ID]int{}
	for _, root := range sortedIDs(deps) {
		path := []ID{}
		stack := []ID{root}
		for len(stack) > 0 {
			id := stack[len(stack)-1]
			switch state[id] {
			case done:
				stack = stack[:len(stack)-1]
				continue
			case open:
				state[id], path, stack = done, path[:len(path)-1], stack[:len(stack)-1]
				continue
			}
			state[id] = open
			path = append(path, id)
			for _, n := range deps[id] {
				switch state[n.ID] {
				case 0:
					stack = append(stack, n.ID)
				case open:
					c.of(id).addf("waits for itself: %s", cycle(path, n.ID))
				}
			}
		}
	}
}

func cycle(path []ID, back ID) string {
	words := ""
	for _, id := range path[slices.Index(path, back):] {
		words += id.String() + " needs "
	}
	return words + back.String()
}

// checkTitles refuses two things of a kind under one name on the engine.
func (s *Set) checkTitles(c checker) {
	plain := func(t string) string { return t }
	seen := map[string]string{}
	check := func(kind, name, title string) {
		key := kind + "\x00" + title
		if first, dup := seen[key]; dup && first != name {
			c.of(ID{kind, name}).addf("%q and %q are both named %q on the engine: expected different titles", first, name, title)
		}
		seen[key] = name
	}
	for i := range s.Networks {
		if n := &s.Networks[i]; n.External == "" {
			check(KindNetwork, n.Name, n.EngineName(plain))
		}
	}
	for i := range s.Volumes {
		if v := &s.Volumes[i]; v.External == "" {
			check(KindVolume, v.Name, v.EngineName(plain))
		}
	}
	for i := range s.Workspaces {
		check(KindWorkspace, s.Workspaces[i].Name, s.Workspaces[i].EngineName(plain))
	}
	refs := map[string]string{}
	for i := range s.Images {
		im := &s.Images[i]
		if im.Pull != nil {
			continue // two pulls may ask for one image, under two policies
		}
		ref := im.EngineRef(plain)
		if first, dup := refs[ref]; dup {
			c.of(ID{KindImage, im.Name}).addf("images %q and %q are both named %q on the engine: expected different references", first, im.Name, ref)
		}
		refs[ref] = im.Name
	}
}

func (s *Set) checkRoutes(c checker) {
	type place struct{ host, path string }
	seen := map[place]string{}
	for i := range s.Routes {
		r := s.Routes[i]
		r.Normalize()
		p := place{r.Host, r.Path}
		if first, dup := seen[p]; dup {
			c.in("routes", r.Name).addf("routes %q and %q both take host %q and path %q: expected each once", first, r.Name, r.Host, cmp.Or(r.Path, "/"))
		}
		seen[p] = r.Name
	}
}

// checkHostPorts refuses a port of the host that two containers, or one twice,
// would listen on.
func (s *Set) checkHostPorts(c checker) {
	type listener struct{ ip, workspace string }
	type port struct {
		number   int
		protocol string
	}
	taken := map[port][]listener{}
	for i := range s.Workspaces {
		w := &s.Workspaces[i]
		for j, p := range w.Ports {
			if p.HostPort == 0 {
				continue
			}
			key := port{p.HostPort, cmp.Or(strings.ToLower(p.Protocol), "tcp")}
			for _, l := range taken[key] {
				if overlap(l.ip, p.HostIP) {
					c.in("workspaces", w.Name).item("ports", j).addf("port %d/%s of the host is published by %q and %q: expected it once", p.HostPort, key.protocol, l.workspace, w.Name)
					break
				}
			}
			taken[key] = append(taken[key], listener{p.HostIP, w.Name})
		}
	}
}

// overlap reports whether two addresses of the host can take the same packet.
func overlap(a, b string) bool {
	any4 := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	any6 := func(ip string) bool { return ip == "" || ip == "::" }
	six := func(ip string) bool { return strings.Contains(ip, ":") }
	switch {
	case a == b:
		return true
	case six(a) || six(b):
		return six(a) && any6(b) || six(b) && any6(a)
	}
	return any4(a) || any4(b)
}
