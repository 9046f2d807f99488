package file

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// yamlStyle is how a document is written, for what is new in it.
type yamlStyle struct {
	newline string
	unit    int  // of indentation
	dash    int  // columns from a member to the dashes of its list
	quote   byte // ' or "
	quoted  bool // texts always are, as in JSON
}

// styleOf is that of most of a document.
func styleOf(s string, root *ynode) yamlStyle {
	out := yamlStyle{newline: "\n", quote: '"'}
	if i := strings.IndexByte(s, '\n'); i > 0 && s[i-1] == '\r' {
		out.newline = "\r\n"
	}
	single, double := 0, 0
	units, dashes := map[int]int{}, map[int]int{}
	var walk func(n *ynode)
	walk = func(n *ynode) {
		switch n.style {
		case '\'':
			single++
		case '"':
			double++
		}
		for _, it := range n.items {
			v := it.value
			if n.kind == yaml.MappingNode && !n.flow && !v.flow {
				switch v.kind {
				case yaml.MappingNode:
					units[v.column-n.column]++
				case yaml.SequenceNode:
					dashes[v.column-n.column]++
				}
			}
			if it.key != nil {
				walk(it.key)
			}
			walk(v)
		}
	}
	walk(root)
	out.quoted = quotedKeys(root)
	if single > double {
		out.quote = '\''
	}
	out.dash = most(dashes, -1)
	out.unit = most(units, max(out.dash, 0))
	if out.unit <= 0 {
		out.unit = 2
	}
	if out.dash < 0 {
		out.dash = out.unit
	}
	return out
}

func most(counts map[int]int, none int) int {
	best := none
	for _, n := range slices.Sorted(maps.Keys(counts)) {
		if best == none || counts[n] > counts[best] {
			best = n
		}
	}
	return best
}

// typeAndValue splits a value into its tag, with a space after it, and what stands below.
func typeAndValue(v any) (tag string, below any) {
	name, below, typed := nodeconfig.TypeOf(v)
	switch {
	case !typed:
		return "", v
	case name == nodeconfig.PlainMap:
		return "", below
	case name == strictyaml.FloatType:
		return "", v
	}
	return name + " ", below
}

// inline is a value in one line. In a block it is a text without line ends, or empty.
func (s yamlStyle) inline(v any, old *ynode, flow bool) string {
	tag, v := typeAndValue(v)
	switch v := v.(type) {
	case map[string]any:
		if _, special := v[strictyaml.FloatType]; special && len(v) == 1 && tag == "" {
			return floatText(v[strictyaml.FloatType])
		}
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, s.key(k, nil, true)+": "+s.inline(v[k], nil, true))
		}
		return tag + "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, e := range v {
			parts = append(parts, s.inline(e, nil, true))
		}
		return tag + "[" + strings.Join(parts, ", ") + "]"
	}
	return tag + s.scalar(v, old, flow)
}

func floatText(v any) string {
	switch v {
	case "nan":
		return ".nan"
	case "inf":
		return ".inf"
	case "-inf":
		return "-.inf"
	}
	return fmt.Sprintf("!float %v", v) // is refused, for it is read as another value
}

func (s yamlStyle) scalar(v any, old *ynode, flow bool) string {
	switch v := v.(type) {
	case json.Number:
		return numberText(string(v))
	case string:
		return s.text(v, old, flow)
	case nil:
		return "null"
	}
	return fmt.Sprint(v)
}

// numberText is a number as readers of YAML 1.1 take it for one too.
func numberText(n string) string {
	mantissa, exponent, power := strings.Cut(strings.ToLower(n), "e")
	if !power {
		return n
	}
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if exponent[0] != '-' && exponent[0] != '+' {
		exponent = "+" + exponent
	}
	return mantissa + "e" + exponent
}

// key is one of a mapping, in the quotes that the other keys have.
func (s yamlStyle) key(name string, others []*yitem, flow bool) string {
	k, isText := strictyaml.KeyOf(name)
	if !isText {
		return k
	}
	var like *ynode
	for _, it := range others {
		if it.key != nil && it.key.is != nil && it.key.style != 0 {
			like = it.key
		}
	}
	return s.text(k, like, flow)
}

// text is a scalar that is read as a text everywhere: in the quotes of the one whose place it
// takes, and plain where no reader takes it for something else, or that stood plain too and is
// one of the same class of words.
func (s yamlStyle) text(t string, old *ynode, flow bool) string {
	quote := s.quote
	wasPlain := false
	if old != nil && old.kind == yaml.ScalarNode && old.is != nil {
		switch {
		case old.style == '\'' || old.style == '"':
			return quotedText(t, old.style)
		case old.style == 0 && old.end > old.start && old.tag == "":
			class := wordClass(old.is.Value)
			wasPlain = class != "" && class == wordClass(t)
		}
	}
	if !s.quoted && plainShape(t, flow) && (wordClass(t) == "" || wasPlain) && strictyaml.PlainTag(t) == "!!str" {
		return t
	}
	return quotedText(t, quote)
}

