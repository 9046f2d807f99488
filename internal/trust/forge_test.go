package trust

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestS4NobodyElseMakesVerified type-checks a package that tries. Every attempt
// is an error of its own, and nothing but the attempts is wrong.
func TestS4NobodyElseMakesVerified(t *testing.T) {
	fset := token.NewFileSet()
	const name = "testdata/forge/forge.go"
	file := testkit.Value(parser.ParseFile(fset, name, nil, 0))(t)
	failed := map[int]string{}
	conf := types.Config{
		Importer: importer.ForCompiler(fset, "gc", compiled(t)),
		Error: func(err error) {
			var e types.Error
			if errors.As(err, &e) {
				failed[fset.Position(e.Pos).Line] += e.Msg + "; "
			}
		},
	}
	if _, err := conf.Check("forge", fset, []*ast.File{file}, nil); err == nil {
		t.Fatal("the forgery compiles")
	}
	src := testkit.Value(os.ReadFile(name))(t)
	attempts := 0
	for i, line := range strings.Split(string(src), "\n") {
		attempt := strings.HasPrefix(line, "\t_ = ") || strings.HasPrefix(line, "\tv")
		if attempt {
			attempts++
		}
		if (failed[i+1] != "") != attempt {
			t.Errorf("line %d: %s: errors %q", i+1, strings.TrimSpace(line), failed[i+1])
		}
	}
	if attempts != 7 {
		t.Errorf("%d attempts were recognised", attempts)
	}
}

// compiled finds the packages that the forgery may import as the compiler left
// them: their unexported fields are in there, for nobody to name.
func compiled(t *testing.T) func(path string) (io.ReadCloser, error) {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	list.Stderr = os.Stderr
	out := testkit.Value(list.Output())(t)
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// TestS4OnePlaceFillsVerified: only prove builds the value behind a Verified,
// and only the calls that check something use it.
func TestS4OnePlaceFillsVerified(t *testing.T) {
	fset := token.NewFileSet()
	pkgs := testkit.Value(os.ReadDir("."))(t)
	var makers, users []string
	for _, f := range pkgs {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file := testkit.Value(parser.ParseFile(fset, f.Name(), nil, 0))(t)
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if ix, ok := n.Type.(*ast.IndexExpr); ok && len(n.Elts) > 0 {
						if id, ok := ix.X.(*ast.Ident); ok && (id.Name == "Verified" || id.Name == "proven") {
							makers = append(makers, fn.Name.Name)
						}
					}
				case *ast.CallExpr:
					if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "prove" {
						users = append(users, fn.Name.Name)
					}
				}
				return true
			})
		}
	}
	slices.Sort(users)
	if got := strings.Join(slices.Compact(makers), " "); got != "prove" {
		t.Errorf("Verified is filled by %q", got)
	}
	// ManagedEntry and Override: what an operator signed, for one host's managed layer and for all hosts.
	want := "Budget Bundle HostPlan Leaves ManagedEntry Manifest Override Recall Resolved Revocations Roster Timestamp"
	if got := strings.Join(slices.Compact(users), " "); got != want {
		t.Errorf("prove is called by %q, want %q: say here why a new one may", got, want)
	}
}

func TestS4VerifiedIsNotReadFromJSON(t *testing.T) {
	var v Verified[fleet.Bundle]
	if err := json.Unmarshal([]byte(`{"p":{"value":{"name":"x"}},"value":{"name":"x"}}`), &v); err == nil || !v.IsZero() {
		t.Fatal("a Verified was read from JSON")
	}
	if raw, err := json.Marshal(v); err == nil {
		t.Fatalf("a Verified was written as %s", raw)
	}
}
