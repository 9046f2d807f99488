package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Bounds of a document.
const (
	MaxBytes = 8 << 20
	MaxDepth = 32
)

// Doc is a parsed document with the positions of its parts. It is for one
// goroutine.
type Doc struct {
	file  string
	root  *yaml.Node
	tree  any  // maps, lists, strings, int64, float64, bool and nil
	holes bool // some values were not accepted
	index map[*yaml.Node]map[string]int
}

// Parse reads data as exactly one document. The file name only appears in
// problems. With problems, Doc is nil when nothing could be read at all, and
// otherwise holds what could be.
func Parse(file string, data []byte) (*Doc, []Problem) {
	top, problem := Mapping(file, data)
	if problem != nil {
		return nil, []Problem{*problem}
	}
	w := &walker{file: file}
	tree := w.value(top, 1)
	return &Doc{file: file, root: top, tree: tree, holes: w.holes}, w.problems
}

// Mapping reads data as exactly one document that is a mapping, and returns its node.
// What is in it is not checked.
func Mapping(file string, data []byte) (*yaml.Node, *Problem) {
	fail := func(line, col int, format string, args ...any) *Problem {
		return &Problem{File: file, Line: line, Column: col, Message: fmt.Sprintf(format, args...)}
	}
	if len(data) > MaxBytes {
		return nil, fail(0, 0, "the file has %d bytes: expected at most %d", len(data), MaxBytes)
	}
	if line, col, ok := badText(data); !ok {
		return nil, fail(line, col, "the text is not UTF-8: expected UTF-8 without byte order mark")
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, fail(0, 0, "the YAML reader did not start: %v", err)
	}
	var root, second yaml.Node
	switch err := loader.Load(&root); {
	case errors.Is(err, io.EOF):
		return nil, fail(1, 1, "the file is empty: expected a mapping")
	case err != nil:
		return nil, syntaxProblem(file, data, err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, fail(max(second.Line, 1), max(second.Column, 1), "a second document starts here: expected exactly one")
	case !errors.Is(err, io.EOF):
		return nil, syntaxProblem(file, data, err)
	}
	top := &root
	if top.Kind == yaml.DocumentNode && len(top.Content) > 0 {
		top = top.Content[0]
	}
	if top.Kind != yaml.MappingNode {
		return nil, fail(max(top.Line, 1), max(top.Column, 1), "the file contains %s: expected a mapping", kindName(top))
	}
	return top, nil
}

func badText(data []byte) (line, col int, ok bool) {
	if utf8.Valid(data) && !bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return 0, 0, true
	}
	line, col = 1, 1
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == '\ufeff' || (r == utf8.RuneError && n == 1) {
			break
		}
		if data = data[n:]; r == '\n' {
			line, col = line+1, 1
		} else {
			col++
		}
	}
	return line, col, false
}

// syntaxProblem gives the position that the YAML reader reports, and says what
// a tab is when one is the cause.
func syntaxProblem(file string, data []byte, err error) *Problem {
	p := &Problem{File: file, Line: 1, Column: 1}
	message := err.Error()
	var le *yaml.LoadError
	if errors.As(err, &le) {
		p.Line, p.Column, message = max(le.Mark.Line, 1), max(le.Mark.Column, 1), le.Message
	}
	lines := strings.Split(string(data), "\n")
	for _, n := range []int{p.Line, p.Line + 1} {
		if n > len(lines) {
			break
		}
		indent := lines[n-1][:len(lines[n-1])-len(strings.TrimLeft(lines[n-1], " \t"))]
		if i := strings.IndexByte(indent, '\t'); i >= 0 {
			p.Line, p.Column, p.Message = n, i+1, "a tab indents this line: expected spaces"
			return p
		}
	}
	p.Message = "this is not YAML: " + message + ": expected valid YAML or JSON"
	return p
}

type walker struct {
	file     string
	problems []Problem
	holes    bool
}

func (w *walker) add(n *yaml.Node, format string, args ...any) {
	w.problems = append(w.problems, Problem{File: w.file, Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)})
}

func (w *walker) value(n *yaml.Node, depth int) any {
	if depth > MaxDepth {
		w.holes = true
		w.add(n, "the document is nested deeper than %d levels: expected at most that", MaxDepth)
		return nil
	}
	if n.Anchor != "" {
		w.add(n, "anchor &%s is not supported: expected each value written out", n.Anchor)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return w.mapping(n, depth)
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			out = append(out, w.value(c, depth+1))
		}
		return out
	case yaml.AliasNode:
		w.holes = true
		w.add(n, "alias *%s is not supported: expected the value written out", n.Value)
		return nil
	}
	return w.scalar(n)
}

func (w *walker) mapping(n *yaml.Node, depth int) any {
	out := make(map[string]any, len(n.Content)/2)
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		tag := k.ShortTag()
		if tag == "!!merge" {
			w.holes = true
			w.add(k, "merge key << is not supported: expected each key written out")
			continue
		}
		if k.Kind != yaml.ScalarNode || (tag != "!!str" && tag != "!!timestamp") {
			w.holes = true
			w.add(k, "the key is %s: expected text, in quotes if need be", kindName(k))
			continue
		}
		if at, dup := first[k.Value]; dup {
			w.add(k, "key %q is set twice: expected once; it is first set at %s:%d:%d", k.Value, w.file, at.Line, at.Column)
			continue
		}
		first[k.Value] = k
		out[k.Value] = w.value(v, depth+1)
	}
	return out
}

