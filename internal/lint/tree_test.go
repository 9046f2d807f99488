package lint

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// tree is the project as the rules see it.
type tree struct {
	root  string
	files []string
	pkgs  []Package
}

// loaded reads the tree once for all tests, and no test changes what it gave.
var loaded = sync.OnceValues(func() (tree, error) {
	root, err := Root()
	if err != nil {
		return tree{}, err
	}
	files, err := Tracked(root)
	if err != nil {
		return tree{}, err
	}
	pkgs, err := List(root, "./...")
	if err != nil {
		return tree{}, err
	}
	if len(files) < 10 || len(pkgs) < 3 {
		return tree{}, fmt.Errorf("only %d files and %d packages found below %s: the rules would see nothing", len(files), len(pkgs), root)
	}
	return tree{root, files, pkgs}, nil
})

func load(t *testing.T) tree {
	t.Helper()
	tr := testkit.Value(loaded())(t)
	return tr
}

func (tr tree) read(t *testing.T, name string) []byte {
	t.Helper()
	src := testkit.Value(os.ReadFile(filepath.Join(tr.root, name)))(t)
	return src
}

func report(t *testing.T, found []Finding) {
	t.Helper()
	Sort(found)
	for _, f := range found {
		t.Error(f)
	}
}

func TestCoreIsPure(t *testing.T) {
	tr := load(t)
	built := testkit.Value(List(tr.root, "-export", "-deps", "./internal/core/...", "./reconcile/engine/..."))(t)
	checker, checked := NewPurity(tr.root, built), 0
	for _, p := range tr.pkgs {
		if !IsPure(p.Rel()) || len(p.GoFiles) == 0 {
			continue
		}
		checked++
		report(t, PureImports(p.Rel(), p.Imports))
		found, err := checker.Check(p.ImportPath, p.Dir, p.GoFiles)
		if err != nil {
			t.Error(err)
		}
		report(t, found)
	}
	if checked < 3 {
		t.Errorf("only %d pure packages found: the rule would see nothing", checked)
	}
}

// TestJudgesStandApart holds what judges decisions to facts of its own.
func TestJudgesStandApart(t *testing.T) {
	tr, files := load(t), 0
	for _, p := range tr.pkgs {
		for _, name := range p.GoFiles {
			if judges[p.Rel()] != nil {
				files++
				report(t, Judge(p.Rel(), path.Join(p.Rel(), name), p.Imports, tr.read(t, path.Join(p.Rel(), name))))
			}
		}
	}
	if files < 5 {
		t.Errorf("only %d files of judges found: the rule would see nothing", files)
	}
	const oracle = "internal/core/oracle"
	one(t, Judge(oracle, "f.go", []string{Module + "/internal/core/event"}, []byte("host.Legal(a, b)")))
	one(t, Judge(oracle, "f.go", []string{Module + "/internal/core/plan"}, nil), "internal/core/plan")
	one(t, Judge(oracle, "f.go", nil, []byte("host.Step(s, in)")), "steps the machine")
}

func TestImportsPointInward(t *testing.T) {
	for _, p := range load(t).pkgs {
		var ours []string
		for _, path := range p.Imports {
			if strings.HasPrefix(path, Module+"/") {
				ours = append(ours, rel(path))
			}
		}
		report(t, Direction(p.Rel(), ours))
	}
}

func TestShape(t *testing.T) {
	tr := load(t)
	for _, p := range tr.pkgs {
		report(t, PackageShape(p))
	}
	for _, name := range tr.files {
		if strings.HasSuffix(name, ".go") && !strings.Contains("/"+name, "/testdata/") {
			report(t, FileShape(name, tr.read(t, name)))
		}
	}
}

func TestWords(t *testing.T) {
	tr := load(t)
	for _, name := range tr.files {
		if !strings.HasPrefix(name, "internal/web/dist/") { // parts of other people's packages, too
			report(t, Text(name, tr.read(t, name)))
		}
	}
}

func TestLinks(t *testing.T) {
	tr := load(t)
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(tr.root, name))
		return err == nil
	}
	for _, name := range tr.files {
		page := strings.HasPrefix(name, "docs/") || !strings.Contains(name, "/")
		if page && strings.HasSuffix(name, ".md") {
			report(t, Links(name, tr.read(t, name), exists))
		}
	}
}

func TestDependencies(t *testing.T) {
	tr := load(t)
	reqs, _, err := Modules(tr.root, "go.mod")
	testkit.Must(t, err)
	_, tools, err := Modules(tr.root, "tools/go.mod")
	testkit.Must(t, err)
	ui, err := npmPackages(tr.read(t, "internal/web/ui/package.json"))
	testkit.Must(t, err)
	report(t, Dependencies(append(ui, reqs...), tools, string(tr.read(t, "docs/dependencies.md"))))
	found, err := Libc(tr.root, reqs)
	testkit.Must(t, err)
	report(t, found)
}

func TestNamesInDocuments(t *testing.T) {
	tr := load(t)
	core := map[string]map[string]bool{}
	for _, p := range tr.pkgs {
		if IsPure(p.Rel()) && len(p.GoFiles) > 0 {
			names := testkit.Value(Declared(p.Dir, p.GoFiles))(t)
			core[p.Name] = names
		}
	}
	declared := func(pkg, name, member string) (known, ok bool) {
		names, known := core[pkg]
		if member != "" {
			name += "." + member
		}
		return known, names[name]
	}
	for _, name := range tr.files {
		if strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md") {
			report(t, Names(name, tr.read(t, name), declared))
		}
	}
}
