package term

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
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

// Rows prints a table with a header. Empty cells show as "-".
func Rows(w io.Writer, header []string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.ToUpper(strings.Join(header, "\t")))
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			if cells[i] = Printable(c); c == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
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

// Fit prints a table whose lines are cut to the width of a screen; off a terminal
// they stay whole.
func Fit(w io.Writer, s Screen, header []string, rows [][]string) error {
	lines, err := Lines(header, rows)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, Cut(line, s.Width)); err != nil {
			return err
		}
	}
	return nil
}

// Lines is a table as lines.
func Lines(header []string, rows [][]string) ([]string, error) {
	var b strings.Builder
	if err := Rows(&b, header, rows); err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n"), nil
}
