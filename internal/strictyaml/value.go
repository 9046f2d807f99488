package strictyaml

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// maxLevels bounds how deep a value is read.
const maxLevels = 64

// Reader makes values in the normal form of nodes of the library's nodes. Anchored values are made
// once, and are counted each time that they are used.
type Reader struct {
	// Foreign is a text of a device, in which a map is never one of the forms that stand for what
	// JSON has not, and keys have kinds. Else it is the normal form as people write it.
	Foreign bool
	// Bytes bounds what the aliases of the text stand for.
	Bytes int

	used   int
	values map[*yaml.Node]any
	sizes  map[*yaml.Node]int
	open   map[*yaml.Node]bool
}

func unreadAt(n *yaml.Node, format string, args ...any) *nodeconfig.Unread {
	return &nodeconfig.Unread{Reason: fmt.Sprintf(format, args...), Line: n.Line}
}

// Value reads a node. In the place of what the normal form has not stands a *nodeconfig.Unread.
func (r *Reader) Value(n *yaml.Node) any {
	if r.values == nil {
		r.values, r.sizes, r.open = map[*yaml.Node]any{}, map[*yaml.Node]int{}, map[*yaml.Node]bool{}
	}
	return r.value(n, 0)
}

func (r *Reader) value(n *yaml.Node, depth int) any {
	if n.Kind == yaml.AliasNode {
		return r.alias(n)
	}
	if v, done := r.values[n]; done {
		return v
	}
	before := r.used
	r.used += len(n.Value) + 1
	r.open[n] = true
	v := r.tagged(n, depth)
	delete(r.open, n)
	r.values[n], r.sizes[n] = v, r.used-before
	return v
}

func (r *Reader) alias(n *yaml.Node) any {
	to := n.Alias
	if r.open[to] {
		return unreadAt(n, "the alias *%s is within what it refers to", n.Value)
	}
	v := r.value(to, 0)
	if r.used+r.sizes[to] > r.Bytes {
		return unreadAt(n, "the aliases of the file stand for more than %d bytes", r.Bytes)
	}
	r.used += r.sizes[to]
	return v
}

func (r *Reader) tagged(n *yaml.Node, depth int) any {
	v := r.untagged(n, depth)
	if _, is := v.(*nodeconfig.Unread); is {
		return v
	}
	if name := tagOf(n); name != "" {
		return map[string]any{name: v}
	}
	return v
}

// ownTypes are names of types that are no tags.
var ownTypes = []string{nodeconfig.PlainMap, nodeconfig.Unreadable, FloatType}

// tagOf is the type that a tag gives a value, empty for those of the core schema.
func tagOf(n *yaml.Node) string {
	if n.Style&yaml.TaggedStyle == 0 {
		return ""
	}
	switch tag := n.ShortTag(); {
	case tag == "" || IsMerge(n):
		return ""
	case n.Kind == yaml.MappingNode && tag == "!!map" || n.Kind == yaml.SequenceNode && tag == "!!seq":
		return ""
	case n.Kind == yaml.ScalarNode && (tag == "!!str" || tag == PlainTag(n.Value)):
		return ""
	case slices.Contains(ownTypes, tag) || !strings.HasPrefix(tag, nodeconfig.TypePrefix):
		return "!<" + tag + ">"
	default:
		return tag
	}
}

const quotes = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// isText reports whether a scalar is a text whatever it looks like.
func isText(n *yaml.Node) bool {
	tag := ""
	if n.Style&yaml.TaggedStyle != 0 {
		tag = n.ShortTag()
	}
	isCore := slices.Contains([]string{"!!null", "!!bool", "!!int", "!!float"}, tag)
	return tag == "!!str" || n.Tag == "!" || n.Style&quotes != 0 && !isCore
}

func (r *Reader) untagged(n *yaml.Node, depth int) any {
	switch {
	case depth > maxLevels:
		return unreadAt(n, "it has more than %d levels", maxLevels)
	case n.Kind == yaml.MappingNode:
		return r.mapping(n, depth)
	case n.Kind == yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, c := range n.Content {
			out = append(out, r.value(c, depth+1))
		}
		return out
	case isText(n):
		return n.Value
	}
	return Plain(n.Value)
}

