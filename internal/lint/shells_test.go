package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// shells are the packages around a reducer, in which nothing is decided. Each has the
// functions that may branch on what a reducer decides by, with the reason.
var shells = map[string]map[string]string{
	"internal/agent/daemon": {
		"generation":  "reads how far the framework has come with a resource into an outcome, and knows no phase of the host",
		"afterCommit": "reads the codes of resources to know what to look at again",
		"stagedIn":    "reads the codes of resources to name the one that waits for a reboot",
		"BeginReboot": "a command that failed is not run again once the reducer gave the reboot up",
	},
	"internal/control": {
		"readBatch":    "holds a batch to the bounds that every one has, before the state is asked",
		"refusal":      "gives a refusal of the managed layer the status that its code has",
		"load":         "holds the end of the log that it folded against the store's",
		"raiseTerm":    "holds the lease that it took against the one before",
		"Leads":        "tells whether this process still has the lease, for sources",
		"seen":         "hands the reducer one input that a host is back, and not one for each request",
		"Dispatch":     "as seen, while the reducer has not answered",
		"eachSample":   "sums up in metrics what hosts that are connected measure",
		"countFleet":   "counts hosts for metrics",
		"countChannel": "counts what channels wait for, for metrics",
	},
}

// decidedBy are the fields and methods of host.State, grants and blocks that decisions
// are made by, and vocabularies the packages whose constants they are compared with.
var (
	decidedBy = []string{"Incarnation", "RevokedBefore", "Online", "Ended", "Proven", "Phase", "Purpose", "Cause", "Code", "Reverting", "Rebooted", "ConfirmBy", "BlameBy", "SoakFrom", "Prepared", "Expires", "Term",
		"MaxTerm", "Declined", "InFlight", "Settled", "Staged", "Rebooting", "Healthy", "Quarantined", "Due", "Open"}
	vocabularies = []string{"host", "gate", "rollout"}
	carried      = []string{"State", "ProbeObserved", "Overrides", "AcceptedOverride", "MaxOverrides", "Block", "Manifest"} // what goes through a shell as it is
)

// Shell checks one file of a shell: it names no phase, purpose, cause or code, and
// branches on nothing that a reducer decides by.
func Shell(pkg, file string, src []byte) ([]Finding, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, d := range f.Decls {
		fn, name := d, ""
		if fd, ok := d.(*ast.FuncDecl); ok {
			name = fd.Name.Name
		}
		found := func(text string) {
			if shells[pkg][name] == "" {
				out = append(out, Finding{File: file, Text: fmt.Sprintf("%s %s: let the reducer decide, and carry out its effects", name, text)})
			}
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && slices.Contains(vocabularies, x.Name) && !slices.Contains(carried, n.Sel.Name) {
					found("names " + x.Name + "." + n.Sel.Name)
				}
			case *ast.IfStmt:
				branches(n.Cond, found)
			case *ast.ForStmt:
				branches(n.Cond, found)
			case *ast.SwitchStmt:
				branches(n.Tag, found)
			case *ast.CaseClause:
				for _, e := range n.List {
					branches(e, found)
				}
			}
			return true
		})
	}
	return out, nil
}

// branches reports what of a condition a reducer decides by.
func branches(cond ast.Expr, found func(string)) {
	if cond == nil {
		return
	}
	ast.Inspect(cond, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(decidedBy, s.Sel.Name) {
			found("branches on " + s.Sel.Name)
		}
		return true
	})
}

func TestShellsDecideNothing(t *testing.T) {
	tr := load(t)
	checked := 0
	for _, name := range tr.files {
		pkg := path.Dir(name)
		if shells[pkg] == nil || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		checked++
		found := testkit.Value(Shell(pkg, name, tr.read(t, name)))(t)
		report(t, found)
	}
	if checked < 10 {
		t.Errorf("only %d files of shells were checked", checked)
	}
}

// TestShellRuleFinds plants what a shell may not do.
func TestShellRuleFinds(t *testing.T) {
	for src, want := range map[string]int{
		"func f(m host.State) bool { return true }":                    0,
		"func f(m *host.State) { if m.Phase == x { g() } }":            1,
		"func f(p P) { switch p.Purpose {} }":                          1,
		"func f() { g(host.Update) }":                                  1,
		"func f(m M) { switch { case m.Settled() && m.Cause != x: } }": 2,
		"func BeginReboot(m M) { if m.Rebooting() { g() } }":           0,
	} {
		found, err := Shell("internal/agent/daemon", "a.go", []byte("package daemon\n"+src))
		if err != nil || len(found) != want {
			t.Errorf("%s: %v, %v", src, found, err)
		}
	}
}
