package compose

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/compose-spec/compose-go/v2/schema"
	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/prose"
)

// inventory is what the specification has, by the path above it. It takes
// milliseconds, which most commands need not pay at their start.
var inventory = sync.OnceValue(func() map[string][]string {
	out := map[string][]string{}
	for _, p := range schema.AttributePaths() {
		parts := p.Parts()
		above := strings.Join(parts[:len(parts)-1], ".")
		out[above] = append(out[above], parts[len(parts)-1])
	}
	for _, keys := range out {
		slices.Sort(keys)
	}
	return out
})

// checkKeys reports every key that the specification does not have, in each file
// by itself, so that it has a place. All else the library checks after merging.
func (l *load) checkKeys() {
	for _, s := range l.order {
		l.keysBelow(s, s.top, "", map[*yaml.Node]bool{})
	}
}

func (l *load) keysBelow(s *source, n *yaml.Node, at string, seen map[*yaml.Node]bool) {
	n = follow(n)
	known := inventory()[at]
	if at != "" {
		at += "."
	}
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			l.keysBelow(s, c, at+"[]", seen)
		}
		return
	}
	for _, e := range entries(n) {
		key := e[0].Value
		switch {
		case slices.Contains(known, "*") && !slices.Contains(known, key):
			l.keysBelow(s, e[1], at+"*", seen)
		case slices.Contains(known, key):
			l.keysBelow(s, e[1], at+key, seen)
		case len(known) == 0 || strings.HasPrefix(key, "x-") || seen[e[0]]:
		default:
			seen[e[0]] = true
			words := "expected one of " + strings.Join(known, ", ")
			if near := prose.Nearest(key, known); len(near) > 0 {
				words = fmt.Sprintf("expected %s, or x-%s for a note of your own", prose.Either(near), key)
			}
			l.at(s, e[0], false, "unknown key %q: %s", key, words)
		}
	}
}
