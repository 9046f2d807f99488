package trust

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// MaxDepth is how deep a document may nest.
	MaxDepth = 32
	// MaxInteger is the largest integer of a document, 2^53 - 1: every JSON
	// reader has it exactly.
	MaxInteger = 1<<53 - 1
)

// Decode reads one JSON document of at most limit bytes into the struct that
// into points at. It is strict where readers are known to differ: invalid
// UTF-8, trailing data, nesting beyond MaxDepth, duplicate keys, field names in
// another case, fractions, exponents and integers beyond MaxInteger are all
// refused as Malformed. Unknown fields are ignored, except those that a
// top-level "critical" list names.
func Decode(raw []byte, limit int, into any) error {
	if len(raw) > limit {
		return refuse(Malformed, "%d bytes are more than the %d allowed", len(raw), limit)
	}
	if !utf8.Valid(raw) {
		return refuse(Malformed, "not UTF-8")
	}
	failed := json.Unmarshal(raw, into) // which looks first whether raw is JSON at all
	if errors.As(failed, new(*json.SyntaxError)) {
		return refuse(Malformed, "not one JSON document")
	}
	w := walker{b: raw}
	if err := w.value(reflect.TypeOf(into), 0); err != nil {
		return err
	}
	if failed != nil {
		return refuse(Malformed, "%v", failed)
	}
	return checkCritical(into)
}

func checkCritical(into any) error {
	kind, known, _ := shapeOf(reflect.TypeOf(into))
	if kind != reflect.Struct || known["critical"] == nil {
		return nil
	}
	f := reflect.Indirect(reflect.ValueOf(into)).FieldByName("Critical")
	if !f.IsValid() {
		return nil
	}
	names, _ := f.Interface().([]string)
	for _, name := range names {
		if known[name] == nil {
			return refuse(Malformed, "field %q must be understood and is not; use a newer version of steady", name)
		}
	}
	return nil
}

// walker runs over JSON that is known to be valid.
type walker struct {
	b []byte
	i int
}

func (w *walker) value(t reflect.Type, depth int) error {
	w.space()
	switch c := w.b[w.i]; {
	case c == '{' || c == '[':
		if depth == MaxDepth {
			return refuse(Malformed, "nested deeper than %d", MaxDepth)
		}
		w.i++
		if c == '{' {
			return w.object(t, depth+1)
		}
		return w.array(t, depth+1)
	case c == '"':
		w.quoted()
	case c == '-' || (c >= '0' && c <= '9'):
		return w.number(t)
	default: // true, false, null
		for w.i < len(w.b) && w.b[w.i] >= 'a' && w.b[w.i] <= 'z' {
			w.i++
		}
	}
	return nil
}

func (w *walker) object(t reflect.Type, depth int) error {
	kind, fields, elem := shapeOf(t)
	var seen keySet
	for w.more() {
		key := w.key()
		if !seen.add(key) {
			return refuse(Malformed, "key %q is there twice", key)
		}
		child := elem
		if kind == reflect.Struct {
			child = fields[string(key)]
			if child == nil {
				for name := range fields {
					if strings.EqualFold(name, string(key)) {
						return refuse(Malformed, "field %q must be written %q", key, name)
					}
				}
			}
		}
		w.space()
		w.i++ // the colon
		if err := w.value(child, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) array(t reflect.Type, depth int) error {
	_, _, elem := shapeOf(t)
	for w.more() {
		if err := w.value(elem, depth); err != nil {
			return err
		}
	}
	return nil
}

// more steps to the next entry of an object or list, or over its end.
func (w *walker) more() bool {
	w.space()
	if w.b[w.i] == ',' {
		w.i++
		w.space()
	}
	if w.b[w.i] == '}' || w.b[w.i] == ']' {
		w.i++
		return false
	}
	return true
}

// number steps over one that fits into what it is read into, on every architecture: an int has 32 bits on some, and
// what one host reads all have to.
func (w *walker) number(t reflect.Type) error {
	start := w.i
	for w.i < len(w.b) && strings.IndexByte("+-.0123456789Ee", w.b[w.i]) >= 0 {
		w.i++
	}
	s := string(w.b[start:w.i])
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n > MaxInteger || n < -MaxInteger || s == "-0" {
		if len(s) > 32 {
			s = s[:32] + "..."
		}
		return refuse(Malformed, "number %s is not an integer of at most 2^53 - 1", s)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != nil && t.Kind() == reflect.Int && n != int64(int32(n)) {
		return refuse(Malformed, "number %s is more than 2^31 - 1, which hosts of 32 bits cannot read", s)
	}
	return nil
}

// quoted steps over a string and returns what is between its quotes.
func (w *walker) quoted() (text []byte, escaped bool) {
	start := w.i
	for w.i++; w.b[w.i] != '"'; w.i++ {
		if w.b[w.i] == '\\' {
			escaped = true
			w.i++
		}
	}
	w.i++
	return w.b[start+1 : w.i-1], escaped
}

// key steps over a key and returns it unquoted.
func (w *walker) key() []byte {
	start := w.i
	text, escaped := w.quoted()
	if !escaped {
		return text
	}
	var s string
	if err := json.Unmarshal(w.b[start:w.i], &s); err != nil {
		return w.b[start:w.i]
	}
	return []byte(s)
}

func (w *walker) space() {
	for w.i < len(w.b) && (w.b[w.i] == ' ' || w.b[w.i] == '\t' || w.b[w.i] == '\n' || w.b[w.i] == '\r') {
		w.i++
	}
}

// keySet is a list while small, which nearly every object is.
type keySet struct {
	few  [16][]byte
	n    int
	many map[string]bool
}

func (s *keySet) add(k []byte) bool {
	if s.many == nil {
		for _, have := range s.few[:s.n] {
			if bytes.Equal(have, k) {
				return false
			}
		}
		if s.n < len(s.few) {
			s.few[s.n] = k
			s.n++
			return true
		}
		s.many = make(map[string]bool, 4*len(s.few))
		for _, have := range s.few {
			s.many[string(have)] = true
		}
	}
	if s.many[string(k)] {
		return false
	}
	s.many[string(k)] = true
	return true
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	fieldCache      sync.Map // reflect.Type -> map[string]reflect.Type
)

// shapeOf says how encoding/json will read a value of type t: a struct with
// its fields, a map or list with its element, or (reflect.Invalid) anything
// else. A nil t is a value that nobody reads.
func shapeOf(t reflect.Type) (reflect.Kind, map[string]reflect.Type, reflect.Type) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil {
		return reflect.Invalid, nil, nil
	}
	if p := reflect.PointerTo(t); p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler) {
		return reflect.Invalid, nil, nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return reflect.Struct, fieldsOf(t), nil
	case reflect.Map, reflect.Slice, reflect.Array:
		return t.Kind(), nil, t.Elem()
	}
	return reflect.Invalid, nil, nil
}

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if f, ok := fieldCache.Load(t); ok {
		return f.(map[string]reflect.Type)
	}
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || (f.Anonymous && name == "") {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = f.Type
	}
	fieldCache.Store(t, fields)
	return fields
}
