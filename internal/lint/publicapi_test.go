package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// publicPackages are those that other modules build on, each with the packages of internal
// that may be imported there, but in no exported declaration.
var publicPackages = []struct {
	folder string
	within []string
	least  int // files
}{
	{"reconcile", nil, 20},
	{"nodesdk", []string{"internal/core/clock", "internal/core/fleet", "internal/core/nodeconfig", "internal/core/secret", "internal/disk"}, 10},
}

// TestPublicPackagesStandAlone: no exported declaration of a public package names a type
// of internal, and all that is exported says what it is.
func TestPublicPackagesStandAlone(t *testing.T) {
	for _, public := range publicPackages {
		files := 0
		err := filepath.WalkDir(filepath.Join("..", "..", public.folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files++
			src, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, finding := range standsAlone(t, path, src, public.within...) {
				t.Error(finding)
			}
			return nil
		})
		if err != nil || files < public.least {
			t.Fatalf("%s: %d files, %v", public.folder, files, err)
		}
	}
	const clock = Module + "/internal/core/clock"
	for src, want := range map[string]int{
		"import _ \"" + clock + "\"":                                             1,
		"import \"" + clock + "\"\nfunc f(clock.T) { _ = clock.X }":              0,
		"import \"" + clock + "\"\n// F.\nfunc F() { _ = clock.X }":              0,
		"import \"" + clock + "\"\n// F.\nfunc F(clock.T) {}":                    1,
		"import \"" + clock + "\"\n// T.\ntype T struct{ a clock.T; B clock.T }": 1,
		"import \"" + clock + "\"\ntype t struct{ B clock.T }":                   0,
	} {
		var within []string
		if !strings.Contains(src, "_ \"") {
			within = []string{"internal/core/clock"}
		}
		if found := standsAlone(t, "x.go", []byte("package x\n"+src+"\n"), within...); len(found) != want {
			t.Errorf("found %v in %s", found, src)
		}
	}
	if found := standsAlone(t, "x.go", []byte("package x\nimport _ \""+Module+"/internal/core/clock\"\ntype Bare int\n// Said is.\ntype Said struct{}\nfunc (Said) Bare() {}\n")); len(found) != 3 {
		t.Errorf("found %v in what breaks the rule three times", found)
	}
}

func standsAlone(t *testing.T, path string, src []byte, within ...string) (findings []string) {
	set := token.NewFileSet()
	f := testkit.Value(parser.ParseFile(set, path, src, parser.ParseComments))(t)
	find := func(at token.Pos, text string) {
		findings = append(findings, set.Position(at).String()+": "+text)
	}
	inner := map[string]bool{}
	for _, i := range f.Imports {
		of, is := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), Module+"/")
		switch {
		case !is || !strings.HasPrefix(of, "internal/"):
		case i.Name == nil && slices.Contains(within, of):
			inner[filepath.Base(of)] = true
		default:
			find(i.Pos(), "a public package imports "+i.Path.Value)
		}
	}
	for _, n := range shownOf(f) {
		ast.Inspect(n, func(n ast.Node) bool {
			if sel, is := n.(*ast.SelectorExpr); is {
				if id, is := sel.X.(*ast.Ident); is && inner[id.Name] {
					find(sel.Pos(), "an exported declaration names "+id.Name+"."+sel.Sel.Name)
				}
			}
			return true
		})
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && ofExported(d) && d.Doc == nil && d.Name.Name != "Error" && !groupedAccessor(f, d) {
				find(d.Pos(), d.Name.Name+" has no doc comment")
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() && d.Doc == nil && ts.Doc == nil {
					find(ts.Pos(), ts.Name.Name+" has no doc comment")
				}
			}
		}
	}
	return findings
}

// shownOf lists what users of a package see of its declarations: signatures of exported
// functions, and exported types with their exported members.
func shownOf(f *ast.File) (out []ast.Node) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && ofExported(d) {
				out = append(out, d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if !s.Name.IsExported() {
						continue
					}
					st, is := s.Type.(*ast.StructType)
					if !is {
						out = append(out, s.Type)
						continue
					}
					for _, field := range st.Fields.List {
						if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
							out = append(out, field.Type)
						}
					}
				case *ast.ValueSpec:
					if slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
						out = append(out, s)
					}
				}
			}
		}
	}
	return out
}

// ofExported reports whether d is a function, or a method of an exported type.
func ofExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.IsExported() {
			exported = true
		}
		return true
	})
	return exported
}

// groupedAccessor reports whether d follows directly on a function whose comment
// begins by naming both, as in "Len counts ...; Active those ...".
func groupedAccessor(f *ast.File, d *ast.FuncDecl) bool {
	for i, decl := range f.Decls {
		if decl != d {
			continue
		}
		for i--; i >= 0; i-- {
			before, ok := f.Decls[i].(*ast.FuncDecl)
			if !ok {
				return false
			}
			if before.Doc != nil {
				return strings.Contains(before.Doc.Text(), d.Name.Name)
			}
		}
	}
	return false
}