// IsMerge reports whether a key is a merge key, which YAML 1.1 has.
func IsMerge(k *yaml.Node) bool { return k.Kind == yaml.ScalarNode && k.Tag == "!!merge" }

func (r *Reader) mapping(n *yaml.Node, depth int) any {
	out := map[string]any{}
	var merged []map[string]any
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i]
		if IsMerge(k) {
			more, u := r.merged(n.Content[i+1], depth)
			if u != nil {
				return u
			}
			merged = append(merged, more...)
			continue
		}
		name, u := r.Key(k, i/2)
		var v any = u
		if _, twice := out[name]; twice {
			v = unreadAt(k, "the key %q stands twice", k.Value)
		} else if u == nil {
			v = r.value(n.Content[i+1], depth+1)
		}
		out[name] = v
	}
	for _, m := range merged {
		for k, v := range m { // order-free: each by itself
			if _, own := out[k]; !own {
				out[k] = v
			}
		}
	}
	if r.Foreign {
		return nodeconfig.MapOf(out)
	}
	return out
}

// Merged lists the maps of a merge key, the first before the others.
func (r *Reader) Merged(n *yaml.Node) ([]map[string]any, *nodeconfig.Unread) {
	r.Value(n)
	return r.merged(n, 0)
}

func (r *Reader) merged(n *yaml.Node, depth int) ([]map[string]any, *nodeconfig.Unread) {
	v := r.value(n, depth+1)
	if u, is := v.(*nodeconfig.Unread); is {
		return nil, u
	}
	list, is := v.([]any)
	if !is {
		list = []any{v}
	}
	var out []map[string]any
	for _, e := range list {
		m, is := nodeconfig.RealMap(e)
		if !is {
			return nil, unreadAt(n, "the merge key << has something else than maps")
		}
		out = append(out, m)
	}
	return out, nil
}

var (
	plainInt = regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`)
	keyMark  = regexp.MustCompile(`^!(str|null|bool|int|float) `)
)

// Key is the name of the i-th key in the normal form, whose names are texts. In a text of a device
// 80 is an integer, and every other name a text, as the text "yes" is. Keys of other kinds have
// theirs before them: "!str 80", "!bool true", "!float 1.5", "!null null". What is no scalar has its place as
// name, and what is wrong with it.
func (r *Reader) Key(k *yaml.Node, i int) (string, *nodeconfig.Unread) {
	if k.Kind == yaml.AliasNode {
		k = k.Alias
	}
	place := fmt.Sprintf("key %d", i+1)
	if k.Kind != yaml.ScalarNode {
		return place, unreadAt(k, "a key is a map or a list, and no text")
	}
	if tag := tagOf(k); tag != "" {
		return place, unreadAt(k, "the key %q has the tag %s, which a name cannot keep", k.Value, tag)
	}
	if !r.Foreign {
		return k.Value, nil
	}
	if isText(k) {
		return TextKey(k.Value), nil
	}
	switch v := Plain(k.Value).(type) {
	case nil:
		return "!null null", nil
	case bool:
		return fmt.Sprintf("!bool %v", v), nil
	case json.Number:
		if plainInt.MatchString(string(v)) {
			return string(v), nil
		}
		return "!float " + nodeconfig.Spelling(v), nil
	case map[string]any:
		return fmt.Sprintf("!float %v", v[FloatType]), nil
	}
	return TextKey(k.Value), nil
}

// TextKey is the name of a key that is a text.
func TextKey(s string) string {
	if plainInt.MatchString(s) || keyMark.MatchString(s) {
		return "!str " + s
	}
	return s
}

// KeyOf is the text of a key with a name, and whether it has to be read as one.
func KeyOf(name string) (text string, isText bool) {
	mark := keyMark.FindString(name)
	switch text = name[len(mark):]; mark {
	case "":
		return text, !plainInt.MatchString(text)
	case "!float ":
		if v, is := map[string]string{"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}[text]; is {
			text = v
		}
	}
	return text, mark == "!str "
}
