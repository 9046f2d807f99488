package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

// foreignParsers read a file in normal form without what the driver reads and edits it with.
var foreignParsers = map[string]func([]byte) (any, error){"json": foreignJSON, "toml": foreignTOML, "yaml": foreignYAML}

func formatNamed(name string) format {
	return map[string]format{"json": jsonFormat{}, "toml": tomlFormat{}, "yaml": yamlFormat{}}[name]
}

func foreignJSON(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something comes after the value")
	}
	return v, nil
}

func foreignTOML(raw []byte) (any, error) {
	var m map[string]any
	if err := toml.Unmarshal(bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf")), &m); err != nil {
		return nil, err
	}
	return foreignTOMLValue(m), nil
}

func foreignTOMLValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = foreignTOMLValue(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = foreignTOMLValue(e)
		}
		return out
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	case float64:
		switch {
		case math.IsNaN(v):
			return map[string]any{"!float": "nan"}
		case math.IsInf(v, 1):
			return map[string]any{"!float": "inf"}
		case math.IsInf(v, -1):
			return map[string]any{"!float": "-inf"}
		}
		return json.Number(strconv.FormatFloat(v, 'e', -1, 64))
	case time.Time:
		return map[string]any{"!datetime": v.Format(time.RFC3339Nano)}
	case toml.LocalDateTime:
		return map[string]any{"!datetime": v.String()}
	case toml.LocalDate:
		return map[string]any{"!date": v.String()}
	case toml.LocalTime:
		return map[string]any{"!time": v.String()}
	}
	return v
}

// spelled is a value with numbers in one spelling each: floats differ from integers.
func spelled(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = spelled(e)
		}
	case []any:
		for i, e := range v {
			v[i] = spelled(e)
		}
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			if f, err := strconv.ParseFloat(string(v), 64); err == nil {
				return json.Number(strconv.FormatFloat(f, 'e', -1, 64))
			}
		}
	}
	return v
}

func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if v == nil {
			return v
		}
		out := map[string]any{}
		for k, e := range v {
			out[k] = copied(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = copied(e)
		}
		return out
	}
	return v
}

// replacedAt is a document with one object changed, added at the end, or removed.
func replacedAt(doc any, p place, id string, to map[string]any) any {
	if len(p.at) > 0 {
		m, _ := doc.(map[string]any)
		in := p
		in.at = p.at[1:]
		m[p.at[0]] = replacedAt(m[p.at[0]], in, id, to)
		return m
	}
	if p.identity == "" {
		m, _ := doc.(map[string]any)
		if delete(m, id); to != nil {
			m[id] = to
		}
		return m
	}
	list, _ := doc.([]any)
	i := slices.IndexFunc(list, func(e any) bool { m, _ := e.(map[string]any); return m[p.identity] == id })
	switch {
	case i < 0 && to != nil:
		return append(list, to)
	case i >= 0 && to != nil:
		list[i] = to
	case i >= 0:
		return slices.Delete(list, i, i+1)
	}
	return list
}

// inner is a map at a random depth of a copy, and not one that stands for another value.
func inner(r *rand.Rand, m map[string]any) map[string]any {
	for {
		var below []map[string]any
		for _, k := range slices.Sorted(maps.Keys(m)) {
			switch v := m[k].(type) {
			case map[string]any:
				below = append(below, v)
			case []any:
				for _, e := range v {
					if in, is := e.(map[string]any); is {
						below = append(below, in)
					}
				}
			}
		}
		below = slices.DeleteFunc(below, typedValue)
		if len(below) == 0 || r.IntN(3) == 0 {
			return m
		}
		m = below[r.IntN(len(below))]
	}
}

func withField(r *rand.Rand, was map[string]any, _ string) map[string]any {
	to := copied(was).(map[string]any)
	values := []any{"no", "a: b # c", json.Number("12"), json.Number("0.25"), true, []any{"x", "y"}, map[string]any{"k": "v"}}
	inner(r, to)["steady-field"] = values[r.IntN(len(values))]
	return to
}

func withChange(r *rand.Rand, was map[string]any, identity string) map[string]any {
	to := copied(was).(map[string]any)
	m := inner(r, to)
	keys := slices.Sorted(maps.Keys(m))
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, k := range keys {
		if k == identity {
			continue
		}
		m[k] = otherValue(r, m[k])
		return to
	}
	return nil
}

// otherValue is another value of the same kind.
func otherValue(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case string:
		return v + "x"
	case bool:
		return !v
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return json.Number("12345.5")
		}
		return json.Number(fmt.Sprint(r.IntN(1000) + 100000))
	case []any:
		if len(v) == 0 || r.IntN(3) == 0 {
			return slices.Insert(v, r.IntN(len(v)+1), any("new"))
		}
		i := r.IntN(len(v))
		if r.IntN(2) == 0 {
			return slices.Delete(v, i, i+1)
		}
		v[i] = otherValue(r, v[i])
		return v
	case map[string]any:
		if !typedValue(v) {
			v["steady-inner"] = "x"
			return v
		}
		for k := range v {
			if other := map[string]any{"!date": "2031-02-03", "!time": "07:08:09", "!datetime": "2031-02-03T07:08:09Z", "!float": "-inf"}[k]; other != nil && v[k] != other {
				return map[string]any{k: other}
			}
		}
		return v
	}
	return "was null"
}

func withoutField(r *rand.Rand, was map[string]any, identity string) map[string]any {
	to := copied(was).(map[string]any)
	m := inner(r, to)
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(m)), func(k string) bool { return k == identity })
	if len(keys) == 0 {
		return nil
	}
	delete(m, keys[r.IntN(len(keys))])
	return to
}
