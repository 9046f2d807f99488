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

// RenameHost gives a host of a fleet file another name wherever the file names it, and says
// there what it was called. All else in the file stays as it was written. Lines are
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
	case valueOf(hosts, from).Kind != yaml.MappingNode || len(valueOf(hosts, from).Content) == 0:
		return nil, nil, fmt.Errorf("%s declares nothing of host %q: expected its channel", file, from)
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
	// The places of before hold but in lines that were changed, so they are read again.
	if top, problem = strictyaml.Mapping(file, out); problem != nil {
		return nil, nil, fmt.Errorf("%s", problem)
	}
	return namedBefore(out, valueOf(valueOf(top, "hosts"), to), from), slices.Compact(lines), nil
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

// namedBefore says in a host's own lines what it was called; an earlier name gives way.
func namedBefore(data []byte, host *yaml.Node, from string) []byte {
	lines := bytes.SplitAfter(data, []byte("\n"))
	i := host.Line - 1
	switch was := valueOf(host, "renamedFrom"); {
	case was != nil:
		j := was.Line - 1
		lines[j] = bytes.Replace(lines[j], []byte(was.Value), []byte(from), 1)
	case host.Style&yaml.FlowStyle != 0:
		open := bytes.LastIndexByte(lines[i][:bytes.Index(lines[i], []byte(host.Content[0].Value))], '{') + 1
		lines[i] = slices.Concat(lines[i][:open], []byte("renamedFrom: "+from+", "), lines[i][open:])
	default:
		lines = slices.Insert(lines, i, []byte(strings.Repeat(" ", host.Column-1)+"renamedFrom: "+from+"\n"))
	}
	return slices.Concat(lines...)
}
