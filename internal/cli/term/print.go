package term

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

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

// ParseFormat reads the value of -o.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Table, JSON, YAML:
		return f, nil
	}
	return "", fmt.Errorf("output format %q is not known: expected table, json or yaml", s)
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
			if cells[i] = c; c == "" {
				cells[i] = "-"
			}
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}
