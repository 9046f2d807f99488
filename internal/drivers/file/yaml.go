package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/strictyaml"
)

// yamlFormat reads with one parser and edits with another, the tree of ytext: what an edit made is
// read by the one that did not make it.
type yamlFormat struct {
	document string // which one of the file has the objects
}

var placeOf = regexp.MustCompile(` at L(\d+)\.C\d+(?:-L(\d+)\.C\d+)?: `)

// yamlCauses are words for what the library finds, whose own may have some of the file.
var yamlCauses = [][2]string{
	{"cannot start any token", "a tab, or another character that begins nothing: indent with spaces"},
	{"unknown anchor", "an alias of an anchor that does not stand before it"},
	{"mapping values are not allowed", "a colon where no key can be: quote the text, or check the indentation"},
	{"in reader", "a control character, or a byte that is no UTF-8"},
}

// notYAML is the library's error as line and cause.
func notYAML(err error) error {
	where := "no YAML"
	if at := placeOf.FindStringSubmatch(err.Error()); at != nil {
		where += ", line " + at[1]
		if at[2] != "" && at[2] != at[1] {
			where += " to " + at[2]
		}
	}
	for _, c := range yamlCauses {
		if strings.Contains(err.Error(), c[0]) {
			return fmt.Errorf("%s: %s", where, c[1])
		}
	}
	return errors.New(where)
}

// parse reads the document with the objects, or a list of all. A value that the normal form has not,
// as one with a key that is a list, is an unread.
func (f yamlFormat) parse(raw []byte) (any, error) {
	docs, err := f.chosen(raw)
	if err != nil {
		return nil, err
	}
	if f.document == allDocuments {
		var list []any
		for _, d := range docs {
			list = append(list, d.value)
		}
		return list, nil
	}
	if u, is := docs[0].value.(*unread); is {
		return nil, u
	}
	return docs[0].value, nil
}

func newReader() *strictyaml.Reader { return &strictyaml.Reader{Foreign: true, Bytes: maxFile} }

func yamlRoot(raw []byte) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(bytes.NewReader(withoutVersion(raw)))
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := loader.Load(&doc); err != nil { // its text may have some of the file
		return nil, notYAML(err)
	}
	if err := loader.Load(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("the end of a document is none that can be found")
	}
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		return doc.Content[0], nil
	}
	return &doc, nil
}

// withoutVersion is a document whose %YAML directive is a comment: the library knows YAML 1.1 alone,
// and each text is read by the core schema of YAML 1.2.
func withoutVersion(raw []byte) []byte {
	at := bytes.Index(raw, []byte("%YAML "))
	if at < 0 || at > 0 && raw[at-1] != '\n' && string(raw[:at]) != bom {
		return raw
	}
	for line := range strings.Lines(strings.TrimPrefix(string(raw[:at]), bom)) {
		if !blank(line) && line[0] != '#' && line[0] != '%' {
			return raw
		}
	}
	out := bytes.Clone(raw)
	out[at] = '#'
	return out
}

// edit writes a document anew where the value differs, and nothing else of the file.
func (f yamlFormat) edit(raw []byte, at []string, named identity, id string, to map[string]any) ([]byte, error) {
	docs, err := f.chosen(raw)
	if err != nil {
		return nil, err
	}
	if f.document == allDocuments {
		return oneOfAll(raw, docs, named, id, to)
	}
	d := docs[0]
	next, err := withObject(d.value, at, named, id, to)
	if err != nil {
		return nil, err
	}
	text, err := d.edited(next)
	return slices.Concat(raw[:d.begin], []byte(text), raw[d.end:]), err
}

// yamlEdit is a document and how it is written.
type yamlEdit struct {
	yamlStyle
	s     string
	lines []int // where they end
	root  *ynode
	read  *strictyaml.Reader
	users map[*yaml.Node][]*ynode // aliases, by what they refer to
}

func newYAMLEdit(s string, root *yaml.Node) (*yamlEdit, error) {
	p := &ytext{s: s}
	e := &yamlEdit{s: s, root: p.document(), read: newReader(), users: map[*yaml.Node][]*ynode{}}
	for i := range s {
		if s[i] == '\n' {
			e.lines = append(e.lines, i)
		}
	}
	if line := e.pair(e.root, root); line > 0 {
		return nil, fmt.Errorf("the layout in line %d is none that an edit can keep: write it in a simpler way", line)
	}
	e.yamlStyle = styleOf(s, e.root)
	return e, nil
}

