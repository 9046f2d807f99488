package nodeconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A value that a device's format has and JSON has not is an object with one member whose name
// begins with TypePrefix and has no space: {"!secret": "code"} is a tag of YAML, {"!date": "2024-05-01"} a
// date. A real map whose only key begins so is the value of PlainMap.
const (
	TypePrefix = "!"
	PlainMap   = "!map"
	// Unreadable is the type of an object that cannot be read, with the reason.
	Unreadable = "!unreadable"
)

// Unread is in the place of a value that parses and that the normal form cannot have, with the
// reason and its line, zero where that is not known.
type Unread struct {
	Reason string
	Line   int
}

func (u *Unread) Error() string {
	if u.Line == 0 {
		return u.Reason
	}
	return fmt.Sprintf("line %d: %s", u.Line, u.Reason)
}

// UnreadIn returns the first one within a value, or nil.
func UnreadIn(v any) *Unread {
	switch v := v.(type) {
	case *Unread:
		return v
	case map[string]any:
		var first *Unread
		for _, e := range v { // order-free: the first in the file
			if u := UnreadIn(e); u != nil && (first == nil || u.Line < first.Line) {
				first = u
			}
		}
		return first
	case []any:
		for _, e := range v {
			if u := UnreadIn(e); u != nil {
				return u
			}
		}
	}
	return nil
}

// references are types whose value names what stands elsewhere, so that it is no secret
// whatever the field is called.
var references = []string{"!secret", "!env", "!env_var", "!include", "!file"}

// isType reports whether the name of a member is one of a type. What has a space in it is a key that
// a device's format has with its kind, as "!str 80".
func isType(name string) bool {
	return strings.HasPrefix(name, TypePrefix) && !strings.Contains(name, " ")
}

// TypeOf returns the type of a value that JSON has not, and what stands below it.
func TypeOf(v any) (name string, value any, is bool) {
	m, isObject := v.(map[string]any)
	if !isObject || len(m) != 1 {
		return "", nil, false
	}
	for name, value = range m { // order-free: there is one
	}
	return name, value, isType(name)
}

// MapOf is a real map as a config has it.
func MapOf(m map[string]any) map[string]any {
	if _, _, typed := TypeOf(m); typed {
		return map[string]any{PlainMap: m}
	}
	return m
}

// RealMap is a map of a config as it stands on the device.
func RealMap(v any) (map[string]any, bool) {
	if name, below, typed := TypeOf(v); typed {
		m, is := below.(map[string]any)
		return m, is && name == PlainMap
	}
	m, is := v.(map[string]any)
	return m, is
}

// isTypedScalar reports whether an object is one value of a type that JSON has not.
func isTypedScalar(m map[string]any) bool {
	_, v, typed := TypeOf(m)
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return typed
}

// single reports whether an object stands for one value, so that it gets no other member.
func single(m map[string]any) bool {
	_, _, typed := TypeOf(m)
	return typed || isSecretRef(m)
}

// Decode reads JSON into maps, lists, texts, json.Numbers, booleans and nil, of bounded depth
// and without members that stand twice. A member that is null is there, and is nil.
func Decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := value(d, MaxDepth)
	if err != nil {
		return nil, fmt.Errorf("the config is no JSON of at most %d levels: %w", MaxDepth, err)
	}
	if len(bytes.TrimSpace(raw[d.InputOffset():])) > 0 {
		return nil, errors.New("the config has something after its end")
	}
	return v, nil
}

func value(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	default:
		return t, nil
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := nested(d, depth)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		m, seen := map[string]any{}, map[string]bool{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			name, _ := key.(string)
			if seen[name] {
				return nil, fmt.Errorf("the member %.40q stands twice", name)
			}
			seen[name] = true
			v, err := nested(d, depth)
			if err != nil {
				return nil, err
			}
			m[name] = v
		}
		_, err = d.Token()
		return m, err
	}
}

func nested(d *json.Decoder, depth int) (any, error) {
	if depth == 0 {
		return nil, errors.New("it is too deep")
	}
	return value(d, depth-1)
}

// encode writes what Decode reads: keys sorted, numbers in one spelling each, and as it
// stands in the log, so that one that was read from there has the same bytes.
func encode(v any) json.RawMessage {
	out, err := json.Marshal(normal(v))
	if err != nil {
		panic("nodeconfig: a decoded value encodes: " + err.Error())
	}
	return out
}
