package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// one fails unless the rule found exactly what the words of want name, in order.
func one(t *testing.T, found []Finding, want ...string) {
	t.Helper()
	if len(found) != len(want) {
		t.Fatalf("got %d findings %v, want %d with %q", len(found), found, len(want), want)
	}
	for i, f := range found {
		if !strings.Contains(f.String(), want[i]) {
			t.Errorf("finding %d is %q, want one with %q", i, f, want[i])
		}
	}
}

func TestPurityFindsWhatIsForbidden(t *testing.T) {
	root := testkit.Value(Root())(t)
	pkgs := testkit.Value(List(root, "-export", "-deps", "cmp", "fmt", "maps", "slices", "sort", "time"))(t)
	for _, name := range []string{"bad.go", "good.go"} {
		dir := filepath.Join("testdata", "purity")
		src := testkit.Value(os.ReadFile(filepath.Join(dir, name)))(t)
		found := testkit.Value(NewPurity(root, pkgs).Check(Module+"/internal/core/purity", dir, []string{name}))(t)
		got := map[int]string{}
		for _, f := range found {
			got[f.Line] += f.Text
		}
		for i, line := range strings.Split(string(src), "\n") {
			_, want, _ := strings.Cut(line, "// want ")
			text := got[i+1]
			delete(got, i+1)
			if (want == "") != (text == "") || !strings.Contains(text, want) {
				t.Errorf("%s:%d: found %q, want %q", name, i+1, text, want)
			}
		}
		for line, text := range got {
			t.Errorf("%s:%d: found %q, want nothing", name, line, text)
		}
	}
}

func TestPurityRefusesWhatItCannotSee(t *testing.T) {
	dir := t.TempDir()
	src := "package p\n\nfunc f() { for range missing {\n} }\n"
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "p.go"), []byte(src), 0o600))
	found := testkit.Value(NewPurity(dir, nil).Check(Module+"/internal/core/p", dir, []string{"p.go"}))(t)
	one(t, found, "does not type-check")
}

func TestPureImports(t *testing.T) {
	const core = "internal/core/plan"
	one(t, PureImports(core, []string{"slices", "time", Module + "/internal/core/clock", Module + "/reconcile/engine"}))
	one(t, PureImports("internal/core/event", []string{"reflect"}))
	for _, path := range []string{"reflect", "context", "sync", "os", "math/rand/v2", "log/slog", "github.com/transparency-dev/merkle/compact",
		Module + "/internal/store", Module + "/reconcile"} {
		one(t, PureImports(core, []string{path}), path)
	}
}

func TestDirection(t *testing.T) {
	for _, ok := range [][2]string{
		{"cmd/steady", "internal/cli"}, {"internal/cli", "internal/agent"}, {"internal/api", "internal/control"},
		{"internal/control", "internal/core/plan"}, {"internal/store/embedded", "internal/store"}, {"internal/agent", "reconcile"},
		{"internal/core/plan", "internal/core/gate"}, {"reconcile", "reconcile/engine"}, {"internal/sim", "internal/api"},
		{"internal/docker/dockertest", "internal/testkit"},
	} {
		one(t, Direction(ok[0], []string{ok[1]}))
	}
	for _, bad := range []struct{ from, to, want string }{
		{"internal/core/plan", "internal/store", "the core never imports a shell"},
		{"reconcile/engine", "reconcile", "the core never imports a shell"},
		{"internal/control", "internal/agent", "no import of agent by control"},
		{"internal/store", "internal/trust", "release  -> disk, trust"},
		{"internal/agent", "internal/api", "api is an edge"},
		{"internal/cli", "cmd/steady", "nothing imports a command"},
		{"reconcile", "internal/store", "no import of store by reconcile"},
		{"internal/cli", "internal/lint", "its own tests only"},
		{"internal/cli", "internal/testkit", "it is for tests"},
	} {
		one(t, Direction(bad.from, []string{bad.to}), bad.want)
	}
}

func TestPackageShape(t *testing.T) {
	good := Package{ImportPath: Module + "/internal/core/plan", Name: "plan", Doc: "Package plan decides.", GoFiles: []string{"a.go"}}
	one(t, PackageShape(good))
	bad := good
	bad.Name, bad.ImportPath = "util", Module+"/internal/util"
	one(t, PackageShape(bad), "says nothing")
	bad = good
	bad.ImportPath += "/waves"
	one(t, PackageShape(bad), "4 folders deep")
	bad = good
	bad.Doc = ""
	one(t, PackageShape(bad), "no package comment")
}

// body makes a Go file of one function of n lines.
func body(name string, n int) string {
	return "package p\n\nfunc " + name + "() {\n" + strings.Repeat("\tprintln()\n", n-2) + "}\n"
}

