package file

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// maxLevels bounds how deep a value is read.
const maxLevels = 64

// yamlReader makes values in the normal form of the library's nodes. Anchored values are made
// once, and are counted each time that they are used.
type yamlReader struct {
	budget int
	values map[*yaml.Node]any
	sizes  map[*yaml.Node]int
	open   map[*yaml.Node]bool
}

func newYAMLReader() *yamlReader {
	return &yamlReader{budget: maxFile, values: map[*yaml.Node]any{}, sizes: map[*yaml.Node]int{}, open: map[*yaml.Node]bool{}}
}

func unreadAt(n *yaml.Node, format string, args ...any) *unread {
	return &unread{reason: fmt.Sprintf(format, args...), line: n.Line}
}

// value reads a node; what the normal form has not becomes an unread.
func (r *yamlReader) value(n *yaml.Node, depth int) any {
	if n.Kind == yaml.AliasNode {
		return r.alias(n)
	}
	if v, done := r.values[n]; done {
		return v
	}
	before := r.budget
	r.budget -= len(n.Value) + 1
	r.open[n] = true
	v := r.tagged(n, depth)
	delete(r.open, n)
	r.values[n], r.sizes[n] = v, before-r.budget
	return v
}

func (r *yamlReader) alias(n *yaml.Node) any {
	to := n.Alias
	if r.open[to] {
		return unreadAt(n, "the alias *%s is within what it refers to", n.Value)
	}
	v := r.value(to, 0)
	if r.budget < r.sizes[to] {
		return unreadAt(n, "the aliases of the file stand for more than %d bytes", maxFile)
	}
	r.budget -= r.sizes[to]
	return v
}

func (r *yamlReader) tagged(n *yaml.Node, depth int) any {
	name := tagOf(n)
	if name == "" {
		return r.plain(n, depth)
	}
	bare := *n
	bare.Tag, bare.Style = "", n.Style&^yaml.TaggedStyle
	v := r.plain(&bare, depth)
	if u, is := v.(*unread); is {
		return u
	}
	return map[string]any{name: v}
}

// tagOf is the type that a tag gives a value, empty for those of the core schema.
func tagOf(n *yaml.Node) string {
	if n.Style&yaml.TaggedStyle == 0 {
		return ""
	}
	switch tag := n.ShortTag(); {
	case tag == "!" || tag == "" || tag == "!!merge" && n.Value == "<<":
		return ""
	case n.Kind == yaml.MappingNode && tag == "!!map" || n.Kind == yaml.SequenceNode && tag == "!!seq":
		return ""
	case n.Kind == yaml.ScalarNode && (tag == "!!str" || coreKinds[tag] && tag == coreTag(n.Value)):
		return ""
	case tag == nodeconfig.PlainMap || tag == specialFloat || !strings.HasPrefix(tag, nodeconfig.TypePrefix):
		return "!<" + tag + ">"
	default:
		return tag
	}
}

var coreKinds = map[string]bool{"!!null": true, "!!bool": true, "!!int": true, "!!float": true}

func (r *yamlReader) plain(n *yaml.Node, depth int) any {
	if depth > maxLevels {
		return unreadAt(n, "it has more than %d levels", maxLevels)
	}
	switch n.Kind {
	case yaml.MappingNode:
		return r.mapping(n, depth)
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			out = append(out, r.value(c, depth+1))
		}
		return out
	}
	explicit := ""
	if n.Style&yaml.TaggedStyle != 0 {
		explicit = n.ShortTag()
	}
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if explicit == "!!str" || explicit == "!" || quoted && !coreKinds[explicit] {
		return n.Value
	}
	return coreValue(n.Value)
}

// keyName is a key as text, which is all that JSON has. What it cannot be is wrong with it: then
// the text is where it stands.
type keyName struct{ text, wrong string }

func keyOf(k *yaml.Node, i int) keyName {
	if k.Kind == yaml.AliasNode {
		k = k.Alias
	}
	place := fmt.Sprintf("key %d", i+1)
	if k.Kind != yaml.ScalarNode {
		return keyName{place, "a key is a map or a list, and no text"}
	}
	if tag := tagOf(k); tag != "" {
		return keyName{place, fmt.Sprintf("the key %q has the tag %s, which a name cannot keep", k.Value, tag)}
	}
	return keyName{text: k.Value}
}

