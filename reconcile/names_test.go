package reconcile_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
)

var rewrite = flag.Bool("rewrite", false, "write types.go and values.go again from package engine")

// named are the types of package engine that a program or a store names, with the name that they have
// here where it is another one.
var named = map[string]string{
	"Ref": "", "Resource": "", "View": "", "Child": "", "Status": "", "Event": "", "Action": "", "Decision": "", "Reason": "", "Code": "",
	"Phase": "", "Intent": "", "Op": "", "Verdict": "", "FailureAction": "", "DriftMode": "", "Policy": "", "RetryPolicy": "", "History": "HistoryPolicy",
	"Trigger": "", "Cause": "", "Priority": "", "Row": "", "Transition": "", "Change": "", "Block": "", "OwnerError": "",
	"Committed": "", "Opened": "", "OpenRef": "", "Filter": "", "Snapshot": "", "Record": "", "Act": "", "Raise": "",
}

// valued matches the constants and errors of package engine that a program names.
var valued = regexp.MustCompile(`^(Pending|Acting|Verifying|Retrying|Waiting|Converged|Degraded|Drifted|Deleting|Failed|Deleted|Orphaned|Report|Enforce|Continue|Abort|Op[A-Z].*|Trigger[A-Z].*|Code[A-Z].*|Max(Report|EventData|EventName|Unhandled|Causes|Passed)|PassedOften|Err.*|Never)$`)

// TestNamesOfTheEngine: types.go and values.go have each name with its own documentation, its fields and its methods,
// so that go doc of package reconcile is all that is needed.
func TestNamesOfTheEngine(t *testing.T) {
	e := parseEngine(t)
	for file, want := range map[string][]byte{"types.go": e.types(t), "values.go": e.values(t)} {
		if *rewrite {
			testkit.Must(t, os.WriteFile(file, want, 0o644))
		} else if have := testkit.Value(os.ReadFile(file))(t); !bytes.Equal(have, want) {
			t.Errorf("%s is not what package engine has: go test ./reconcile -run TestNamesOfTheEngine -rewrite\n%s", file, cmp.Diff(string(have), string(want)))
		}
	}
}

type engineSource struct {
	fset    *token.FileSet
	files   []*ast.File
	methods map[string][]*ast.FuncDecl // by type
}

func parseEngine(t *testing.T) *engineSource {
	e := &engineSource{fset: token.NewFileSet(), methods: map[string][]*ast.FuncDecl{}}
	for _, name := range testkit.Value(filepath.Glob("engine/*.go"))(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f := testkit.Value(parser.ParseFile(e.fset, name, nil, parser.ParseComments))(t)
		e.files = append(e.files, f)
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && fn.Name.IsExported() {
				of := strings.TrimLeft(e.text(fn.Recv.List[0].Type), "*")
				of, _, _ = strings.Cut(of, "[")
				e.methods[of] = append(e.methods[of], fn)
			}
		}
	}
	return e
}

func (e *engineSource) text(n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, e.fset, n); err != nil {
		panic(err) // what was parsed prints
	}
	return b.String()
}

// comment writes text as the lines of a comment.
func comment(b *bytes.Buffer, text, indent string) {
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString(strings.TrimRight("// "+indent+line, " \t") + "\n")
	}
}

// here is text of package engine as package reconcile spells it.
func here(text string) string {
	for from, to := range named {
		if to != "" {
			text = regexp.MustCompile(`\b`+from+`\b( +`+"`"+`json|$)`).ReplaceAllString(text, to+"$1")
		}
	}
	return text
}

func (e *engineSource) types(t *testing.T) []byte {
	var b bytes.Buffer
	b.WriteString("// Made of package engine by TestNamesOfTheEngine -rewrite.\n\npackage reconcile\n\nimport \"github.com/steadyfleet/steady/reconcile/engine\"\n")
	missing := maps.Clone(named)
	for _, f := range e.files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				spec := s.(*ast.TypeSpec)
				name, ok := named[spec.Name.Name]
				if !ok {
					continue
				}
				delete(missing, spec.Name.Name)
				e.alias(&b, g, spec, name)
			}
		}
	}
	if len(missing) > 0 {
		t.Fatalf("package engine has no %v", slices.Sorted(maps.Keys(missing)))
	}
	return testkit.Value(format.Source(b.Bytes()))(t)
}

// firstSentence is the first sentence of the first comment that has one, as a comment at the end of a line.
func firstSentence(comments ...*ast.CommentGroup) string {
	for _, c := range comments {
		if text := strings.Join(strings.Fields(c.Text()), " "); text != "" {
			text, _, _ = strings.Cut(text, ". ")
			return " // " + strings.TrimSuffix(text, ".")
		}
	}
	return ""
}

