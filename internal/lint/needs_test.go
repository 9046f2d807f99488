package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// everywhere are the programs beside Go that tests may start without asking: every distribution has them, and
// the tree came by git.
var everywhere = []string{"bash", "chmod", "cp", "git", "go", "sh", "steady"}

// starter is what starts what a machine may lack, and asks for it.
var starter = regexp.MustCompile(`testkit\.Needs\(|dockertest\.(Engine|Private)\(`)

// needs finds what leaves a test out, looks for a program, or starts one that a machine may lack, in any way
// but by testkit.Needs and its like.
type needs struct {
	name     string
	fset     *token.FileSet
	commands []string // of components
	asks     bool     // the file has a starter
	funcs    []*ast.FuncType
	nodes    []ast.Node
	found    []Finding
}

// Needs are the findings of one file of tests, or of what they are made of.
func Needs(name string, src []byte, commands []string) []Finding {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, 0)
	if err != nil {
		return []Finding{{File: name, Text: "does not parse: " + err.Error()}}
	}
	tests := strings.HasSuffix(name, "_test.go")
	harness := f.Name.Name != "main" && slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` })
	if !tests && !harness {
		return nil
	}
	n := &needs{name: name, fset: fset, commands: commands, asks: starter.Match(src)}
	ast.Inspect(f, n.node)
	return n.found
}

func (n *needs) node(at ast.Node) bool {
	if at == nil { // the end of the last one
		last := n.nodes[len(n.nodes)-1]
		n.nodes = n.nodes[:len(n.nodes)-1]
		if signature(last) != nil {
			n.funcs = n.funcs[:len(n.funcs)-1]
		}
		return true
	}
	n.nodes = append(n.nodes, at)
	if s := signature(at); s != nil {
		n.funcs = append(n.funcs, s)
	}
	call, ok := at.(*ast.CallExpr)
	if !ok {
		return true
	}
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return true
	}
	of, _ := fun.X.(*ast.Ident)
	switch fun.Sel.Name {
	case "Skip", "Skipf", "SkipNow":
		if of == nil || !n.drawn(of.Name) {
			n.add(call, "leaves a test out by itself: call testkit.Needs, Long or Only before the test makes anything")
		}
	case "LookPath":
		n.add(call, "looks for a program by itself: name it in a Component, and call testkit.Needs with it")
	case "Command", "CommandContext":
		i := strings.Count(fun.Sel.Name, "Context")
		if of != nil && of.Name == "exec" && len(call.Args) > i {
			n.program(call.Args[i])
		}
	}
	return true
}

func signature(at ast.Node) *ast.FuncType {
	switch f := at.(type) {
	case *ast.FuncDecl:
		return f.Type
	case *ast.FuncLit:
		return f.Type
	}
	return nil
}

// drawn reports whether a name is a drawn case of a property, which may be passed over.
func (n *needs) drawn(name string) bool {
	for _, f := range slices.Backward(n.funcs) {
		for _, p := range f.Params.List {
			if !slices.ContainsFunc(p.Names, func(i *ast.Ident) bool { return i.Name == name }) {
				continue
			}
			return types.ExprString(p.Type) == "*rapid.T"
		}
	}
	return false
}

func (n *needs) program(arg ast.Expr) {
	lit, ok := arg.(*ast.BasicLit)
	if !ok {
		return // it is this program, or one that the test made or was given
	}
	program, _ := strconv.Unquote(lit.Value)
	name, dir := path.Base(program), path.Dir(program)
	switch {
	case slices.Contains(everywhere, name) || dir != "." && path.Base(dir) != "bin" && path.Base(dir) != "sbin":
	case program != name && dir == ".": // ./program, which the test made
	case !slices.Contains(n.commands, name):
		n.add(arg, "starts %s, which a machine may lack: name it in a Component of internal/testkit, and call testkit.Needs with it", name)
	case !n.asks:
		n.add(arg, "starts %s, and the file calls testkit.Needs nowhere", name)
	}
}

func (n *needs) add(at ast.Node, format string, args ...any) {
	n.found = append(n.found, Finding{File: n.name, Line: n.fset.Position(at.Pos()).Line, Text: fmt.Sprintf(format, args...)})
}

func componentCommands() (out []string) {
	for _, c := range testkit.Components() {
		for _, command := range c.Commands {
			name, _ := testkit.Command(command)
			out = append(out, name)
		}
	}
	return out
}

func TestTestsSayWhatTheyNeed(t *testing.T) {
	tr, commands, files := load(t), componentCommands(), 0
	for _, name := range tr.files {
		if strings.HasSuffix(name, ".go") && path.Dir(name) != "internal/testkit" && !strings.Contains(name, "testdata/") {
			files++
			report(t, Needs(name, tr.read(t, name), commands))
		}
	}
	if files < 100 {
		t.Errorf("only %d files found: the rule would see nothing", files)
	}
}

func TestNeedsFindsWhatIsForbidden(t *testing.T) {
	for src, want := range map[string]string{
		`func TestA(t *testing.T) { t.Skip("no janus") }`:                                                                 "by itself",
		`func TestA(t *testing.T) { w := newWorld(t); w.t.Skipf("%d", 1) }`:                                               "by itself",
		`func f(t testing.TB) { t.SkipNow() }`:                                                                            "by itself",
		`func TestA(t *testing.T) { rapid.Check(t, func(t *rapid.T) {}); t.Skip() }`:                                      "by itself",
		`func TestA(t *testing.T) { rapid.Check(t, func(r *rapid.T) { t.Skip() }) }`:                                      "by itself",
		`func TestA(t *testing.T) { if _, err := exec.LookPath("janus"); err != nil { return } }`:                         "looks for a program",
		`func TestA(t *testing.T) { exec.Command("janus", "-F").Run() }`:                                                  "testkit.Needs nowhere",
		`func TestA(t *testing.T) { exec.CommandContext(ctx, "/usr/sbin/kea-dhcp4").Run() }`:                              "testkit.Needs nowhere",
		`func TestA(t *testing.T) { exec.Command("ffmpeg").Run() }`:                                                       "starts ffmpeg",
		`func TestA(t *testing.T) { rapid.Check(t, func(t *rapid.T) { t.Skip("too long") }) }`:                            "",
		`func TestA(t *testing.T) { testkit.Needs(t, testkit.JanusGateway); exec.Command("janus").Run() }`:                "",
		`func TestA(t *testing.T) { exec.Command("/proc/self/exe").Run(); exec.Command(name); exec.Command("sh", "-c") }`: "",
	} {
		found := Needs("internal/x/x_test.go", []byte("package x\n\n"+src+"\n"), []string{"janus", "kea-dhcp4"})
		if want == "" {
			one(t, found)
		} else {
			one(t, found, want)
		}
	}
	const src = "package x\n\nimport \"os/exec\"\n\nfunc f() { exec.LookPath(\"git\") }\n"
	one(t, Needs("internal/x/x.go", []byte(src), nil)) // the product looks for what it runs
}
