package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// tomlFormat is TOML 1.1. Dates, times and floats that are no numbers have a type.
type tomlFormat struct{}

// The types of what TOML has and JSON has not.
const (
	tomlDate     = "!date"
	tomlTime     = "!time"
	tomlDateTime = "!datetime"
)

// errNameless refuses what the parser loses values of.
var errNameless = errors.New(`it has a key without a name (""), which is not supported in TOML: give it one`)

// parse reads with a parser that the editor has no part in, and takes from the text what
// that does not keep: the spelling of dates and times, and integers beyond 64 bits.
func (tomlFormat) parse(raw []byte) (any, error) {
	text := strings.TrimPrefix(string(raw), byteOrderMark)
	var m map[string]any
	_, err := toml.Decode(text, &m)
	bad := toml.ParseError{}
	if err != nil && (!errors.As(err, &bad) || !strings.Contains(bad.Message, "out of range")) {
		return nil, noTOML(bad.Position)
	}
	small, literals, nameless := literalsOf(text)
	if nameless {
		return nil, errNameless
	}
	if err != nil {
		if _, err = toml.Decode(small, &m); err != nil {
			return nil, noTOML(bad.Position)
		}
	}
	doc := tomlValue(m)
	for _, l := range literals {
		l.put(doc)
	}
	return doc, nil
}

// noTOML has the place alone: the text of the library's error has some of the file.
func noTOML(at toml.Position) error {
	if at.Line == 0 {
		return errors.New("no TOML")
	}
	return fmt.Errorf("no TOML in line %d, column %d", at.Line, at.Col)
}

// tomlValue is a value in normal form.
func tomlValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v { // order-free: each by itself
			out[k] = tomlValue(e)
		}
		return nodeconfig.MapOf(out)
	case []map[string]any:
		return listOf(v)
	case []any:
		return listOf(v)
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	case float64:
		return tomlFloatValue(v)
	case time.Time:
		switch v.Location().String() { // as the library names those of no place
		case "datetime-local":
			return map[string]any{tomlDateTime: v.Format("2006-01-02T15:04:05.999999999")}
		case "date-local":
			return map[string]any{tomlDate: v.Format(time.DateOnly)}
		case "time-local":
			return map[string]any{tomlTime: v.Format("15:04:05.999999999")}
		}
		return map[string]any{tomlDateTime: v.Format(time.RFC3339Nano)}
	}
	return v
}

func listOf[E any](list []E) []any {
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = tomlValue(e)
	}
	return out
}

func tomlFloatValue(f float64) any {
	switch {
	case math.IsNaN(f):
		return map[string]any{strictyaml.FloatType: "nan"}
	case math.IsInf(f, 1):
		return map[string]any{strictyaml.FloatType: "inf"}
	case math.IsInf(f, -1):
		return map[string]any{strictyaml.FloatType: "-inf"}
	}
	text := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return json.Number(text)
}

// literal is a value that is kept as it is spelled.
type literal struct {
	path    []string // with indices
	text    string
	integer bool // beyond 64 bits; a date or time otherwise
}

// literalsOf lists those of a text, and has it with small numbers in the place of integers beyond
// 64 bits, which a parser refuses. Nameless reports whether there is an empty key.
func literalsOf(text string) (_ string, list []literal, nameless bool) {
	small := []byte(text)
	var walk func(path []string, p *piece)
	walk = func(path []string, p *piece) {
		for i, it := range p.items {
			step := it.key
			if p.open == '[' {
				step = []string{strconv.Itoa(i)}
			}
			nameless = nameless || slices.Contains(step, "")
			walk(append(path[:len(path):len(path)], step...), it.value)
		}
		word := text[p.start:p.end]
		if p.open != 0 || word == "" || strings.IndexByte("0123456789+-", word[0]) < 0 {
			return
		}
		if n, is := integer(word); is && !n.IsInt64() {
			copy(small[p.start:p.end], "0"+strings.Repeat(" ", len(word)-1))
			list = append(list, literal{path, n.String(), true})
		} else if temporal(word) {
			list = append(list, literal{path, word, false})
		}
	}
	for _, s := range statementsOf(text) {
		nameless = nameless || slices.Contains(s.path, "")
		if s.value != nil {
			walk(s.path, s.value)
		}
	}
	return string(small), list, nameless
}

func temporal(word string) bool {
	return len(word) > 4 && (word[2] == ':' || word[4] == '-' && strings.IndexByte("+-", word[0]) < 0)
}