// alias writes one type with its documentation, its exported fields and its methods.
func (e *engineSource) alias(b *bytes.Buffer, g *ast.GenDecl, spec *ast.TypeSpec, name string) {
	engineName := spec.Name.Name
	if name == "" {
		name = engineName
	}
	doc := spec.Doc
	if doc == nil {
		doc = g.Doc
	}
	b.WriteString("\n")
	comment(b, strings.Replace(doc.Text(), engineName, name, 1), "")
	var parts []string
	switch x := spec.Type.(type) {
	case *ast.StructType:
		for _, f := range x.Fields.List {
			if len(f.Names) > 0 && !f.Names[0].IsExported() {
				continue
			}
			said := firstSentence(f.Doc, f.Comment)
			f.Doc, f.Tag = nil, nil
			var names []string
			for _, n := range f.Names {
				names = append(names, n.Name)
			}
			line := strings.TrimSpace(strings.Join(names, ", ") + " " + here(e.text(f.Type)))
			parts = append(parts, line+said)
		}
	case *ast.InterfaceType:
		for _, f := range x.Methods.List {
			parts = append(parts, f.Names[0].Name+strings.TrimPrefix(e.text(f.Type), "func"))
		}
	}
	for _, m := range e.methods[engineName] {
		said := firstSentence(m.Doc)
		m.Body, m.Doc = nil, nil
		parts = append(parts, here(e.text(m))+said)
	}
	if len(parts) > 0 {
		b.WriteString("//\n")
		comment(b, strings.Join(parts, "\n"), "\t")
	}
	params, args := "", ""
	if spec.TypeParams != nil {
		var names []string
		for _, p := range spec.TypeParams.List {
			for _, n := range p.Names {
				names = append(names, n.Name)
			}
		}
		args = "[" + strings.Join(names, ", ") + "]"
		params = "[" + strings.Join(names, ", ") + " any]"
	}
	b.WriteString("type " + name + params + " = engine." + engineName + args + "\n")
}

func (e *engineSource) values(t *testing.T) []byte {
	var b bytes.Buffer
	b.WriteString("// Made of package engine by TestNamesOfTheEngine -rewrite.\n\npackage reconcile\n\nimport \"github.com/steadyfleet/steady/reconcile/engine\"\n")
	for _, f := range e.files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST && g.Tok != token.VAR {
				continue
			}
			var lines bytes.Buffer
			for _, s := range g.Specs {
				spec := s.(*ast.ValueSpec)
				for _, n := range spec.Names {
					if !valued.MatchString(n.Name) {
						continue
					}
					if spec.Doc != nil {
						comment(&lines, spec.Doc.Text(), "")
					}
					lines.WriteString(n.Name + " = engine." + n.Name)
					if c := strings.TrimSpace(spec.Comment.Text()); c != "" {
						lines.WriteString(" // " + c)
					}
					lines.WriteString("\n")
				}
			}
			if lines.Len() > 0 {
				b.WriteString("\n")
				if g.Doc != nil {
					comment(&b, g.Doc.Text(), "")
				}
				b.WriteString(g.Tok.String() + " (\n" + lines.String() + ")\n")
			}
		}
	}
	return testkit.Value(format.Source(b.Bytes()))(t)
}

// TestReconcileAloneIsEnough: whatever type of package engine can be reached from the API of this package has a name here.
func TestReconcileAloneIsEnough(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type, string)
	walk = func(x reflect.Type, from string) {
		if seen[x] {
			return
		}
		seen[x] = true
		name, _, _ := strings.Cut(x.Name(), "[")
		if path.Base(x.PkgPath()) == "engine" {
			if _, ok := named[name]; !ok {
				t.Errorf("%s has engine.%s, which has no name in reconcile", from, x.Name())
			}
		}
		for m := range x.NumMethod() {
			walk(x.Method(m).Type, x.String()+"."+x.Method(m).Name)
		}
		switch x.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Chan:
			walk(x.Elem(), from)
		case reflect.Func:
			for i := range x.NumIn() {
				walk(x.In(i), from)
			}
			for i := range x.NumOut() {
				walk(x.Out(i), from)
			}
		case reflect.Struct:
			for i := range x.NumField() {
				if f := x.Field(i); f.IsExported() && strings.Contains(x.PkgPath(), "reconcile") {
					walk(f.Type, x.String()+"."+f.Name)
				}
			}
		}
	}
	for _, f := range []any{
		reconcile.New, reconcile.Register[int, int], reconcile.Of[int, int], reconcile.Run, reconcile.Drive[int, int], reconcile.Replay[int, int],
		reconcile.DecideTwice[int, int], reconcile.WithRepairGate, reconcile.WithAfterCommit, reconcile.WithMetrics, reconcile.WithTracer,
		reconcile.WithRecorder, reconcile.IsBlocked, reconcile.KindOf[int].Upsert, (*reconcile.NotConvergedError)(nil), (*reconcile.OwnerError)(nil),
	} {
		walk(reflect.TypeOf(f), "the API")
	}
	if len(seen) < 60 {
		t.Errorf("the walk saw %d types, want all of them", len(seen))
	}
}

// TestOneSpelling: pages and documentation for users name reconcile, and package engine only where a store is written.
func TestOneSpelling(t *testing.T) {
	for _, page := range []string{"README.md", "doc.go", "../docs/reconcile.md", "../docs/reconcile-tutorial.md"} {
		for i, line := range strings.Split(string(testkit.Value(os.ReadFile(page))(t)), "\n") {
			if regexp.MustCompile(`\bengine\.[A-Z]`).MatchString(line) {
				t.Errorf("%s:%d: %s", page, i+1, line)
			}
		}
	}
	for _, example := range testkit.Value(filepath.Glob("examples/*/*.go"))(t) {
		if strings.Contains(string(testkit.Value(os.ReadFile(example))(t)), "reconcile/engine\"") {
			t.Errorf("%s imports package engine", example)
		}
	}
}