// quotedText is a text in single quotes if they can have it.
func quotedText(t string, quote byte) string {
	printable := !strings.ContainsFunc(t, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar })
	if quote == '\'' && printable {
		return "'" + strings.ReplaceAll(t, "'", "''") + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range t {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08X`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// plainShape reports whether a text can stand without quotes for its characters.
func plainShape(t string, flow bool) bool {
	if t == "" || t[0] == ' ' || t[len(t)-1] == ' ' || strings.ContainsFunc(t, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return false
	}
	if strings.ContainsRune("?:,[]{}#&*!|>'\"%@`", rune(t[0])) || strings.HasPrefix(t, "- ") || t[0] == '-' && (len(t) == 1 || t[1] == '-') || strings.HasPrefix(t, "...") {
		return false
	}
	if strings.Contains(t, ": ") || strings.Contains(t, " #") || strings.HasSuffix(t, ":") {
		return false
	}
	return !flow || !strings.ContainsAny(t, ",[]{}") && !strings.HasPrefix(t, "-")
}

// wordClasses are plain texts that a reader of YAML 1.1 or 1.2, or of one of the schemas in
// between, takes for something else than a text.
var wordClasses = []struct {
	name string
	re   *regexp.Regexp
}{
	{"null", regexp.MustCompile(`^(~|null|Null|NULL|)$`)},
	{"boolean", regexp.MustCompile(`^(?i:y|n|yes|no|on|off|true|false)$`)},
	{"number", regexp.MustCompile(`^[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*|\.?[0-9_]+(\.[0-9_]*)?([eE][-+]?[0-9]+)?|[0-9][0-9_]*\.[0-9_.]*([eE][-+]?[0-9]+)?|\.[0-9_.]+([eE][-+]?[0-9]+)?)$`)},
	{"number", regexp.MustCompile(`^[-+]?\.?(?i:inf|nan|infinity)$`)},
	{"base 60", regexp.MustCompile(`^[-+]?[0-9][0-9_]*(:[0-9]{1,2})+(\.[0-9_]*)?$`)},
	{"time", regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?$`)},
	{"indicator", regexp.MustCompile(`^(=|<<)$`)},
}

// wordClass is empty for what is a text for all.
func wordClass(t string) string {
	for _, c := range wordClasses {
		if c.re.MatchString(t) {
			return c.name
		}
	}
	return ""
}

// block is a value as lines in a block: what comes after its key or dash, to the end of its last
// line. columns are those that its members and its dashes have.
func (s yamlStyle) block(v any, old *ynode, member, dash int) string {
	tag, below := typeAndValue(v)
	switch v := below.(type) {
	case map[string]any:
		if len(v) > 0 && !isSpecial(below) {
			return after(tag) + s.newline + s.members(v, member)
		}
	case []any:
		if len(v) > 0 {
			return after(tag) + s.newline + s.elements(v, dash)
		}
	case string:
		if text := s.literal(v, old, member); text != "" {
			return " " + tag + text
		}
	}
	return " " + s.inline(v, old, false) + s.newline
}

func isSpecial(v any) bool {
	name, _, typed := nodeconfig.TypeOf(v)
	return typed && name == strictyaml.FloatType
}

func after(tag string) string {
	if tag == "" {
		return ""
	}
	return " " + strings.TrimSuffix(tag, " ")
}

func (s yamlStyle) members(m map[string]any, column int) string {
	out := ""
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out += strings.Repeat(" ", column) + s.key(k, nil, false) + ":" + s.block(m[k], nil, column+s.unit, column+s.dash)
	}
	return out
}

func (s yamlStyle) elements(list []any, column int) string {
	out := ""
	for _, e := range list {
		out += s.element(e, column, 2)
	}
	return out
}

// element is one of a list, with its dash: a map or a list in it begins in the same line.
func (s yamlStyle) element(v any, column, offset int) string {
	lead := strings.Repeat(" ", column) + "-"
	text := s.block(v, nil, column+offset, column+offset)
	if rest, is := strings.CutPrefix(text, s.newline); is {
		return lead + strings.Repeat(" ", offset-1) + strings.TrimLeft(rest, " ")
	}
	return lead + strings.Repeat(" ", offset-1) + strings.TrimPrefix(text, " ")
}

// literal is a text of several lines as a block scalar, folded where the one before was; empty
// where it is none, or cannot have the text.
func (s yamlStyle) literal(t string, old *ynode, column int) string {
	was := old != nil && (old.style == '|' || old.style == '>')
	if !strings.Contains(t, "\n") && !was || old != nil && (old.style == '\'' || old.style == '"') {
		return ""
	}
	body := strings.TrimRight(t, "\n")
	if body == "" || strings.ContainsFunc(t, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }) {
		return ""
	}
	if strings.ContainsRune(" \t\n", rune(body[0])) || strings.Contains(t, " \n") || strings.HasSuffix(t, " ") {
		return ""
	}
	head := "|"
	if was && old.style == '>' && !strings.Contains(body, "\n ") && !strings.Contains(body, "\n\t") {
		head, body = ">", folds.ReplaceAllString(body, "$0\n")
	}
	end := len(t) - len(strings.TrimRight(t, "\n"))
	switch end {
	case 0:
		head += "-"
	case 1:
	default:
		head += "+"
	}
	out := head + s.newline
	for line := range strings.SplitSeq(body, "\n") {
		if line != "" {
			out += strings.Repeat(" ", max(column, 1)) + line
		}
		out += s.newline
	}
	return out + strings.Repeat(s.newline, max(end-1, 0))
}

var folds = regexp.MustCompile(`\n+`)
