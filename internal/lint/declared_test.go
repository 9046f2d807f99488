package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
)

// Declared lists the exported names of a package, with methods (of interfaces
// too) and fields as Type.Member, from its files.
func Declared(dir string, names []string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("list the names of a package: %w", err)
		}
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				out[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					declare(out, spec)
				}
			}
		}
	}
	return out, nil
}

// receiver returns the type that a method belongs to, with a dot.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	t := fn.Recv.List[0].Type
	for {
		switch inner := t.(type) {
		case *ast.StarExpr:
			t = inner.X
		case *ast.IndexExpr:
			t = inner.X
		case *ast.Ident:
			return inner.Name + "."
		default:
			return ""
		}
	}
}

func declare(out map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, id := range s.Names {
			out[id.Name] = true
		}
	case *ast.TypeSpec:
		out[s.Name.Name] = true
		var members *ast.FieldList
		switch t := s.Type.(type) {
		case *ast.StructType:
			members = t.Fields
		case *ast.InterfaceType:
			members = t.Methods
		default:
			return
		}
		for _, field := range members.List {
			for _, id := range field.Names {
				out[s.Name.Name+"."+id.Name] = true
			}
		}
	}
}
