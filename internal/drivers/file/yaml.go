package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

type yamlFormat struct{}

var lineOf = regexp.MustCompile(`line \d+`)

// parse refuses more than one document, keys that stand twice or are no text, and aliases
// that multiply.
func (yamlFormat) parse(raw []byte) (any, error) {
	root, err := yamlRoot(raw)
	if err != nil {
		return nil, err
	}
	budget := maxFile
	return yamlValue(root, &budget, 0)
}

func yamlRoot(raw []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	var doc, second yaml.Node
	if err := loader.Load(&doc); err != nil { // its text may have some of the file
		return nil, fmt.Errorf("no YAML %s", lineOf.FindString(err.Error()))
	}
	if err := loader.Load(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document, or no YAML after the first")
	}
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		return doc.Content[0], nil
	}
	return &doc, nil
}

func yamlValue(n *yaml.Node, budget *int, depth int) (any, error) {
	*budget -= len(n.Value) + 1
	if *budget < 0 || depth > 64 {
		return nil, errors.New("it is too deep, or its aliases are too many")
	}
	switch n.Kind {
	case yaml.AliasNode:
		return yamlValue(n.Alias, budget, depth+1)
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
				return nil, fmt.Errorf("the key in line %d is no text", k.Line)
			}
			if _, twice := out[k.Value]; twice {
				return nil, fmt.Errorf("the key in line %d stands twice", k.Line)
			}
			v, err := yamlValue(n.Content[i+1], budget, depth+1)
			if err != nil {
				return nil, err
			}
			out[k.Value] = v
		}
		return out, nil
	case yaml.SequenceNode:
		out := []any{}
		for _, c := range n.Content {
			v, err := yamlValue(c, budget, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	}
	return yamlScalar(n)
}

func yamlScalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		return b, wrongScalar(n, n.Decode(&b), &b)
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return json.Number(fmt.Sprint(i)), nil
		}
		var u uint64
		err := n.Decode(&u)
		return json.Number(fmt.Sprint(u)), wrongScalar(n, err, &u)
	case "!!float":
		var f float64
		if err := n.Decode(&f); err != nil {
			return nil, wrongScalar(n, err, &f)
		}
		raw, err := json.Marshal(f)
		return json.Number(raw), wrongScalar(n, err, &f)
	}
	return n.Value, nil
}

func wrongScalar(n *yaml.Node, err error, _ any) error {
	if err != nil {
		return fmt.Errorf("the value in line %d is none that JSON has", n.Line)
	}
	return nil
}

// edit changes the lines of an object where it has lines of its own, and else writes the
// tree again, with its comments.
func (yamlFormat) edit(raw []byte, at []string, identity, id string, to map[string]any) ([]byte, error) {
	root, err := yamlRoot(raw)
	if err != nil {
		return nil, err
	}
	y := &yamlEdit{raw: raw, lines: strings.SplitAfter(string(raw), "\n"), root: root, identity: identity}
	y.end = len(y.lines) + 1
	in := root
	for _, step := range at {
		i := keyIndex(in, step)
		if i < 0 {
			return nil, fmt.Errorf("nothing stands at %s", step)
		}
		y.within(in, i)
		in = in.Content[i+1]
	}
	if out := y.byLines(in, id, to); out != nil {
		again, err := yamlRoot(out)
		if err == nil && again != nil {
			return out, nil
		}
	}
	return y.byTree(in, id, to)
}

type yamlEdit struct {
	raw      []byte
	lines    []string // with their ends; line 1 is the first
	root     *yaml.Node
	identity string
	end      int // line after the container
}

// within narrows the end of the container to that of the value at an index.
func (y *yamlEdit) within(m *yaml.Node, i int) {
	if i+2 < len(m.Content) {
		y.end = m.Content[i+2].Line
	}
}

func keyIndex(m *yaml.Node, key string) int {
	if m.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return i
		}
	}
	return -1
}

// find returns the index of an object and how many nodes it has, with a key or without.
func (y *yamlEdit) find(in *yaml.Node, id string) (i, width int) {
	if y.identity == "" {
		return keyIndex(in, id), 2
	}
	return slices.IndexFunc(in.Content, func(c *yaml.Node) bool {
		j := keyIndex(c, y.identity)
		return j >= 0 && c.Content[j+1].Value == id
	}), 1
}