// pair joins both trees and returns a line where they differ, zero if nowhere.
func (e *yamlEdit) pair(n *ynode, is *yaml.Node) int {
	line := max(e.line(n.begin), 1)
	if n.kind != is.Kind || n.anchor != is.Anchor || (n.tag != "" && n.tag != "!") != (is.Style&yaml.TaggedStyle != 0) {
		return line
	}
	if n.end > n.begin && n.column >= 0 && (line != is.Line || e.runes(n.begin) != is.Column) {
		return line
	}
	n.is, n.value = is, e.read.Value(is)
	if is.Kind == yaml.AliasNode {
		e.users[is.Alias] = append(e.users[is.Alias], n)
	}
	each := 1
	if n.kind == yaml.MappingNode {
		each = 2
	}
	if len(n.items)*each != len(is.Content) || n.kind == yaml.ScalarNode && !e.spelt(n) {
		return line
	}
	for i, it := range n.items {
		if each == 2 {
			if line := e.pair(it.key, is.Content[2*i]); line > 0 {
				return line
			}
		}
		if line := e.pair(it.value, is.Content[each*i+each-1]); line > 0 {
			return line
		}
	}
	return 0
}

// spelt reports whether the style and the extent of a scalar are those that the library found.
func (e *yamlEdit) spelt(n *ynode) bool {
	text, style := e.s[n.start:n.end], n.is.Style
	switch n.style {
	case '\'', '"':
		return style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 && len(text) > 1 && text[len(text)-1] == n.style
	case '|', '>':
		return style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	}
	return strings.Join(strings.Fields(text), "") == strings.Join(strings.Fields(n.is.Value), "")
}

func (e *yamlEdit) line(at int) int {
	n, _ := slices.BinarySearch(e.lines, at)
	return n + 1
}

func (e *yamlEdit) runes(at int) int {
	line := strings.LastIndexByte(e.s[:at], '\n') + 1
	return utf8.RuneCountInString(strings.TrimPrefix(e.s[line:at], bom)) + 1
}

func (e *yamlEdit) document(to any) (string, error) {
	if e.keeps(e.root, to) {
		from, end := e.region(e.root)
		text, err := e.render(e.root, to)
		return e.s[:from] + text + e.s[end:], err
	}
	if err := e.guard(e.root, true); err != nil {
		return "", err
	}
	from, end := e.region(e.root)
	text := e.block(to, nil, 0, 0)
	if !e.root.flow && len(e.root.items) > 0 {
		text = e.loose(e.root) + strings.TrimPrefix(text, " ")
	}
	rest := strings.TrimLeft(e.s[end:], " \t")
	if !strings.HasPrefix(rest, "\n") && !strings.HasPrefix(rest, "\r") || strings.HasSuffix(e.s[from:end], "\n") {
		rest = e.newline + rest
	}
	if text, is := strings.CutPrefix(text, e.newline); is && e.runes(from) == 1 {
		return e.s[:from] + strings.TrimSuffix(text, e.newline) + rest, nil
	}
	if e.runes(from) == 1 {
		text = strings.TrimPrefix(text, " ")
	}
	return e.s[:from] + strings.TrimSuffix(text, e.newline) + rest, nil
}

// render is the new text of a node's region, whose layout stays.
func (e *yamlEdit) render(n *ynode, to any) (string, error) {
	if same(n.value, to) {
		from, end := e.region(n)
		return e.s[from:end], nil
	}
	if err := e.guard(n, false); err != nil {
		return "", err
	}
	_, to = typeAndValue(to)
	switch n.kind {
	case yaml.MappingNode:
		m, _ := to.(map[string]any)
		return e.mapping(n, m)
	case yaml.SequenceNode:
		list, _ := to.([]any)
		return e.sequence(n, list)
	case yaml.AliasNode:
		return e.inline(to, nil, true), nil
	}
	lead := e.s[n.begin:n.start]
	if n.start == n.end && !isBlank(e.s[n.start-1]) {
		lead += " " // nothing stood there
	}
	return lead + e.inline(to, n, n.flow), nil
}

// keeps reports whether a node can have a value without another layout.
func (e *yamlEdit) keeps(n *ynode, to any) bool {
	tag, was := typeAndValue(n.value)
	toTag, below := typeAndValue(to)
	if tag != toTag || tag == "" && n.tag != "" && kindOf(was) != kindOf(below) {
		return false
	}
	switch v := below.(type) {
	case map[string]any:
		if !isSpecial(v) {
			return n.kind == yaml.MappingNode && len(v) > 0 && (!n.flow || len(n.items) > 0)
		}
	case []any:
		return n.kind == yaml.SequenceNode && len(v) > 0 && (!n.flow || len(n.items) > 0)
	case string:
		if e.literal(v, n, 1) != "" && !n.flow {
			return false
		}
	}
	return (n.kind == yaml.ScalarNode || n.kind == yaml.AliasNode && kindOf(was) != "object" && kindOf(was) != "list") && n.style != '|' && n.style != '>'
}

