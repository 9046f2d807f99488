package e2e

import (
	"encoding/json"
	"reflect"
	"strings"
)

// fieldsOf lists the paths of a message's fields as encoding/json writes them,
// with [] for any index. Bytes and raw JSON are one field.
func fieldsOf(t reflect.Type, path string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return []string{path}
	case t.Kind() == reflect.Slice:
		return append([]string{path}, fieldsOf(t.Elem(), path+"[]")...)
	case t.Kind() != reflect.Struct:
		return []string{path}
	}
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			name = f.Name
		}
		out = append(out, fieldsOf(f.Type, join(path, name))...)
	}
	return out
}

// covers fails the test unless every field of a message was lied about; of are
// those of its type, and which of them count, if given.
func (s *stage) covers(message string, of any, which ...func(path string) bool) {
	s.t.Helper()
	for _, path := range fieldsOf(reflect.TypeOf(of), "") {
		if len(which) > 0 && !which[0](path) {
			continue
		}
		if s.tried[message][path] == 0 {
			s.t.Errorf("no lie was told about %s of %s", path, message)
		}
	}
}
