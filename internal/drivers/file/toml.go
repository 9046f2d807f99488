package file

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

type tomlFormat struct{}

func (tomlFormat) parse(raw []byte) (any, error) {
	var m map[string]any
	if err := toml.Unmarshal(raw, &m); err != nil {
		if at := (*toml.DecodeError)(nil); errors.As(err, &at) { // its text has some of the file
			row, column := at.Position()
			return nil, fmt.Errorf("no TOML in line %d, column %d", row, column)
		}
		return nil, errors.New("no TOML")
	}
	if m == nil {
		m = map[string]any{}
	}
	return tomlValue(m)
}

// tomlValue is a value as JSON has it: dates are texts.
func tomlValue(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			var err error
			if out[k], err = tomlValue(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			var err error
			if out[i], err = tomlValue(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case int64:
		return json.Number(strconv.FormatInt(v, 10)), nil
	case float64:
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, errors.New("a number is none that JSON has")
		}
		return json.Number(raw), nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	case fmt.Stringer: // local dates and times
		return v.String(), nil
	}
	return v, nil
}

// statement is a line of TOML, or some: a header, or a key with its value.
type statement struct {
	table      []string
	path       []string // whole, with the index of an array's element as a step
	kind       unstable.Kind
	begin, end int // of its lines
	start      int // of its value
	stop       int
	value      unstable.Kind
}

// tomlEdit is a document as statements.
type tomlEdit struct {
	raw     []byte
	list    []statement
	changes []change
}

func statements(raw []byte) (*tomlEdit, error) {
	t := &tomlEdit{raw: raw}
	p, counts := unstable.Parser{}, map[string]int{}
	p.Reset(raw)
	var table []string
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.KeyValue && e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		s := statement{kind: e.Kind, begin: -1}
		last := 0
		for k := e.Key(); k.Next(); {
			s.path = append(s.path, string(k.Node().Data))
			if s.begin < 0 {
				s.begin = int(k.Node().Raw.Offset)
			}
			last = int(k.Node().Raw.Offset + k.Node().Raw.Length)
		}
		switch e.Kind {
		case unstable.KeyValue:
			s.table, s.path = table, slices.Concat(table, s.path)
			s.start = last + bytes.IndexByte(raw[last:], '=') + 1
			s.start += len(raw[s.start:]) - len(bytes.TrimLeft(raw[s.start:], " \t"))
			s.stop, s.value = int(e.Raw.Offset+e.Raw.Length), e.Value().Kind
			last = s.stop
		default:
			s.path = indexed(s.path, counts)
			if e.Kind == unstable.ArrayTable {
				key := joined(s.path)
				counts[key]++
				s.path = append(s.path, strconv.Itoa(counts[key]-1))
			}
			table = s.path
		}
		s.begin = bytes.LastIndexByte(raw[:s.begin], '\n') + 1
		s.end = len(raw)
		if i := bytes.IndexByte(raw[last:], '\n'); i >= 0 {
			s.end = last + i + 1
		}
		t.list = append(t.list, s)
	}
	return t, p.Error()
}

func joined(path []string) string { return strings.Join(path, "\x00") }

// indexed puts the index of the newest element after the name of an array of tables.
func indexed(path []string, counts map[string]int) (out []string) {
	for i, step := range path {
		out = append(out, step)
		if n := counts[joined(out)]; n > 0 && i < len(path)-1 {
			out = append(out, strconv.Itoa(n-1))
		}
	}
	return out
}