// byLines returns nil where the object has no lines of its own.
func (y *yamlEdit) byLines(in *yaml.Node, id string, to map[string]any) []byte {
	i, width := y.find(in, id)
	if in.Style&yaml.FlowStyle != 0 || len(in.Content) == 0 || (to == nil && len(in.Content) == width) {
		return nil
	}
	first, at := in.Content[0], i
	if i < 0 {
		at = len(in.Content) - width
	}
	column := first.Column
	if width == 1 {
		column = in.Column
	}
	from, until := in.Content[at].Line, y.end
	if at+width < len(in.Content) {
		until = in.Content[at+width].Line
	}
	if !y.begins(from, column, width) || at+width < len(in.Content) && !y.begins(until, column, width) {
		return nil
	}
	until = y.before(from, until, column)
	item := &yaml.Node{Kind: in.Kind, Tag: in.Tag}
	if i < 0 {
		from = until
		if width == 2 {
			item.Content = append(item.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: id})
		}
		item.Content = append(item.Content, yamlNode(nil, to))
	} else if to != nil {
		item.Content = slices.Clone(in.Content[i : i+width])
		item.Content[width-1] = yamlNode(item.Content[width-1], to)
		dropComments(item, strings.Join(y.lines[from-1:until-1], ""))
	}
	text := ""
	if to != nil {
		dumped, err := yaml.Dump(item, yaml.WithIndent(y.unit()))
		if err != nil {
			return nil
		}
		for line := range strings.Lines(string(dumped)) {
			if strings.TrimSpace(line) != "" {
				line = strings.Repeat(" ", column-1) + line
			}
			text += line
		}
	}
	head := strings.Join(y.lines[:from-1], "")
	if head != "" && !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return []byte(head + text + strings.Join(y.lines[until-1:], ""))
}

// begins reports whether an object begins at the first thing in a line, in a column.
func (y *yamlEdit) begins(line, column, width int) bool {
	if line < 1 || line > len(y.lines) || column < 1 || len(y.lines[line-1]) < column {
		return false
	}
	text := y.lines[line-1]
	return strings.Trim(text[:column-1], " ") == "" && (width == 2 || text[column-1] == '-')
}

// before goes back over blank lines, comments and ends of the document that belong to what
// comes after an object.
func (y *yamlEdit) before(from, until, column int) int {
	until = min(until, len(y.lines)+1)
	for until-1 > from {
		text := y.lines[until-2]
		trimmed := strings.TrimSpace(text)
		indent := len(text) - len(strings.TrimLeft(text, " "))
		if trimmed != "" && (!strings.HasPrefix(trimmed, "#") || indent >= column) && trimmed != "..." && trimmed != "---" {
			break
		}
		until--
	}
	return until
}

// unit is the indentation of the document.
func (y *yamlEdit) unit() int {
	for _, l := range y.lines {
		t := strings.TrimLeft(l, " ")
		if n := len(l) - len(t); n >= 2 && n <= 8 && strings.TrimSpace(t) != "" && t[0] != '#' && t[0] != '-' {
			return n
		}
	}
	return 2
}

// dropComments takes away those that are not within the text, and so stay where they are.
func dropComments(n *yaml.Node, text string) {
	for _, c := range []*string{&n.HeadComment, &n.LineComment, &n.FootComment} {
		first, _, _ := strings.Cut(*c, "\n")
		if first != "" && !strings.Contains(text, first) {
			*c = ""
		}
	}
	for _, c := range n.Content {
		dropComments(c, text)
	}
}

func (y *yamlEdit) byTree(in *yaml.Node, id string, to map[string]any) ([]byte, error) {
	i, width := y.find(in, id)
	switch {
	case i < 0 && to == nil:
		return y.raw, nil
	case i < 0:
		if width == 2 {
			in.Content = append(in.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: id})
		}
		in.Content = append(in.Content, yamlNode(nil, to))
		in.Style &^= yaml.FlowStyle
	case to == nil:
		in.Content = slices.Delete(in.Content, i, i+width)
	default:
		in.Content[i+width-1] = yamlNode(in.Content[i+width-1], to)
	}
	return yaml.Dump(y.root, yaml.WithIndent(y.unit()))
}

// yamlNode is a value, with what is the same as in old as it is written there.
func yamlNode(old *yaml.Node, v any) *yaml.Node {
	budget := maxFile
	if old != nil {
		if was, err := yamlValue(old, &budget, 0); err == nil && sameJSON(was, v) {
			return old
		}
	}
	var n *yaml.Node
	switch v := v.(type) {
	case map[string]any:
		n = yamlMapping(old, v)
	case []any:
		n = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i, e := range v {
			var was *yaml.Node
			if old != nil && old.Kind == yaml.SequenceNode && i < len(old.Content) {
				was = old.Content[i]
			}
			n.Content = append(n.Content, yamlNode(was, e))
		}
	case json.Number:
		n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: string(v)}
		if strings.ContainsAny(string(v), ".eE") {
			n.Tag = "!!float"
		}
	case nil:
		n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	case bool:
		n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(v)}
	case string:
		n = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v}
		if strings.Contains(v, "\n") {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	if old != nil && old.Kind == n.Kind {
		n.HeadComment, n.LineComment, n.FootComment = old.HeadComment, old.LineComment, old.FootComment
		if n.Kind != yaml.ScalarNode || n.Tag == "!!str" && old.ShortTag() == "!!str" && !strings.Contains(n.Value, "\n") {
			n.Style = old.Style
		}
	}
	return n
}

func yamlMapping(old *yaml.Node, m map[string]any) *yaml.Node {
	n, left := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, maps.Clone(m)
	if old != nil && old.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(old.Content); i += 2 {
			k := old.Content[i]
			if v, kept := m[k.Value]; kept {
				n.Content = append(n.Content, k, yamlNode(old.Content[i+1], v))
				delete(left, k.Value)
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(left)) {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: k}, yamlNode(nil, left[k]))
	}
	return n
}
