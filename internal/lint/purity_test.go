package lint

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// pureStd is all of the standard library that the core may import.
var pureStd = []string{
	"bytes", "cmp", "container/heap", "crypto/hmac", "crypto/sha256", "encoding/base64", "encoding/binary", "encoding/hex", "encoding/json", "errors", "fmt", "hash",
	"iter", "maps", "math", "math/bits", "net/netip", "net/url", "slices", "sort", "strconv", "strings", "time", "unicode", "unicode/utf8",
}

// pureExceptions are further imports of single packages, each with its reason.
var pureExceptions = map[string]map[string]string{
	"internal/core/event":   {"reflect": "the registry makes a value of a registered type; it reads nothing else"},
	"internal/core/drift":   {"reflect": "what a node says of its collections is compared with what it said before"},
	"internal/core/fleet":   {"regexp": "names match one fixed pattern, in linear time"},
	"internal/core/session": {"regexp": "a parameter of a template matches the pattern that its owner gives, in linear time"},
}

// impure are the functions of allowed packages that read or change the world.
var impure = map[string]string{
	"time.Now": clockAdvice, "time.Since": clockAdvice, "time.Until": clockAdvice, "time.After": timerAdvice,
	"time.AfterFunc": timerAdvice, "time.NewTimer": timerAdvice, "time.NewTicker": timerAdvice,
	"time.Tick": timerAdvice, "time.Sleep": timerAdvice,
	"time.Local": zoneAdvice, "time.LoadLocation": zoneAdvice,
	"fmt.Print": printAdvice, "fmt.Printf": printAdvice, "fmt.Println": printAdvice,
	"fmt.Scan": printAdvice, "fmt.Scanf": printAdvice, "fmt.Scanln": printAdvice,
}

const (
	clockAdvice = "take the instant as a clock.Instant argument; the shell reads the clock"
	timerAdvice = "return a deadline as data; the shell owns timers"
	zoneAdvice  = "use UTC; the zone of the machine is not an input of a decision"
	printAdvice = "return the text; the shell prints"
	goAdvice    = "return an effect as data; goroutines and channels belong to a shell"
	mapAdvice   = "a map has no order: range over slices.Sorted(maps.Keys(m)), or sort what the loop collects in the same block, " +
		"or write `// order-free: reason` on the line"
)

// IsPure reports whether the package in folder rel must be pure.
func IsPure(rel string) bool {
	return strings.HasPrefix(rel, "internal/core/") || rel == "reconcile/engine" || strings.HasPrefix(rel, "reconcile/engine/")
}

// PureImports checks the direct imports of one pure package.
func PureImports(rel string, imports []string) []Finding {
	var out []Finding
	for _, path := range imports {
		inside, ours := strings.CutPrefix(path, Module+"/")
		_, excepted := pureExceptions[rel][path]
		if excepted || slices.Contains(pureStd, path) || (ours && IsPure(inside)) {
			continue
		}
		out = append(out, Finding{File: rel, Text: fmt.Sprintf("imports %q, but the core may import only other core packages, "+
			"reconcile/engine and the standard packages listed in internal/lint: move what needs it into a shell and pass its result in", path)})
	}
	return out
}

// Purity type-checks Go files and finds what the core may not do.
type Purity struct {
	root string
	fset *token.FileSet
	imp  types.Importer
}

// NewPurity prepares a checker for files below root. It finds the types of
// imported packages in the export files of pkgs, from `go list -export -deps`.
func NewPurity(root string, pkgs []Package) *Purity {
	exports := map[string]string{}
	for _, p := range pkgs {
		exports[p.ImportPath] = p.Export
	}
	fset := token.NewFileSet()
	lookup := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("package %s was not built", path)
		}
		return os.Open(exports[path])
	}
	return &Purity{root: root, fset: fset, imp: importer.ForCompiler(fset, "gc", lookup)}
}