// integer is an integer as TOML spells it.
func integer(word string) (*big.Int, bool) {
	if strings.HasPrefix(strings.TrimLeft(word, "+-"), "0") && len(strings.TrimLeft(word, "+-")) > 1 && strings.IndexByte("xob", strings.TrimLeft(word, "+-")[1]) < 0 {
		return nil, false
	}
	return new(big.Int).SetString(word, 0)
}

// put has a literal in the place of what was read there, of the type that it has there.
func (l literal) put(v any) {
	for i, step := range l.path {
		last := i == len(l.path)-1
		if list, is := v.([]any); is {
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(list) {
				return
			}
			if v = list[n]; last {
				list[n] = l.over(v)
			}
			continue
		}
		m, is := v.(map[string]any)
		if below, wrapped := m[nodeconfig.PlainMap].(map[string]any); wrapped && len(m) == 1 && step != nodeconfig.PlainMap {
			m = below
		}
		if _, there := m[step]; !is || !there {
			return
		}
		if v = m[step]; last {
			m[step] = l.over(v)
		}
	}
}

func (l literal) over(v any) any {
	if l.integer {
		return json.Number(l.text)
	}
	switch name, _, _ := nodeconfig.TypeOf(v); name {
	case tomlDate, tomlTime, tomlDateTime:
		return map[string]any{name: l.text}
	}
	return v
}

// tomlSyntax writes TOML.
type tomlSyntax struct{ eol string }

func (tomlSyntax) wide() bool     { return false } // a reader of TOML 1.0 takes none within braces
func (tomlSyntax) braces() string { return " " }

func (tomlSyntax) between() string { return ", " }

func (tomlSyntax) member(key []string) string { return dotted(key) + " = " }

func (s tomlSyntax) scalar(old string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return s.quoted(old, v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return string(v), checkNumber(v)
	case nil:
		return "", errors.New("TOML has no null: leave the field out, or give it a value")
	}
	name, below, _ := nodeconfig.TypeOf(v)
	text, _ := below.(string)
	switch name {
	case tomlDate, tomlTime, tomlDateTime, strictyaml.FloatType:
		var m map[string]any
		if _, err := toml.Decode("v = "+text, &m); err == nil && len(m) == 1 && !strings.ContainsAny(text, "#\r\n") && strings.TrimSpace(text) == text {
			if read, _, _ := nodeconfig.TypeOf(tomlValue(m["v"])); read == name {
				return text, nil
			}
		}
		return "", fmt.Errorf("TOML has no value %q of type %s: expected one such as %s", text, name, map[string]string{
			tomlDate: "2024-05-01", tomlTime: "07:32:00", tomlDateTime: "2024-05-01T07:32:00Z", strictyaml.FloatType: "nan, inf or -inf"}[name])
	}
	return "", fmt.Errorf("TOML has no value of type %s: write it as the text or number that the program reads", name)
}

// checkNumber refuses what readers of TOML take for another number, or for none.
func checkNumber(n json.Number) error {
	if !strings.ContainsAny(string(n), ".eE") {
		if _, err := n.Int64(); err != nil {
			return fmt.Errorf("integers of TOML have 64 bits, and %s has more: write it as a text, if the program reads one", n)
		}
		return nil
	}
	f, err := n.Float64()
	if read, is := tomlFloatValue(f).(json.Number); err != nil || !is || !same(read, n) {
		return fmt.Errorf("floats of TOML have 64 bits, and %s would be read as another number", n)
	}
	return nil
}

// quoted writes a text in the quotes of what it replaces, where they can have it.
func (s tomlSyntax) quoted(old, v string) string {
	literal := !strings.Contains(v, "'") && !strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' || r == 0x7f })
	lines := strings.Split(v, "\n")
	switch {
	case strings.HasPrefix(old, "\"\"\"") && len(lines) > 1 && s.eol == "\n":
		for i, line := range lines {
			line = quoted(line)
			lines[i] = line[1 : len(line)-1]
		}
		return "\"\"\"\n" + strings.Join(lines, "\n") + "\"\"\""
	case strings.HasPrefix(old, "'''") && len(lines) > 1 && s.eol == "\n" && literal:
		return "'''\n" + v + "'''"
	case strings.HasPrefix(old, "'") && len(lines) == 1 && literal:
		return "'" + v + "'"
	}
	return quoted(v)
}