func TestFileShape(t *testing.T) {
	rows := strings.Repeat("\t\t{1},\n", 90)
	table := "package p\n\nfunc f() {\n\t_ = [][]int{\n" + rows + "\t}\n}\n"
	closure := "package p\n\nfunc f() {\n\t_ = []func(){\n\t\tfunc() {\n" + strings.Repeat("\t\t\tprintln()\n", 90) + "\t\t},\n\t}\n}\n"
	sleep := "package p\n\nfunc f() {\n\ttime.Sleep(1)\n}\n"
	bubble := "package p\n\nfunc f() {\n\tsynctest.Test(t, func() {\n\t\ttime.Sleep(1)\n\t})\n}\n"
	skip := "package p\n\nvar c = &tls.Config{InsecureSkipVerify: true}\n"
	long := "package p\n\n" + strings.Repeat("// line\n", 499)
	for _, tc := range []struct {
		why, file, src, want string
	}{
		{"a short function", "p/a.go", body("f", 70), ""},
		{"a long function", "p/a.go", body("f", 71), "f has 71 lines"},
		{"a long test function", "p/a_test.go", body("f", 71), ""},
		{"a long table", "p/a.go", table, ""},
		{"a function inside a literal is code", "p/a.go", closure, "the most is 70"},
		{"a short main", "cmd/x/main.go", body("main", 60), ""},
		{"a long main", "cmd/x/main.go", body("main", 61), "it only wires"},
		{"a long file", "p/a.go", long, "has 501 lines"},
		{"a long test file", "p/a_test.go", long, ""},
		{"not formatted", "p/a.go", "package  p\n", "gofmt -w p/a.go"},
		{"not Go", "p/a.go", "pack", "does not parse"},
		{"a sleep in a test", "p/a_test.go", sleep, "p/a_test.go:4: time.Sleep in a test"},
		{"a sleep elsewhere", "p/a.go", sleep, ""},
		{"a sleep in a bubble", "p/a_test.go", bubble, ""},
		{"a sleep marked as in a bubble", "p/a_test.go", strings.Replace(sleep, "Sleep(1)", "Sleep(1) // in a bubble", 1), ""},
		{"no check of the peer", "p/a.go", skip, "p/a.go:3: InsecureSkipVerify"},
		{"no check of the peer in a test", "p/a_test.go", skip, ""},
	} {
		t.Run(tc.why, func(t *testing.T) {
			var want []string
			if tc.want != "" {
				want = []string{tc.want}
			}
			one(t, FileShape(tc.file, []byte(tc.src)), want...)
		})
	}
}

func TestText(t *testing.T) {
	const todo = "TO" + "DO"
	for _, bad := range []string{"// " + todo + ": later", "context." + todo + "()"} {
		one(t, Text("a.go", []byte("first\n"+bad+"\n")), "a.go:2: ")
	}
	for _, ok := range []string{"todo", "mktemp XXXXXX"} {
		one(t, Text("a.go", []byte(ok)))
	}
	one(t, Text("a.bin", []byte("\x00"+todo)))
}

func TestMarkdownLinks(t *testing.T) {
	exists := func(name string) bool { return name == "docs/a.md" || name == "LICENSE" || name == "docs" }
	page := "[a](a.md) [up](../LICENSE#x) [web](https://x.org/gone.md) [here](#part) [root](/LICENSE) `[code](gone.md)`\n" +
		"```\n[fenced](gone.md)\n```\n[dir](../docs/)\n"
	one(t, Links("docs/b.md", []byte(page), exists))
	one(t, Links("docs/b.md", []byte("x\n[a](gone.md) and [b](a.md)\n"), exists), "docs/b.md:2: links to gone.md")
	one(t, Links("docs/b.md", []byte("[ref]: ../gone.md\n"), exists), "there is no gone.md")
}

func TestNames(t *testing.T) {
	dir := t.TempDir()
	src := "package host\n\ntype Agent[T any] struct{ Phase int }\n\nfunc (a *Agent[T]) Step() {}\n\nconst Failed = 1\n\nfunc Due() {}\n"
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "host.go"), []byte(src), 0o600))
	names := testkit.Value(Declared(dir, []string{"host.go"}))(t)
	declared := func(pkg, name, member string) (bool, bool) {
		return pkg == "host", names[strings.TrimSuffix(name+"."+member, ".")]
	}
	one(t, Names("a.md", []byte("`host.Agent.Step` `host.Agent.Phase` `host.Failed` `host.Due()` `time.Gone` host.Gone\n"), declared))
	one(t, Names("a.md", []byte("x\n`host.Gone` and `host.Agent.Gone`\n"), declared), "a.md:2: names host.Gone", "names host.Agent.Gone")
}

func TestDependencyRules(t *testing.T) {
	page := "| module | what for |\n|---|---|\n| `example.org/a` | x | y |\n| `example.org/tool` | x | y |\n"
	reqs := []Requirement{{Path: "example.org/a"}, {Path: "example.org/b", Indirect: true}}
	tools := []string{"example.org/tool/cmd/x"}
	one(t, Dependencies(reqs, tools, page))
	one(t, Dependencies(append(reqs, Requirement{Path: "example.org/c"}), tools, page), "example.org/c has no row")
	one(t, Dependencies(reqs, tools, page+"| `example.org/gone` | x | y |\n"), "delete the row")
	one(t, Dependencies(reqs, tools, strings.Replace(page, "| x | y", "| x | ", 1)), "empty cell")
	for i := range maxLinked {
		name := fmt.Sprintf("example.org/m%d", i)
		reqs, page = append(reqs, Requirement{Path: name}), page+"| `"+name+"` | x |\n"
	}
	one(t, Dependencies(reqs, tools, page), fmt.Sprintf("%d direct requirements", maxLinked+1))
}

func TestLibcRule(t *testing.T) {
	root := testkit.Value(Root())(t)
	found := testkit.Value(Libc(root, []Requirement{{Path: "modernc.org/sqlite", Version: "v1.60.1"}, {Path: "modernc.org/libc", Version: "v0.0.1"}}))(t)
	one(t, found, "require exactly that one")
}
