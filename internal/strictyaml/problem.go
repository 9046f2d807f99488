// Package strictyaml reads YAML (and so JSON) that people write, strictly: one
// document, no duplicate keys, no aliases, no custom tags, bounded in size and
// depth, checked against a JSON Schema. Every finding has a file, a line and a
// column.
package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
)

// Problem is one finding at a place in a file.
type Problem struct {
	File      string `json:"file"`
	Line      int    `json:"line"`   // from 1; 0 when the file as a whole is meant
	Column    int    `json:"column"` // from 1
	Message   string `json:"message"`
	IsWarning bool   `json:"warning"`
}

// String renders "file:line:col: what is wrong: what was expected".
func (p Problem) String() string {
	word := ""
	if p.IsWarning {
		word = "warning: "
	}
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s%s", p.File, word, p.Message)
	}
	return fmt.Sprintf("%s:%d:%d: %s%s", p.File, p.Line, p.Column, word, p.Message)
}

// Fatal reports whether any of the problems is more than a warning.
func Fatal(ps []Problem) bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return !p.IsWarning })
}

// Sort orders problems by file and position and drops repeats.
func Sort(ps []Problem) []Problem {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(ps)
}
