package compose

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/strictyaml"
)

type source struct {
	name string // in the root
	dir  string // that its relative paths start from
	data []byte
	top  *yaml.Node
	env  map[string]string
	// extends lists files that services of this one extend, by the text in it.
	extends map[string]string
}

// inside resolves a path of a file that lies in dir. It refuses what leaves the
// root.
func inside(dir, p string) (string, error) {
	if p == "" || strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~") || strings.ContainsAny(p, "\\\x00") {
		return "", fmt.Errorf("%q is not a relative path", p)
	}
	full := path.Join(dir, p)
	if full == ".." || strings.HasPrefix(full, "../") || strings.Count(p, "..") > maxParents {
		return "", fmt.Errorf("%q leaves the bundle folder", p)
	}
	return full, nil
}

// parse reads one file into nodes within the bounds.
func (l *load) parse(name string, data []byte) *yaml.Node {
	top, problem := strictyaml.Mapping(name, bytes.TrimPrefix(data, []byte("\ufeff")))
	if problem != nil {
		l.problems = append(l.problems, *problem)
		return nil
	}
	w := &bounds{l: l, file: name, sizes: map[*yaml.Node]int{}, open: map[*yaml.Node]bool{}}
	if n := w.size(top, 1); n > MaxNodes && !w.failed {
		w.fail(top, "the file has more than %d values, aliases expanded: expected at most that", MaxNodes)
	}
	if w.failed {
		return nil
	}
	return top
}

// bounds counts what a document expands to, without expanding it.
type bounds struct {
	l      *load
	file   string
	sizes  map[*yaml.Node]int
	open   map[*yaml.Node]bool
	failed bool
}

func (b *bounds) fail(n *yaml.Node, format string, args ...any) int {
	b.failed = true
	b.l.note(b.file, n.Line, n.Column, format, args...)
	return 0
}

func (b *bounds) size(n *yaml.Node, depth int) int {
	if b.failed {
		return 0
	}
	if depth > MaxDepth {
		return b.fail(n, "the file is nested deeper than %d levels: expected at most that", MaxDepth)
	}
	if n.Kind == yaml.AliasNode {
		if b.open[n.Alias] {
			return b.fail(n, "alias *%s stands inside its own anchor: expected another value", n.Value)
		}
		n = n.Alias
	}
	if s, ok := b.sizes[n]; ok {
		return s
	}
	b.open[n] = true
	defer delete(b.open, n)
	total := 1
	keys := map[string]*yaml.Node{}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			if c.Kind != yaml.ScalarNode {
				return b.fail(c, "the key is no text: expected text")
			}
			if first, dup := keys[c.Value]; dup {
				return b.fail(c, "key %q is set twice: expected once; it is first set at line %d", c.Value, first.Line)
			}
			keys[c.Value] = c
		}
		total = min(total+b.size(c, depth+1), MaxNodes+1)
	}
	b.sizes[n] = total
	return total
}

func follow(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// entries lists the keys and values of a mapping, with what it merges in where
// it has no key of its own.
func entries(n *yaml.Node) [][2]*yaml.Node {
	n = follow(n)
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var out [][2]*yaml.Node
	seen := map[string]bool{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Value == "<<" && k.ShortTag() == "!!merge" {
			if m := follow(v); m != nil && m.Kind == yaml.SequenceNode {
				merged = append(merged, m.Content...)
			} else {
				merged = append(merged, v)
			}
			continue
		}
		seen[k.Value] = true
		out = append(out, [2]*yaml.Node{k, v})
	}
	for _, m := range merged {
		for _, e := range entries(m) {
			if !seen[e[0].Value] {
				seen[e[0].Value] = true
				out = append(out, e)
			}
		}
	}
	return out
}

func child(n *yaml.Node, key string) (k, v *yaml.Node) {
	n = follow(n)
	if n == nil {
		return nil, nil
	}
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Content) {
			return nil, n.Content[i]
		}
		return nil, nil
	}
	for _, e := range entries(n) {
		if e[0].Value == key {
			return e[0], e[1]
		}
	}
	return nil, nil
}

// walk calls fn for every value below n, aliases and merges followed.
func walk(n *yaml.Node, at []string, fn func(at []string, key, value *yaml.Node)) {
	n = follow(n)
	if n == nil {
		return
	}
	for _, e := range entries(n) {
		next := append(at[:len(at):len(at)], e[0].Value)
		fn(next, e[0], e[1])
		walk(e[1], next, fn)
	}
	if n.Kind == yaml.SequenceNode {
		for i, c := range n.Content {
			next := append(at[:len(at):len(at)], strconv.Itoa(i))
			fn(next, nil, c)
			walk(c, next, fn)
		}
	}
}
