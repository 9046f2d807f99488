package fleetdir

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// RenameHost gives a host of a fleet file another name wherever the file names it, and has
// what runs under the old one kept. All else in the file stays as it was written. Lines are
// those that changed.
func RenameHost(file string, data []byte, from, to string) (out []byte, lines []int, err error) {
	top, problem := strictyaml.Mapping(file, data)
	if problem != nil {
		return nil, nil, fmt.Errorf("%s", problem)
	}
	if err := fleet.CheckName(to); err != nil {
		return nil, nil, fmt.Errorf("the new name %w", err)
	}
	hosts := valueOf(top, "hosts")
	switch {
	case keyOf(hosts, from) == nil:
		return nil, nil, fmt.Errorf("%s declares no host %q", file, from)
	case keyOf(hosts, to) != nil:
		return nil, nil, fmt.Errorf("%s declares host %q already", file, to)
	case keyOf(valueOf(top, "removed"), from) != nil:
		return nil, nil, fmt.Errorf("%s has host %q under removed: already", file, from)
	case keyOf(top, "removed") != nil && valueOf(top, "removed").Kind != yaml.MappingNode:
		return nil, nil, fmt.Errorf("%s has nothing under removed: take the key out", file)
	}
	named := []*yaml.Node{keyOf(hosts, from)}
	for i := 0; i+1 < len(top.Content); i += 2 {
		switch top.Content[i].Value {
		case "edges":
			for _, e := range top.Content[i+1].Content {
				named = append(named, equal(valueOf(e, "gated"), from)...)
				named = append(named, equal(valueOf(e, "gates"), from)...)
			}
		case "rolloutPolicies", "disruptionBudgets", "maintenanceWindows", "compliance":
			named = append(named, selected(top.Content[i+1], from)...)
		}
	}
	if out, err = replaced(data, named, from, to); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, n := range named {
		lines = append(lines, n.Line)
	}
	slices.Sort(lines)
	return keepBehind(out, top, from), slices.Compact(lines), nil
}

func keyOf(m *yaml.Node, name string) *yaml.Node {
	for i := 0; m != nil && m.Kind == yaml.MappingNode && i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i]
		}
	}
	return nil
}

func valueOf(m *yaml.Node, name string) *yaml.Node {
	for i := 0; m != nil && m.Kind == yaml.MappingNode && i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == name {
			return m.Content[i+1]
		}
	}
	return nil
}

func equal(n *yaml.Node, name string) []*yaml.Node {
	if n != nil && n.Kind == yaml.ScalarNode && n.Value == name {
		return []*yaml.Node{n}
	}
	return nil
}

// selected finds a name in the lists of hosts that selectors have.
func selected(n *yaml.Node, name string) (found []*yaml.Node) {
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "hosts" {
			for _, h := range c.Content {
				found = append(found, equal(h, name)...)
			}
			continue
		}
		found = append(found, selected(c, name)...)
	}
	return found
}

// replaced writes another name in the place of each node; the last one first, so that the
// places of the others hold.
func replaced(data []byte, named []*yaml.Node, from, to string) ([]byte, error) {
	slices.SortFunc(named, func(a, b *yaml.Node) int { return cmp.Or(b.Line-a.Line, b.Column-a.Column) })
	lines := bytes.SplitAfter(data, []byte("\n"))
	for _, n := range named {
		line := lines[n.Line-1]
		at := 0
		for range n.Column - 1 {
			_, size := utf8.DecodeRune(line[at:])
			at += size
		}
		rest := strings.TrimLeft(string(line[at:]), `"'`)
		if !strings.HasPrefix(rest, from) {
			return nil, fmt.Errorf("line %d, column %d does not have the plain name %s: rename it by hand", n.Line, n.Column, from)
		}
		at = len(line) - len(rest)
		lines[n.Line-1] = slices.Concat(line[:at], []byte(to), line[at+len(from):])
	}
	return slices.Concat(lines...), nil
}

// keepBehind says under removed: that what the old name ran is kept: the new one goes on
// with it.
func keepBehind(data []byte, top *yaml.Node, from string) []byte {
	entry := from + ": {workloads: keep}"
	key, value := keyOf(top, "removed"), valueOf(top, "removed")
	if key == nil {
		if len(data) > 0 && data[len(data)-1] != '\n' {
			data = append(data, '\n')
		}
		return append(data, "removed:\n  "+entry+"\n"...)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	if value.Style&yaml.FlowStyle != 0 {
		i := value.Line - 1
		lines[i] = []byte(strings.Replace(string(lines[i]), "{", "{"+entry+", ", 1))
		return slices.Concat(lines...)
	}
	indent := strings.Repeat(" ", value.Column-1)
	return slices.Concat(slices.Insert(lines, value.Line-1, []byte(indent+entry+"\n"))...)
}
