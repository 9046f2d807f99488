package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestPublicPackagesStandAlone: nothing outside tests under reconcile imports internal,
// so that no exported signature can name a type of it, and all that is exported says
// what it is.
func TestPublicPackagesStandAlone(t *testing.T) {
	root := filepath.Join("..", "..", "reconcile")
	files := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, finding := range standsAlone(t, path, src) {
			t.Error(finding)
		}
		return nil
	})
	if err != nil || files < 20 {
		t.Fatalf("%d files, %v", files, err)
	}
	if found := standsAlone(t, "x.go", []byte("package x\nimport _ \""+Module+"/internal/core/clock\"\ntype Bare int\n// Said is.\ntype Said struct{}\nfunc (Said) Bare() {}\n")); len(found) != 3 {
		t.Errorf("found %v in what breaks the rule three times", found)
	}
}

func standsAlone(t *testing.T, path string, src []byte) (findings []string) {
	set := token.NewFileSet()
	f := testkit.Value(parser.ParseFile(set, path, src, parser.ParseComments))(t)
	find := func(at token.Pos, text string) {
		findings = append(findings, set.Position(at).String()+": "+text)
	}
	for _, i := range f.Imports {
		if strings.HasPrefix(strings.Trim(i.Path.Value, `"`), Module+"/internal/") {
			find(i.Pos(), "a public package imports "+i.Path.Value)
		}
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
