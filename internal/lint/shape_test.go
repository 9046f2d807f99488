package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// Limits of shape. Lines are counted as an editor shows them.
const (
	maxFileLines = 500
	maxFuncLines = 70
	maxMainLines = 60
	maxDepth     = 3
)

// vague are package names that say nothing about what is inside.
var vague = []string{"util", "utils", "common", "helpers", "types", "misc", "shared"}

// PackageShape checks the name, place and comment of one package.
func PackageShape(p Package) []Finding {
	var out []Finding
	add := func(format string, args ...any) {
		out = append(out, Finding{File: p.Rel(), Text: fmt.Sprintf(format, args...)})
	}
	if slices.Contains(vague, p.Name) || slices.Contains(vague, path.Base(p.Rel())) {
		add("the name %q says nothing: name the package after what it provides (not %s)", p.Name, quoteAll(vague))
	}
	if depth := strings.Count(p.Rel(), "/") + 1; depth > maxDepth {
		add("is %d folders deep, the most is %d: join it with its parent or move it up", depth, maxDepth)
	}
	if len(p.GoFiles) > 0 && p.Doc == "" {
		add("has no package comment: write `// Package %s ...` above the package clause of one file, saying what it is for", p.Name)
	}
	return out
}

// FileShape checks the form of one Go file: format, size, and what code and
// tests may not contain. Name is relative to the root.
func FileShape(name string, src []byte) []Finding {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	if err != nil {
		return []Finding{{File: name, Text: "does not parse: " + err.Error()}}
	}
	s := &shape{name: name, fset: fset, test: strings.HasSuffix(name, "_test.go")}
	if formatted, err := format.Source(src); err != nil || !bytes.Equal(formatted, src) {
		s.add(nil, "is not formatted: run `gofmt -w %s`", name)
	}
	if ast.IsGenerated(f) {
		return s.found
	}
	if lines := bytes.Count(src, []byte("\n")); !s.test && lines > maxFileLines {
		s.add(nil, "has %d lines, the most is %d: split it by what its parts are for", lines, maxFileLines)
	}
	ast.Inspect(f, s.node)
	if s.test {
		s.sleeps(f)
	}
	return s.found
}

type shape struct {
	name  string
	fset  *token.FileSet
	test  bool
	found []Finding
}

func (s *shape) add(n ast.Node, format string, args ...any) {
	line := 0
	if n != nil {
		line = s.fset.Position(n.Pos()).Line
	}
	s.found = append(s.found, Finding{File: s.name, Line: line, Text: fmt.Sprintf(format, args...)})
}

func (s *shape) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		s.function(n)
	case *ast.Ident:
		if n.Name == "InsecureSkipVerify" && !s.test {
			s.add(n, "InsecureSkipVerify outside a test: give the client the fleet's CA in RootCAs, "+
				"or check the peer in VerifyConnection of a config that still verifies")
		}
	}
	return true
}

func (s *shape) function(fn *ast.FuncDecl) {
	if s.test || fn.Body == nil {
		return
	}
	if fn.Name.Name == "main" && fn.Recv == nil && strings.HasPrefix(s.name, "cmd/") {
		if lines := s.lines(fn); lines > maxMainLines {
			s.add(fn, "main has %d lines, the most is %d: it only wires; move the rest into internal", lines, maxMainLines)
		}
	}
	lines := s.lines(fn)
	if lines > maxFuncLines {
		lines -= s.tableLines(fn)
	}
	if lines > maxFuncLines {
		s.add(fn, "%s has %d lines without its tables, the most is %d: name its steps and make them functions", fn.Name.Name, lines, maxFuncLines)
	}
}

func (s *shape) lines(n ast.Node) int {
	return s.fset.Position(n.End()).Line - s.fset.Position(n.Pos()).Line + 1
}

// tableLines counts the lines of literals that hold data only, so that a table
// may be as long as it has rows. A literal with a function in it is code.
func (s *shape) tableLines(fn *ast.FuncDecl) int {
	total := 0
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || hasFunc(lit) {
			return true
		}
		total += s.lines(lit) - 1
		return false
	})
	return total
}

func hasFunc(lit *ast.CompositeLit) bool {
	found := false
	ast.Inspect(lit, func(n ast.Node) bool {
		_, is := n.(*ast.FuncLit)
		found = found || is
		return !found
	})
	return found
}

// sleeps finds time.Sleep in a test. Inside synctest.Test it moves a clock that
// is not real, and is allowed; a helper that only bubbles call says so with
// `// in a bubble` on the line.
func (s *shape) sleeps(f *ast.File) {
	bubbles := map[int]bool{}
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "// in a bubble") {
				bubbles[s.fset.Position(c.Pos()).Line] = true
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && isSelector(call.Fun, "synctest", "Test") {
			return false
		}
		sel, ok := n.(*ast.SelectorExpr)
		if ok && isSelector(sel, "time", "Sleep") && !bubbles[s.fset.Position(sel.Pos()).Line] {
			s.add(sel, "time.Sleep in a test: wait for the event itself (a channel, a callback, a follow of the log), "+
				"or run in synctest.Test, where time is virtual")
		}
		return true
	})
}

func isSelector(e ast.Expr, pkg, name string) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}
