package validate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/container"
)

func sortedIDs(deps map[container.ID][]container.Need) []container.ID {
	return slices.SortedFunc(maps.Keys(deps), container.ID.Compare)
}

func checkReferences(c container.Checker, s *container.Set) {
	deps := container.Dependencies(s)
	for _, id := range sortedIDs(deps) {
		for _, n := range deps[id] {
			if _, ok := deps[n.ID]; !ok {
				c.Of(id).Addf("%s %q names %s %q, which is not declared: expected one of the same set", id.Kind, id.Name, n.Kind, n.Name)
			}
		}
	}
	byName := map[string]*container.Workspace{}
	for i := range s.Workspaces {
		byName[s.Workspaces[i].Name] = &s.Workspaces[i]
	}
	for i := range s.Workspaces {
		for _, d := range s.Workspaces[i].DependsOn {
			other := byName[d.Workspace]
			if other == nil {
				continue
			}
			if d.Condition == container.Completed && other.State != container.Once {
				c.In("workspaces", s.Workspaces[i].Name, "dependsOn", d.Workspace).Addf("waits for %q to end, which is not meant to: expected state once of it", d.Workspace)
			}
			if d.Required && other.State == container.Stopped {
				c.In("workspaces", s.Workspaces[i].Name, "dependsOn", d.Workspace).Addf("waits for %q, which is declared stopped: expected it to run", d.Workspace)
			}
		}
	}
}

// checkCycles refuses what would wait for itself. It walks without recursion:
// a set may be a long chain.
func checkCycles(c container.Checker, s *container.Set) {
	deps := container.Dependencies(s)
	const (
		open = 1
		done = 2
	)
	state := map[container.ID]int{}
	for _, root := range sortedIDs(deps) {
		path := []container.ID{}
		stack := []container.ID{root}
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
					c.Of(id).Addf("waits for itself: %s", cycle(path, n.ID))
				}
			}
		}
	}
}

func cycle(path []container.ID, back container.ID) string {
	words := ""
	for _, id := range path[slices.Index(path, back):] {
		words += id.String() + " needs "
	}
	return words + back.String()
}

// checkTitles refuses two things of a kind under one name on the engine.
func checkTitles(c container.Checker, s *container.Set) {
	plain := func(t string) string { return t }
	seen := map[string]string{}
	check := func(kind, name, title string) {
		key := kind + "\x00" + title
		if first, dup := seen[key]; dup && first != name {
			c.Of(container.ID{Kind: kind, Name: name}).Addf("%q and %q are both named %q on the engine: expected different titles", first, name, title)
		}
		seen[key] = name
	}
	for i := range s.Networks {
		if n := &s.Networks[i]; n.External == "" {
			check(container.KindNetwork, n.Name, n.EngineName(plain))
		}
	}
	for i := range s.Volumes {
		if v := &s.Volumes[i]; v.External == "" {
			check(container.KindVolume, v.Name, v.EngineName(plain))
		}
	}
	for i := range s.Workspaces {
		check(container.KindWorkspace, s.Workspaces[i].Name, s.Workspaces[i].EngineName(plain))
	}
	refs := map[string]string{}
	for i := range s.Images {
		im := &s.Images[i]
		if im.Pull != nil {
			continue // two pulls may ask for one image, under two policies
		}
		ref := im.EngineRef(plain)
		if first, dup := refs[ref]; dup {
			c.Of(container.ID{Kind: container.KindImage, Name: im.Name}).Addf("images %q and %q are both named %q on the engine: expected different references", first, im.Name, ref)
		}
		refs[ref] = im.Name
	}
}

func checkRoutes(c container.Checker, s *container.Set) {
	type place struct{ host, path string }
	seen := map[place]string{}
	for i := range s.Routes {
		r := s.Routes[i]
		r.Normalize()
		p := place{r.Host, r.Path}
		if first, dup := seen[p]; dup {
			c.In("routes", r.Name).Addf("routes %q and %q both take host %q and path %q: expected each once", first, r.Name, r.Host, cmp.Or(r.Path, "/"))
		}
		seen[p] = r.Name
	}
}

// checkHostPorts refuses a port of the host that two containers, or one twice,
// would listen on.
func checkHostPorts(c container.Checker, s *container.Set) {
	type listener struct{ ip, workspace string }
	type port struct {
		number   int
		protocol string
	}
	taken := map[port][]listener{}
	for i := range s.Workspaces {
		w := &s.Workspaces[i]
		for j, p := range w.Ports {
			if !p.Fixed() {
				continue
			}
			key := port{p.HostPort, cmp.Or(strings.ToLower(p.Protocol), "tcp")}
			for _, l := range taken[key] {
				if overlap(l.ip, p.HostIP) {
					c.In("workspaces", w.Name).Item("ports", j).Addf("port %d/%s of the host is published by %q and %q: expected it once", p.HostPort, key.protocol, l.workspace, w.Name)
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
