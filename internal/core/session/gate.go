package session

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Gate is one thing that a part waits for; one of its fields is set.
type Gate struct {
	Part  string    `json:"part,omitempty"`  // is ready
	Phase string    `json:"phase,omitempty"` // PART/PHASE is over
	At    time.Time `json:"at,omitzero"`
	Event string    `json:"event,omitempty"` // an event of this type was received for the session
}

// gates checks that gates name what there is, and that no part waits for itself.
func (s *Spec) gates(p *Problems) {
	index := map[string]int{}
	for i := range s.Parts {
		index[s.Parts[i].Name] = i
	}
	waits := make([][]int, len(s.Parts))
	for i := range s.Parts {
		for k, g := range s.Parts[i].After {
			path := fmt.Sprintf("parts[%d].after[%d]", i, k)
			if n := g.fields(); n != 1 {
				p.add(path, "%d of part, phase, at and event are set; expected one", n)
				continue
			}
			checkEvent(p, path+".event", g.Event)
			on := g.on()
			if on == "" {
				continue
			}
			j, ok := index[on]
			if !ok {
				p.add(path, "there is no part %s", on)
				continue
			}
			if _, name, phase := strings.Cut(g.Phase, "/"); g.Phase != "" && (!phase || !slices.ContainsFunc(s.Parts[j].Phases, func(ph Phase) bool { return ph.Name == name })) {
				p.add(path+".phase", "part %s has no phase %q; expected PART/PHASE", on, name)
			}
			waits[i] = append(waits[i], j)
		}
	}
	if cycle := findCycle(waits); cycle >= 0 {
		p.add(fmt.Sprintf("parts[%d].after", cycle), "part %s waits for itself", s.Parts[cycle].Name)
	}
}

func (g *Gate) fields() (n int) {
	for _, set := range []bool{g.Part != "", g.Phase != "", !g.At.IsZero(), g.Event != ""} {
		if set {
			n++
		}
	}
	return n
}

// String is what a part waits for.
func (g Gate) String() string {
	switch {
	case !g.At.IsZero():
		return g.At.Format(time.RFC3339)
	case g.Event != "":
		return "an event " + g.Event
	case g.Phase != "":
		return "phase " + g.Phase
	}
	return "part " + g.Part
}

// afterAll says what a part comes up after.
func afterAll(gates []Gate) string {
	words := make([]string, len(gates))
	for i, g := range gates {
		words[i] = g.String()
	}
	return strings.Join(words, " and ")
}

// on is the part that a gate waits for, if it waits for one.
func (g *Gate) on() string {
	part, _, _ := strings.Cut(g.Phase, "/")
	return cmp.Or(g.Part, part)
}

// findCycle finds a node that can be reached from itself, or -1.
func findCycle(edges [][]int) int {
	state := make([]int, len(edges)) // 1: on the way, 2: done
	var visit func(i int) bool
	visit = func(i int) bool {
		state[i] = 1
		for _, j := range edges[i] {
			if state[j] == 1 || state[j] == 0 && visit(j) {
				return true
			}
		}
		state[i] = 2
		return false
	}
	for i := range edges {
		if state[i] == 0 && visit(i) {
			return i
		}
	}
	return -1
}
