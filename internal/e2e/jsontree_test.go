package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// node is a JSON value that keeps the order of its keys, so that a lie can be
// told that no ordinary encoder would write.
type node struct {
	raw     json.RawMessage // of a scalar
	object  bool
	array   bool
	members []member
}

type member struct {
	key   string // of an object
	value *node
}

func parseJSON(t testing.TB, raw []byte) *node {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return parseValue(t, d)
}

func parseValue(t testing.TB, d *json.Decoder) *node {
	t.Helper()
	tok := testkit.Value(d.Token())(t)
	n := &node{}
	switch tok {
	case json.Delim('{'):
		n.object = true
		for d.More() {
			key := testkit.Value(d.Token())(t).(string)
			n.members = append(n.members, member{key, parseValue(t, d)})
		}
		testkit.Value(d.Token())(t)
	case json.Delim('['):
		n.array = true
		for d.More() {
			n.members = append(n.members, member{"", parseValue(t, d)})
		}
		testkit.Value(d.Token())(t)
	default:
		n.raw = testkit.Value(json.Marshal(tok))(t)
	}
	return n
}

func (n *node) bytes() []byte {
	var b bytes.Buffer
	n.write(&b)
	return b.Bytes()
}

func (n *node) write(b *bytes.Buffer) {
	if !n.object && !n.array {
		b.Write(n.raw)
		return
	}
	ends := "[]"
	if n.object {
		ends = "{}"
	}
	b.WriteByte(ends[0])
	for i, m := range n.members {
		if i > 0 {
			b.WriteByte(',')
		}
		if n.object {
			key, _ := json.Marshal(m.key) // a string always encodes
			b.Write(key)
			b.WriteByte(':')
		}
		m.value.write(b)
	}
	b.WriteByte(ends[1])
}

// at returns the value under keys and indexes, such as "failures", "0".
func (n *node) at(path ...string) *node {
	for _, p := range path {
		var next *node
		for i, m := range n.members {
			if (n.object && m.key == p) || (n.array && fmt.Sprint(i) == p) {
				next = m.value
			}
		}
		if next == nil {
			return nil
		}
		n = next
	}
	return n
}

func (n *node) set(raw string) { *n = node{raw: json.RawMessage(raw)} }

// mutant is a document with one thing changed.
type mutant struct {
	path string // of what was changed, with [] for any index
	kind string
	doc  []byte
}

func (m mutant) String() string { return m.path + " " + m.kind }

// walk makes every mutant of a document: each value changed in every way that
// its type allows, one at a time. Base64 strings at the paths in sealed hold
// JSON, which is walked as well.
type walk struct {
	t      testing.TB
	root   *node
	sealed []string
	// others are valid values of the same domain by path.
	others map[string][]string
	// few makes only the mutants that differ in what they could pass for.
	few  bool
	wrap func([]byte) []byte // puts a sealed document back
	out  []mutant
}

func mutants(t testing.TB, doc []byte, few bool, others map[string][]string, sealed ...string) []mutant {
	t.Helper()
	w := &walk{t: t, root: parseJSON(t, doc), few: few, sealed: sealed, others: others, wrap: func(b []byte) []byte { return b }}
	w.value("", w.root)
	return w.out
}

// emit records the document as it is now.
func (w *walk) emit(path, kind string) {
	w.out = append(w.out, mutant{path, kind, w.wrap(w.root.bytes())})
}

// try changes n, records the document, and changes n back.
func (w *walk) try(path, kind string, n *node, change func()) {
	old := node{raw: n.raw, object: n.object, array: n.array, members: slices.Clone(n.members)}
	was := n.bytes()
	change()
	if !bytes.Equal(was, n.bytes()) {
		w.emit(path, kind)
	}
	*n = old
}

func (w *walk) value(path string, n *node) {
	w.t.Helper()
	switch {
	case n.object:
		w.objectMutants(path, n)
	case n.array:
		w.arrayMutants(path, n)
	default:
		w.scalarMutants(path, n)
	}
	for _, other := range w.others[path] {
		if other != string(n.bytes()) {
			w.try(path, "another valid value", n, func() { n.set(other) })
		}
	}
}

func join(path, key string) string {
	if path == "" || strings.HasSuffix(path, ":") {
		return path + key
	}
	return path + "." + key
}