func (w *walker) scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int":
		// A leading zero means octal to some readers and decimal to others:
		// such a number stays text.
		if len(n.Value) > 1 && n.Value[0] == '0' {
			return n.Value
		}
		if v, err := strconv.ParseInt(n.Value, 10, 64); err == nil && v <= 1<<53 && v >= -(1<<53) {
			return v
		}
		w.holes = true
		w.add(n, "%s is no plain number: expected a whole number below 2^53", n.Value)
		return nil
	case "!!float":
		var f float64
		if n.Decode(&f) == nil && f-f == 0 {
			if math.Abs(f) <= 1<<53 {
				return f
			}
			w.holes = true
			w.add(n, "%s is no plain number: expected a whole number below 2^53", n.Value)
			return nil
		}
	}
	w.holes = true
	w.add(n, "%s is not supported here: expected text, a number, true or false", kindName(n))
	return nil
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp":
		return "text"
	case "!!null":
		return "empty"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	default:
		return "a value of type " + tag
	}
}

// Decode fills v, which describes the document with json tags. A key that v
// does not have is an error.
func (d *Doc) Decode(v any) error { return d.decode(v, true) }

// DecodeKnown is Decode without the error for keys that v does not have. It
// fails when Parse left out a value: what builds on it would mislead.
func (d *Doc) DecodeKnown(v any) error {
	if d.holes {
		return errors.New("some values were not accepted")
	}
	return d.decode(v, false)
}

func (d *Doc) decode(v any, strict bool) error {
	b, err := json.Marshal(d.tree)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	if strict {
		dec.DisallowUnknownFields()
	}
	return dec.Decode(v)
}

// MapText puts what f makes of each text into its place: text, int64, float64 or bool. Keys, and the places of
// findings, stay. It returns a problem for each text of which f made an error.
func (d *Doc) MapText(f func(path []string, text string) (any, error)) (problems []Problem) {
	var walk func(path []string, v any) any
	walk = func(path []string, v any) any {
		below := func(step string) []string { return append(path[:len(path):len(path)], step) }
		switch v := v.(type) {
		case map[string]any:
			for key, in := range v { // in place, one by one
				v[key] = walk(below(key), in)
			}
		case []any:
			for i, in := range v {
				v[i] = walk(below(strconv.Itoa(i)), in)
			}
		case string:
			out, err := f(path, v)
			if err != nil {
				problems = append(problems, d.At(path, err.Error()))
				return v
			}
			return out
		}
		return v
	}
	d.tree = walk(nil, d.tree)
	return problems
}

// Has reports whether the top level of the document has the key.
func (d *Doc) Has(key string) bool {
	m, ok := d.tree.(map[string]any)
	if !ok {
		return false
	}
	_, ok = m[key]
	return ok
}

// rename gives the key at path another name, unless its mapping has one of that name.
func (d *Doc) rename(path []string, to string) bool {
	last := len(path) - 1
	var within any = d.tree
	for _, step := range path[:last] {
		switch v := within.(type) {
		case map[string]any:
			within = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(v) {
				return false
			}
			within = v[i]
		}
	}
	m, ok := within.(map[string]any)
	if _, there := m[to]; !ok || there {
		return false
	}
	key, value := d.find(path)
	if _, parent := d.find(path[:last]); key == nil || value == parent {
		return false
	}
	m[to], key.Value = m[path[last]], to
	delete(m, path[last])
	d.index = nil
	return true
}

// At makes a problem at the place that path leads to; of a path that ends
// nowhere, the last part that exists. Where the value is a mapping or a list,
// the place is that of its key.
func (d *Doc) At(path []string, message string) Problem {
	key, value := d.find(path)
	n := value
	if key != nil && value.Kind != yaml.ScalarNode {
		n = key
	}
	return Problem{File: d.file, Line: n.Line, Column: n.Column, Message: message}
}

// AtKey is At for the key itself.
func (d *Doc) AtKey(path []string, message string) Problem {
	key, value := d.find(path)
	if key == nil {
		key = value
	}
	return Problem{File: d.file, Line: key.Line, Column: key.Column, Message: message}
}

func (d *Doc) find(path []string) (key, value *yaml.Node) {
	value = d.root
	for _, step := range path {
		k, v := d.child(value, step)
		if v == nil {
			break
		}
		key, value = k, v
	}
	return key, value
}

func (d *Doc) child(n *yaml.Node, step string) (key, value *yaml.Node) {
	switch n.Kind {
	case yaml.MappingNode:
		if i, ok := d.keysOf(n)[step]; ok {
			return n.Content[i], n.Content[i+1]
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return nil, n.Content[i]
		}
	}
	return nil, nil
}

// keysOf indexes a mapping once, so that a finding per host of a large fleet
// stays linear. Of a duplicate key the first one counts.
func (d *Doc) keysOf(n *yaml.Node) map[string]int {
	if m, ok := d.index[n]; ok {
		return m
	}
	m := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if _, dup := m[n.Content[i].Value]; !dup {
			m[n.Content[i].Value] = i
		}
	}
	if d.index == nil {
		d.index = map[*yaml.Node]map[string]int{}
	}
	d.index[n] = m
	return m
}