func isMerge(k *yaml.Node) bool { return k.Kind == yaml.ScalarNode && k.Tag == "!!merge" }

func (r *yamlReader) mapping(n *yaml.Node, depth int) any {
	out := map[string]any{}
	var merged []map[string]any
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if isMerge(k) {
			more, u := r.merged(n.Content[i+1], depth)
			if u != nil {
				return u
			}
			merged = append(merged, more...)
			continue
		}
		name, v := keyOf(k, i/2), any(nil)
		switch _, twice := out[name.text]; {
		case name.wrong != "":
			v = unreadAt(k, "%s", name.wrong)
		case twice:
			v = unreadAt(k, "the key %q stands twice", name.text)
		default:
			v = r.value(n.Content[i+1], depth+1)
		}
		out[name.text] = v
	}
	for _, m := range merged {
		for k, v := range m { // order-free: each by itself
			if _, own := out[k]; !own {
				out[k] = v
			}
		}
	}
	return nodeconfig.MapOf(out)
}

// merged lists the maps of a merge key, the first before the others.
func (r *yamlReader) merged(n *yaml.Node, depth int) ([]map[string]any, *unread) {
	v := r.value(n, depth+1)
	if u, is := v.(*unread); is {
		return nil, u
	}
	list, is := v.([]any)
	if !is {
		list = []any{v}
	}
	var out []map[string]any
	for _, e := range list {
		m, is := realMap(e)
		if !is {
			return nil, unreadAt(n, "the merge key << has something else than maps")
		}
		out = append(out, m)
	}
	return out, nil
}

// realMap is a map of the file as it stands there.
func realMap(v any) (map[string]any, bool) {
	if name, below, typed := nodeconfig.TypeOf(v); typed {
		m, is := below.(map[string]any)
		return m, is && name == nodeconfig.PlainMap
	}
	m, is := v.(map[string]any)
	return m, is
}

// specialFloat is the type of the floats that JSON has not: nan, inf and -inf.
const specialFloat = "!float"

var (
	coreInt   = regexp.MustCompile(`^[-+]?[0-9]+$`)
	coreBase  = regexp.MustCompile(`^0(o[0-7]+|x[0-9a-fA-F]+)$`)
	coreFloat = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	coreInf   = regexp.MustCompile(`^[-+]?\.(inf|Inf|INF)$`)
	coreNaN   = regexp.MustCompile(`^\.(nan|NaN|NAN)$`)
)

// coreTag is what the core schema of YAML 1.2 takes a plain text for.
func coreTag(s string) string {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return "!!null"
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return "!!bool"
	}
	switch {
	case coreInt.MatchString(s) || coreBase.MatchString(s):
		return "!!int"
	case coreFloat.MatchString(s) || coreInf.MatchString(s) || coreNaN.MatchString(s):
		return "!!float"
	}
	return "!!str"
}

// coreValue is the value of a plain text, with all its digits.
func coreValue(s string) any {
	switch coreTag(s) {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(s, "true")
	case "!!int":
		base := 10
		if coreBase.MatchString(s) {
			base = 0
		}
		i, is := new(big.Int).SetString(s, base)
		if !is {
			return s
		}
		return json.Number(i.String())
	case "!!float":
		return floatOf(s)
	}
	return s
}

func floatOf(s string) any {
	switch {
	case coreNaN.MatchString(s):
		return map[string]any{specialFloat: "nan"}
	case coreInf.MatchString(s) && s[0] == '-':
		return map[string]any{specialFloat: "-inf"}
	case coreInf.MatchString(s):
		return map[string]any{specialFloat: "inf"}
	}
	sign, digits := "", strings.TrimPrefix(s, "+")
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	mantissa, exponent, power := strings.Cut(strings.ToLower(digits), "e")
	whole, part, _ := strings.Cut(mantissa, ".")
	whole = strings.TrimLeft(whole, "0")
	if whole == "" {
		whole = "0"
	}
	if part == "" {
		part = "0"
	}
	out := sign + whole + "." + part
	if power {
		out += "e" + exponent
	}
	return json.Number(out)
}