func (w *walk) objectMutants(path string, n *node) {
	w.t.Helper()
	w.try(path, "null", n, func() { n.set("null") })
	w.try(path, "empty", n, func() { n.members = nil })
	w.try(path, "another field", n, func() { n.members = append(n.members, member{"surprise", &node{raw: []byte(`"x"`)}}) })
	for i := range n.members {
		m := n.members[i]
		at := join(path, m.key)
		if !slices.Contains([]string{"0", "false", `""`, "null"}, string(m.value.raw)) { // absent says the same
			w.try(at, "removed", n, func() { n.members = slices.Delete(slices.Clone(n.members), i, i+1) })
		}
		if !w.few {
			w.try(at, "twice", n, func() { n.members = append(n.members, m) })
			w.try(at, "twice in another case", n, func() { n.members = append(n.members, member{strings.ToUpper(m.key), m.value}) })
		}
		w.value(at, m.value)
	}
}

func (w *walk) arrayMutants(path string, n *node) {
	w.t.Helper()
	w.try(path, "null", n, func() { n.set("null") })
	w.try(path, "empty", n, func() { n.members = nil })
	if len(n.members) == 0 {
		return
	}
	w.try(path, "first twice", n, func() { n.members = append(n.members, n.members[0]) })
	if len(n.members) > 1 {
		w.try(path, "reversed", n, func() { n.members = slices.Clone(n.members); slices.Reverse(n.members) })
	}
	for _, m := range n.members {
		w.value(path+"[]", m.value)
	}
}

func (w *walk) scalarMutants(path string, n *node) {
	w.t.Helper()
	set := func(kind, raw string) {
		if raw != string(n.raw) {
			w.try(path, kind, n, func() { n.set(raw) })
		}
	}
	if !w.few {
		set("null", "null")
		set("an object", "{}")
		set("a list", `["x"]`)
	}
	var s string
	switch c := n.raw[0]; {
	case c == '"':
		testkit.Must(w.t, json.Unmarshal(n.raw, &s))
		w.text(path, n, s, set)
	case c == 't' || c == 'f':
		set("flipped", fmt.Sprint(c == 'f'))
		set("a string", `"true"`)
	case c == 'n':
		set("a number", "1")
	default:
		w.numberMutants(string(n.raw), set)
	}
}

func (w *walk) numberMutants(raw string, set func(kind, raw string)) {
	set("zero", "0")
	set("one more", addOne(raw))
	set("huge", "9007199254740993")
	if w.few {
		return
	}
	set("negative", "-1")
	set("very negative", "-9223372036854775808")
	set("largest signed", "9223372036854775807")
	set("largest", "18446744073709551615")
	set("beyond all", "1e400")
	set("a fraction", "0.5")
	set("a string", `"`+raw+`"`)
}

func addOne(raw string) string {
	var n json.Number = json.Number(raw)
	i, err := n.Int64()
	if err != nil {
		return "1"
	}
	return fmt.Sprint(i + 1)
}

func (w *walk) text(path string, n *node, s string, set func(kind, raw string)) {
	w.t.Helper()
	quote := func(s string) string { return string(testkit.Value(json.Marshal(s))(w.t)) }
	set("empty", `""`)
	if raw, err := base64.StdEncoding.DecodeString(s); err == nil && len(raw) >= 24 {
		w.sealedText(path, n, raw, set)
		return
	}
	if s != "" {
		set("a bit flipped", quote(string(s[0]^1)+s[1:]))
		set("the last bit flipped", quote(s[:len(s)-1]+string(s[len(s)-1]^1)))
		set("cut short", quote(s[:len(s)-1]))
	}
	if !w.few {
		set("a number", "1")
		set("a path", quote("../../../../etc/passwd"))
		set("very long", quote(strings.Repeat("a", 40_000)))
		set("with a control character", quote(s+"\x00\x1b[2J"))
	}
}

// sealedText changes bytes that JSON carries as base64, and the JSON in them.
func (w *walk) sealedText(path string, n *node, raw []byte, set func(kind, raw string)) {
	w.t.Helper()
	code := func(b []byte) string { return `"` + base64.StdEncoding.EncodeToString(b) + `"` }
	flip := func(at int) string {
		b := slices.Clone(raw)
		b[at] ^= 1
		return code(b)
	}
	set("first bit flipped", flip(0))
	set("middle bit flipped", flip(len(raw)/2))
	set("last bit flipped", flip(len(raw)-1))
	if !w.few {
		set("cut short", code(raw[:len(raw)-1]))
		set("longer", code(append(slices.Clone(raw), 0)))
		set("other base64", `"`+base64.RawURLEncoding.EncodeToString(raw)+`"`)
		set("padded with space", `" `+code(raw)[1:])
	}
	if !slices.Contains(w.sealed, path) {
		return
	}
	inner := &walk{t: w.t, root: parseJSON(w.t, raw), others: w.others, few: true}
	old := n.raw
	inner.wrap = func(b []byte) []byte {
		n.raw = []byte(code(b))
		defer func() { n.raw = old }()
		return w.wrap(w.root.bytes())
	}
	inner.value(path+":", inner.root)
	w.out = append(w.out, inner.out...)
}