// replaced refuses to write a value in another layout in the place of a node.
func (e *yamlEdit) replaced(n *ynode, to any) error {
	if _, below := typeAndValue(to); n.kind == yaml.AliasNode && kindOf(n.value) == kindOf(below) {
		return fmt.Errorf("the alias %s in line %d stands for what is written at its anchor, where an edit would be one for all its users: edit the file by hand", e.s[n.start:n.end], e.line(n.start))
	}
	if err := e.guard(n, true); err != nil || n.anchor == "" {
		return err
	}
	return e.guard(n, false)
}

// guard refuses to change what stands at an anchor for those who refer to it; gone is a node that
// goes with all below it.
func (e *yamlEdit) guard(n *ynode, gone bool) error {
	for _, user := range e.users[n.is] {
		if n.kind != yaml.AliasNode && n.anchor != "" && (!gone || user.begin < n.begin || user.end > n.end) {
			return fmt.Errorf("the anchor &%s in line %d is used in line %d too, which the edit would change: edit the file by hand, or take the alias away first", n.anchor, e.line(n.begin), e.line(user.begin))
		}
	}
	if gone {
		for _, it := range n.items {
			if err := e.guard(it.value, true); err != nil {
				return err
			}
			if it.key != nil {
				if err := e.guard(it.key, true); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// mapping is the new text of a mapping whose members are to be those of a map.
func (e *yamlEdit) mapping(n *ynode, to map[string]any) (string, error) {
	_, below := typeAndValue(n.value)
	was, _ := below.(map[string]any)
	base, merge, err := e.merged(n)
	if err != nil {
		return "", err
	}
	left := maps.Clone(to)
	var order []int
	for i, it := range n.items {
		if strictyaml.IsMerge(it.key.is) {
			order = append(order, i)
			continue
		}
		k, _ := e.read.Key(it.key.is, i)
		if _, kept := to[k]; kept {
			order = append(order, i)
		} else if _, under := base[k]; under {
			return "", mergeError(merge, k)
		}
		delete(left, k)
	}
	added := []string{}
	for _, k := range slices.Sorted(maps.Keys(left)) {
		if v, there := was[k]; !there {
			if err := e.otherKind(n, k); err != nil {
				return "", within(k, err)
			}
			added = append(added, k)
			order = append(order, -1)
		} else if !same(v, left[k]) {
			return "", mergeError(merge, k)
		}
	}
	for k := range base { // order-free: any of them refuses
		if _, kept := to[k]; !kept {
			return "", mergeError(merge, k)
		}
	}
	return e.assemble(n, order, func(j int) (any, string) {
		if i := order[j]; i >= 0 {
			it := n.items[i]
			k, _ := e.read.Key(it.key.is, i)
			v := to[k]
			if _, is := v.(*unread); is || strictyaml.IsMerge(it.key.is) {
				v = it.value.value
			}
			return v, ""
		}
		k := added[j-len(order)+len(added)]
		return to[k], k
	})
}

// otherKind refuses a new key of digits where the mapping has those of the other kind: the number
// and the text are two keys, and one of both is meant.
func (e *yamlEdit) otherKind(n *ynode, name string) error {
	digits := func(s string) bool { return s != "" && s[0] != '!' && strictyaml.TextKey(s) != s }
	text, isText := strictyaml.KeyOf(name)
	if !digits(text) {
		return nil
	}
	differ := e.quoted && !isText
	for i, it := range n.items {
		k, _ := e.read.Key(it.key.is, i)
		have, otherText := strictyaml.KeyOf(k)
		differ = differ || digits(have) && otherText != isText
	}
	switch {
	case differ && isText:
		return fmt.Errorf("keys of digits are numbers there: write the new one as %s, or edit the file by hand", text)
	case differ:
		return fmt.Errorf("keys of digits are texts there: write the new one as %q, or edit the file by hand", strictyaml.TextKey(text))
	}
	return nil
}

// merged is what the merge keys of a mapping give it, and the line of the last.
func (e *yamlEdit) merged(n *ynode) (base map[string]any, line int, err error) {
	base = map[string]any{}
	for _, it := range n.items {
		if !strictyaml.IsMerge(it.key.is) {
			continue
		}
		line = e.line(it.begin)
		list, u := e.read.Merged(it.value.is)
		if u != nil {
			return nil, line, u
		}
		for _, m := range list {
			maps.Copy(base, m)
		}
	}
	return base, line, nil
}

func mergeError(line int, key string) error {
	return fmt.Errorf("%q comes from the merge key << in line %d: only members that the object has itself can be edited; edit the file by hand", key, line)
}

func (e *yamlEdit) sequence(n *ynode, to []any) (string, error) {
	var was []any
	for _, it := range n.items {
		was = append(was, it.value.value)
	}
	return e.assemble(n, align(was, to), func(j int) (any, string) { return to[j], "" })
}
