package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/spec"
)

var duration = reflect.TypeFor[clock.Duration]()

// sizes are the fields that count bytes.
var sizes = []string{"memory", "memoryReservation", "memorySwap", "shmSize", "size", "maxBody"}

type parseError struct {
	path  []string
	words string
	key   bool // it is the key that is wrong
}

// normalize turns durations and sizes that are written as text into numbers, where
// the type of the resource has them.
func normalize(v, resource any) (any, *parseError) {
	return walk(v, reflect.TypeOf(resource), nil, func(v any, t reflect.Type, field string) (any, error) {
		text, ok := v.(string)
		switch {
		case !ok:
			return v, nil
		case t == duration:
			return clock.ParseDuration(text)
		case t.Kind() == reflect.Int64 && slices.Contains(sizes, field):
			return spec.ParseSize(text)
		}
		return v, nil
	})
}

// humanize is normalize the other way round, for durations.
func humanize(v, resource any) any {
	out, _ := walk(v, reflect.TypeOf(resource), nil, func(v any, t reflect.Type, _ string) (any, error) {
		if n, ok := v.(json.Number); ok && t == duration {
			if ms, err := n.Int64(); err == nil {
				return clock.Duration(ms).String(), nil
			}
		}
		return v, nil
	})
	return out
}

// walk goes through a tree beside the type that it is of and lets leaf replace its
// values.
func walk(v any, t reflect.Type, path []string, leaf func(v any, t reflect.Type, field string) (any, error)) (any, *parseError) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	field := ""
	if len(path) > 0 {
		field = path[len(path)-1]
	}
	each := func(v any, t reflect.Type, step string) (any, *parseError) {
		return walk(v, t, append(slices.Clone(path), step), leaf)
	}
	switch v := v.(type) {
	case map[string]any:
		for key, in := range v { // in place, one by one
			of := fieldType(t, key)
			if of == nil {
				continue
			}
			out, wrong := each(in, of, key)
			if wrong != nil {
				return nil, wrong
			}
			v[key] = out
		}
		return v, nil
	case []any:
		if t.Kind() != reflect.Slice {
			return v, nil
		}
		for i, in := range v {
			out, wrong := each(in, t.Elem(), strconv.Itoa(i))
			if wrong != nil {
				return nil, wrong
			}
			v[i] = out
		}
		return v, nil
	}
	out, err := leaf(v, t, field)
	if err != nil {
		return nil, &parseError{path: path, words: err.Error()}
	}
	return out, nil
}

func unknownKey(v any, t reflect.Type, path []string) *parseError {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			here := append(slices.Clone(path), key)
			of := fieldType(t, key)
			if of == nil && t.Kind() == reflect.Struct {
				return &parseError{here, fmt.Sprintf("unknown field %q: expected %s", key, nearest(key, fields(t))), true}
			}
			if of == nil {
				continue
			}
			if wrong := unknownKey(v[key], of, here); wrong != nil {
				return wrong
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, in := range v {
			if wrong := unknownKey(in, t.Elem(), append(slices.Clone(path), strconv.Itoa(i))); wrong != nil {
				return wrong
			}
		}
	}
	return nil
}

func fields(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// nearest picks the names that one may have been meant to be, or lists all.
func nearest(typed string, names []string) string {
	if close := prose.Nearest(typed, names); len(close) > 0 {
		return prose.Either(close)
	}
	return "one of " + strings.Join(names, ", ")
}

func fieldType(t reflect.Type, key string) reflect.Type {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem()
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name == key {
				return t.Field(i).Type
			}
		}
	}
	return nil
}
