// Package strictyaml reads YAML (and so JSON) that people write, strictly: one
// document, no duplicate keys, no aliases, no custom tags, bounded in size and
// depth, checked against a JSON Schema. Every finding has a file, a line and a
// column.
package strictyaml

import (
	"cmp"
	"fmt"
	"regexp"
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

// Line is one line about problems of one class.
type Line struct {
	Problem
	More int // further ones of the class that are left out
}

func (l Line) String() string {
	if l.More == 0 {
		return l.Problem.String()
	}
	return fmt.Sprintf("%s (and %d more like it)", l.Problem, l.More)
}

// Brief has a line for each problem, or, with more warnings than most, one for each class of them, the largest classes
// first and most at most. Left counts the warnings that no line stands for.
func Brief(ps []Problem, most int) (lines []Line, left int) {
	var warnings []Line
	at, count := map[string]int{}, 0
	for _, p := range ps {
		if !p.IsWarning {
			lines = append(lines, Line{Problem: p})
			continue
		}
		count++
		if i, known := at[p.class()]; known {
			warnings[i].More++
			continue
		}
		at[p.class()] = len(warnings)
		warnings = append(warnings, Line{Problem: p})
	}
	if count <= most {
		lines = nil
		for _, p := range ps {
			lines = append(lines, Line{Problem: p})
		}
		return lines, 0
	}
	slices.SortStableFunc(warnings, func(a, b Line) int { return b.More - a.More })
	for _, w := range warnings[min(most, len(warnings)):] {
		left += 1 + w.More
	}
	return append(lines, warnings[:min(most, len(warnings))]...), left
}

// particular is what of a message is about one case: quoted texts, numbers, and words that are paths or variables.
var particular = regexp.MustCompile(`"[^"]*"|\S*[/$=]\S*|\d+\S*`)

// class is the message without what is about one case alone.
func (p Problem) class() string { return particular.ReplaceAllString(p.Message, "_") }

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
