package strictyaml

import (
	"fmt"
	"strings"
	"testing"
)

func TestBrief(t *testing.T) {
	var all []Problem
	for i := range 30 {
		all = append(all, Problem{File: "compose.yaml", Line: i + 1, Column: 3, IsWarning: true, Message: fmt.Sprintf("%q is files of the bundle: expected :ro", fmt.Sprint("dir", i))})
	}
	for i := range 20 {
		all = append(all, Problem{File: "compose.yaml", Line: i + 1, Column: 3, IsWarning: true, Message: strings.Repeat("kind ", i+1)})
	}
	all = append(all, Problem{File: "fleet.yaml", Message: "wrong"})
	lines, left := Brief(all, 10)
	if len(lines) != 11 || left != 11 || lines[0].Message != "wrong" {
		t.Fatalf("%d lines, %d left: %v", len(lines), left, lines)
	}
	if want := `compose.yaml:1:3: warning: "dir0" is files of the bundle: expected :ro (and 29 more like it)`; lines[1].String() != want {
		t.Errorf("%s", lines[1])
	}
	if lines, left := Brief(all[:10], 10); len(lines) != 10 || left != 0 {
		t.Errorf("ten are shortened: %v", lines)
	}
}
