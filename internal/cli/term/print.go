package term

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/steadyfleet/steady/internal/core/prose"
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
		return encode(w, v, "  ")
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
	_, err = io.WriteString(w, prose.Lines(string(out)))
	return err
}

// Line prints v as JSON on one line.
func Line(w io.Writer, v any) error { return encode(w, v, "") }

// encode writes JSON in which what would do something to a terminal is escaped.
func encode(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(prose.Escaped(b.Bytes()))
	return err
}

// Printable makes text from elsewhere safe to show on one line.
func Printable(s string) string { return prose.Line(s) }

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Shown is what people are shown: nothing in it but colours, tabs and ends of lines
// does anything to a terminal, whoever forgot to make a part of it Printable.
func Shown(s string) string {
	if !strings.Contains(s, "\x1b") {
		return prose.Lines(s)
	}
	var b strings.Builder
	at := 0
	for _, c := range colours.FindAllStringIndex(s, -1) {
		b.WriteString(prose.Lines(s[at:c[0]]) + s[c[0]:c[1]])
		at = c[1]
	}
	return b.String() + prose.Lines(s[at:])
}