func under(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

func (f tomlFormat) edit(raw []byte, at []string, identity, id string, to map[string]any) ([]byte, error) {
	doc, err := f.parse(raw)
	if err != nil {
		return nil, err
	}
	in := doc
	for _, step := range at {
		m, _ := in.(map[string]any)
		in = m[step]
	}
	t, err := statements(raw)
	if err != nil {
		return nil, err
	}
	path, was, after := append(slices.Clone(at), id), map[string]any(nil), in
	if identity == "" {
		m, _ := in.(map[string]any)
		was, _ = m[id].(map[string]any)
		m = maps.Clone(m)
		delete(m, id)
		if to != nil {
			m[id] = to
		}
		after = m
	} else {
		list, _ := in.([]any)
		i := slices.IndexFunc(list, func(e any) bool { m, _ := e.(map[string]any); return m[identity] == id })
		list = slices.Clone(list)
		switch {
		case i < 0 && to != nil:
			list, path[len(path)-1] = append(list, to), strconv.Itoa(len(list))
		case i >= 0 && to == nil:
			was, path[len(path)-1] = list[i].(map[string]any), strconv.Itoa(i)
			list = slices.Delete(list, i, i+1)
		case i >= 0:
			was, path[len(path)-1] = list[i].(map[string]any), strconv.Itoa(i)
			list[i] = to
		}
		after = list
	}
	if i := slices.IndexFunc(t.list, func(s statement) bool { return s.kind == unstable.KeyValue && slices.Equal(s.path, at) }); i >= 0 {
		return t.value(i, after) // all of them are one value
	}
	switch {
	case was == nil && to == nil:
		return raw, nil
	case to == nil:
		t.remove(path)
		t.keep(at, path, identity != "")
	case was == nil:
		if err := t.create(at, path, to, identity != ""); err != nil {
			return nil, err
		}
	default:
		if i := t.assigned(path); i >= 0 {
			return t.value(i, to)
		}
		if err := t.members(path, was, to); err != nil {
			return nil, err
		}
	}
	return t.result(), nil
}

// change is a part of the text and what stands there instead.
type change struct {
	from, to int
	text     string
}

func (t *tomlEdit) change(from, to int, text string) {
	t.changes = append(t.changes, change{from, to, text})
}

func (t *tomlEdit) result() []byte {
	out := slices.Clone(t.raw)
	slices.SortStableFunc(t.changes, func(a, b change) int { return cmp.Or(b.from-a.from, b.to-a.to) })
	for _, c := range t.changes {
		if c.text != "" && c.from == len(t.raw) && len(out) > 0 && !bytes.HasSuffix(t.raw, []byte("\n")) {
			c.text = "\n" + c.text
		}
		out = splice(out, c.from, c.to, []byte(c.text))
	}
	return out
}

// assigned is the index of the statement that gives a path its value.
func (t *tomlEdit) assigned(path []string) int {
	return slices.IndexFunc(t.list, func(s statement) bool { return s.kind == unstable.KeyValue && slices.Equal(s.path, path) })
}

// value replaces the value of a statement.
func (t *tomlEdit) value(i int, v any) ([]byte, error) {
	text, err := inline(v)
	if err != nil {
		return nil, err
	}
	t.change(t.list[i].start, t.list[i].stop, text)
	return t.result(), nil
}

func (t *tomlEdit) remove(path []string) {
	for _, s := range t.list {
		if under(s.path, path) {
			t.change(s.begin, s.end, "")
		}
	}
}

// keep leaves an empty table, or list, in the place of the last object.
func (t *tomlEdit) keep(at, path []string, list bool) {
	place := len(t.raw)
	for _, s := range t.list {
		if under(s.path, at) && !under(s.path, path) {
			return
		}
		if s.kind != unstable.KeyValue || under(s.path, path) {
			place = min(place, s.begin)
		}
	}
	switch {
	case list && len(at) == 1:
		t.change(place, place, at[0]+" = []\n") // before all tables
	case !list && len(at) > 0:
		t.change(len(t.raw), len(t.raw), header(at, false)+"\n")
	}
}

// create writes a table for a new object after the others.
func (t *tomlEdit) create(at, path []string, to map[string]any, list bool) error {
	names := path
	if list {
		names = at
	}
	text, err := block(names, to, list)
	if err != nil {
		return err
	}
	place, seen := len(t.raw), false
	for _, s := range t.list {
		switch {
		case under(s.path, at):
			place, seen = s.end, true
		case seen && s.kind == unstable.KeyValue && place == s.begin:
			place = s.end // a table may not come between
		}
	}
	if !seen {
		place = len(t.raw)
	}
	t.change(place, place, "\n"+text)
	return nil
}

// members changes those fields of a table that differ.
func (t *tomlEdit) members(path []string, was, to map[string]any) error {
	add := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(maps.Collect(both(was, to)))) {
		old, before := was[k]
		now, after := to[k]
		at := append(slices.Clone(path), k)
		i := t.assigned(at)
		oldMap, wasMap := old.(map[string]any)
		nowMap, isMap := now.(map[string]any)
		switch {
		case before && after && same(old, now):
		case before && after && i >= 0:
			text, err := inline(now)
			if err != nil {
				return err
			}
			if t.list[i].value == unstable.Float && !strings.ContainsAny(text, ".e\"[{") {
				text += ".0"
			}
			t.change(t.list[i].start, t.list[i].stop, text)
		case before && after && wasMap && isMap:
			if err := t.members(at, oldMap, nowMap); err != nil {
				return err
			}
		default:
			t.remove(at)
			if after {
				add[k] = now
			}
		}
	}
	return t.add(path, add)
}