// Check finds forbidden constructs in the files of one package, given by name
// in dir. A file that does not type-check is a finding: map ranges in it could
// not be seen.
func (c *Purity) Check(importPath, dir string, names []string) ([]Finding, error) {
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(c.fset, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse a file of the core: %w", err)
		}
		files = append(files, f)
	}
	var out []Finding
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: c.imp, Error: func(err error) {
		out = append(out, Finding{File: rel(importPath), Text: "does not type-check, so its map ranges cannot be seen: " + err.Error()})
	}}
	// Every error goes to conf.Error; the first is returned again.
	_, _ = conf.Check(importPath, c.fset, files, info)
	for _, f := range files {
		w := &walker{purity: c, info: info, excused: orderFree(c.fset, f)}
		ast.Inspect(f, w.node)
		out = append(out, w.found...)
	}
	Sort(out)
	return out, nil
}

// orderFree returns the lines that carry, or follow, an order-free comment with
// a reason.
func orderFree(fset *token.FileSet, f *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range f.Comments {
		for _, comment := range group.List {
			reason, ok := strings.CutPrefix(comment.Text, "// order-free:")
			if ok && len(strings.TrimSpace(reason)) > 3 {
				line := fset.Position(comment.Pos()).Line
				lines[line], lines[fset.Position(group.End()).Line+1] = true, true
			}
		}
	}
	return lines
}

type walker struct {
	purity  *Purity
	info    *types.Info
	excused map[int]bool
	found   []Finding
	// settled are the calls and ranges already judged by their surroundings.
	settled map[ast.Node]bool
}

func (w *walker) add(n ast.Node, what, advice string) {
	pos := w.purity.fset.Position(n.Pos())
	name, err := filepath.Rel(w.purity.root, pos.Filename)
	if err != nil {
		name = pos.Filename
	}
	w.found = append(w.found, Finding{File: filepath.ToSlash(name), Line: pos.Line, Text: what + " in the pure core: " + advice})
}

func (w *walker) node(n ast.Node) bool {
	if w.settled == nil {
		w.settled = map[ast.Node]bool{}
	}
	switch n := n.(type) {
	case *ast.GoStmt:
		w.add(n, "a go statement", goAdvice)
	case *ast.SelectStmt:
		w.add(n, "a select statement", goAdvice)
	case *ast.ChanType:
		w.add(n, "a channel type", goAdvice)
	case *ast.Ident:
		w.ident(n)
	case *ast.BlockStmt:
		w.ranges(n.List)
	case *ast.CaseClause:
		w.ranges(n.Body)
	case *ast.CallExpr:
		w.call(n)
	}
	return true
}

func (w *walker) ident(id *ast.Ident) {
	obj := w.info.Uses[id]
	if obj == nil {
		return
	}
	if _, ok := obj.(*types.Builtin); ok && (obj.Name() == "print" || obj.Name() == "println") {
		w.add(id, obj.Name(), printAdvice)
		return
	}
	if obj.Pkg() == nil || obj.Parent() != obj.Pkg().Scope() {
		return
	}
	name := obj.Pkg().Path() + "." + obj.Name()
	if advice, bad := impure[name]; bad {
		w.add(id, name, advice)
	}
}

// call judges the iterators of package maps: their order is as random as that
// of a range, so they may only feed something that sorts or has no order.
func (w *walker) call(call *ast.CallExpr) {
	switch w.callee(call) {
	case "slices.Sorted", "slices.SortedFunc", "slices.SortedStableFunc", "maps.Collect", "maps.Insert":
		for _, arg := range call.Args {
			w.settled[arg] = true
		}
	case "maps.Keys", "maps.Values", "maps.All":
		if !w.settled[call] && !w.excused[w.purity.fset.Position(call.Pos()).Line] {
			w.add(call, "an unsorted "+w.callee(call), mapAdvice)
		}
	}
}

// callee names the function that a call calls, as "path.Name".
func (w *walker) callee(call *ast.CallExpr) string {
	fun := call.Fun
	if ix, ok := fun.(*ast.IndexExpr); ok {
		fun = ix.X
	}
	var id *ast.Ident
	switch fun := fun.(type) {
	case *ast.SelectorExpr:
		id = fun.Sel
	case *ast.Ident:
		id = fun
	default:
		return ""
	}
	obj := w.info.Uses[id]
	if obj == nil {
		return ""
	}
	if obj.Pkg() == nil {
		return obj.Name()
	}
	return obj.Pkg().Path() + "." + obj.Name()
}

// quoteAll is for messages.
func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	return strings.Join(quoted, ", ")
}
