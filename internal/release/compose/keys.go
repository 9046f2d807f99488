package compose

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/compose-spec/compose-go/v2/schema"
	"go.yaml.in/yaml/v4"
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
			if near := nearest(key, known); near != "" {
				words = fmt.Sprintf("expected %s, or x-%s for a note of your own", near, key)
			}
			l.at(s, e[0], false, "unknown key %q: %s", key, words)
		}
	}
}

// nearest finds the key that is at most two changes away.
func nearest(key string, known []string) string {
	best, word := 3, ""
	for _, k := range known {
		if d := distance(key, k); d < best {
			best, word = d, k
		}
	}
	return word
}

func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 99
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