func both(a, b map[string]any) func(func(string, any) bool) {
	return func(yield func(string, any) bool) {
		for _, m := range []map[string]any{a, b} {
			for k, v := range m {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// add writes new fields of a table where its others are.
func (t *tomlEdit) add(path []string, fields map[string]any) error {
	if len(fields) == 0 {
		return nil
	}
	place, prefix, found := -1, []string(nil), false
	for i, s := range t.list {
		switch {
		case s.kind != unstable.KeyValue && slices.Equal(s.path, path):
			place, prefix, found = s.end, nil, true
			for _, n := range t.list[i+1:] {
				if n.kind != unstable.KeyValue {
					break
				}
				place = n.end
			}
		case !found && s.kind == unstable.KeyValue && under(s.path, path) && under(path, s.table):
			place, prefix = s.end, path[len(s.table):]
		}
	}
	text := ""
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		v, err := inline(fields[k])
		if err != nil {
			return err
		}
		text += dotted(append(slices.Clone(prefix), k)) + " = " + v + "\n"
	}
	if place < 0 {
		i := slices.IndexFunc(t.list, func(s statement) bool { return under(s.path, path) })
		if i < 0 {
			return errors.New("it has no table of its own")
		}
		place, text = t.list[i].begin, header(path, false)+text+"\n"
	}
	if place == len(t.raw) && len(t.raw) > 0 && t.raw[len(t.raw)-1] != '\n' {
		text = strings.TrimSuffix(text, "\n")
	}
	t.change(place, place, text)
	return nil
}

func header(names []string, list bool) string {
	if list {
		return "[[" + dotted(names) + "]]\n"
	}
	return "[" + dotted(names) + "]\n"
}

// block is a table with those below it.
func block(names []string, m map[string]any, list bool) (string, error) {
	text, below := header(names, list), ""
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if sub, is := m[k].(map[string]any); is {
			b, err := block(append(slices.Clone(names), k), sub, false)
			if err != nil {
				return "", err
			}
			below += "\n" + b
			continue
		}
		v, err := inline(m[k])
		if err != nil {
			return "", err
		}
		text += dotted([]string{k}) + " = " + v + "\n"
	}
	return text + below, nil
}

var bare = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func dotted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		if out[i] = n; !bare.MatchString(n) {
			out[i] = quoted(n)
		}
	}
	return strings.Join(out, ".")
}

func quoted(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(s) != nil {
		return `""`
	}
	return strings.ReplaceAll(strings.TrimSpace(b.String()), "\x7f", `\u007f`)
}

// inline is a value in one line.
func inline(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return quoted(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return string(v), nil
	case []any:
		var parts []string
		for _, e := range v {
			text, err := inline(e)
			if err != nil {
				return "", err
			}
			parts = append(parts, text)
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			text, err := inline(v[k])
			if err != nil {
				return "", err
			}
			parts = append(parts, dotted([]string{k})+" = "+text)
		}
		if len(parts) == 0 {
			return "{}", nil
		}
		return "{ " + strings.Join(parts, ", ") + " }", nil
	}
	return "", errors.New("TOML has no null")
}
