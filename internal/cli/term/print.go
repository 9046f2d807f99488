package term

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"
)

// Format is how data is printed.
type Format string

// The formats of -o.
const (
	Table Format = "table"
	JSON  Format = "json"
	YAML  Format = "yaml"
)

// Set reads the value of -o.
func (f *Format) Set(s string) error {
	switch v := Format(s); v {
	case Table, JSON, YAML:
		*f = v
		return nil
	}
	return errors.New("expected table, json or yaml")
}

// String is the value of -o.
func (f *Format) String() string { return string(*f) }

// Type names the value in the help of flags.
func (*Format) Type() string { return "string" }

// LineFormat is how data is printed that comes line by line.
type LineFormat struct{ Format }

// Set reads the value of -o.
func (f *LineFormat) Set(s string) error {
	switch v := Format(s); v {
	case Table, JSON:
		f.Format = v
		return nil
	}
	return errors.New("expected table, or json for one object per line")
}

// Data prints v as JSON or YAML. Both have the same keys.
func Data(w io.Writer, f Format, v any) error {
	if f == JSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var plain any // JSON is YAML, and only its decoder keeps integers whole
	if err := yaml.Unmarshal(raw, &plain); err != nil {
		return err
	}
	out, err := yaml.Marshal(plain)
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}

// Line prints v as JSON on one line.
func Line(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Printable makes text from elsewhere safe to show on one line: what moves a
// cursor, changes colours or turns the direction of writing becomes a space.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			return ' '
		}
		return r
	}, s)
}
