package spec

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Check checks the whole set: names, references, conflicts and the fields of
// every resource. It is total: any value gives problems or none. The set need
// not be normalized.
func (s *Set) Check() []Problem {
	var out []Problem
	if s == nil {
		return out
	}
	c := Checker{out: &out}
	for _, kind := range slices.Sorted(maps.Keys(s.Others)) {
		if Known.Kind(kind) == nil {
			c.In("others", kind).Addf("unknown kind %q: expected one of %q, or a newer version of steady", kind, Known.Names())
		}
	}
	for _, k := range Known.All() {
		if err := k.Storage.malformed(s, k.Name); err != nil {
			c.In(k.List).Addf("%v", err)
			continue
		}
		checkList(c.In(k.List), k, k.Of(s))
	}
	if len(out) > 0 {
		return out // what follows builds on names and sizes
	}
	deps := Dependencies(s)
	checkReferences(c, s, deps)
	checkCycles(c, deps)
	checkUnique(c, s)
	checkRoutes(c, s)
	checkHostPorts(c, s)
	return out
}

func checkList(c Checker, k *Kind, list []Resource) {
	if len(list) > k.Most {
		c.Addf("%d %s: expected at most %d", len(list), k.List, k.Most)
		return
	}
	seen := map[string]bool{}
	for _, r := range list {
		n := *r.Named()
		ci := c.In(n)
		checkName(ci.In("name"), n)
		if seen[n] {
			ci.Addf("%q is declared twice: expected each name once", n)
		}
		seen[n] = true
		r.Check(ci)
	}
}

func sortedIDs(deps map[ID][]Need) []ID {
	return slices.SortedFunc(maps.Keys(deps), ID.Compare)
}

func checkReferences(c Checker, s *Set, deps map[ID][]Need) {
	for _, id := range sortedIDs(deps) {
		for _, n := range deps[id] {
			if _, ok := deps[n.ID]; !ok {
				c.Of(id).Addf("%s %q names %s %q, which is not declared: expected one of the same set", id.Kind, id.Name, n.Kind, n.Name)
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
				c.In("workspaces", s.Workspaces[i].Name, "dependsOn", d.Workspace).Addf("waits for %q to end, which is not meant to: expected state once of it", d.Workspace)
			}
			if d.Required && other.State == Stopped {
				c.In("workspaces", s.Workspaces[i].Name, "dependsOn", d.Workspace).Addf("waits for %q, which is declared stopped: expected it to run", d.Workspace)
			}
		}
	}
}

// checkCycles refuses what would wait for itself. It walks without recursion:
// a set may be a long chain.
func checkCycles(c Checker, deps map[ID][]Need) {
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
					c.Of(id).Addf("waits for itself: %s", cycle(path, n.ID))
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

// checkUnique refuses two things of a kind under one name on the engine.
func checkUnique(c Checker, s *Set) {
	seen := map[ID]string{}
	for id, r := range s.All() {
		title := ID{id.Kind, r.Unique()}
		if title.Name == "" {
			continue
		}
		if first, twice := seen[title]; twice && first != id.Name {
			c.Of(id).Addf("%s %q and %q are both named %q on the engine: expected different names", id.Kind, first, id.Name, title.Name)
		}
		seen[title] = id.Name
	}
}

func checkRoutes(c Checker, s *Set) {
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
func checkHostPorts(c Checker, s *Set) {
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
