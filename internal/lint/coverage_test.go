package lint

import (
	"path"
	"strings"
	"testing"
)

// TestCitedTestsExist holds every page to the tests that are in the tree.
func TestCitedTestsExist(t *testing.T) {
	tr := load(t)
	tests := map[string]bool{}
	for _, name := range tr.files {
		if strings.HasSuffix(name, "_test.go") {
			for _, test := range Tests(tr.read(t, name)) {
				tests[test] = true
			}
		}
	}
	if len(tests) < 100 {
		t.Fatalf("only %d tests found: the rule would refuse everything", len(tests))
	}
	for _, name := range tr.files {
		if strings.HasPrefix(name, "docs/") && strings.HasSuffix(name, ".md") {
			report(t, CitedTests(name, tr.read(t, name), func(test string) bool { return tests[test] }))
		}
	}
}

// TestEveryInvariantIsCovered holds the page of invariants to the code.
func TestEveryInvariantIsCovered(t *testing.T) {
	tr := load(t)
	by := map[string]map[string]bool{"Check": {}, "Log": {}}
	for _, name := range tr.files {
		dir := path.Dir(name)
		if dir != "internal/core/audit" && dir != "internal/core/oracle" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		who := "Check"
		if strings.HasPrefix(path.Base(name), "log") || dir == "internal/core/oracle" {
			who = "Log"
		}
		for _, inv := range Audited(tr.read(t, name)) {
			by[who][inv] = true
		}
	}
	if len(by["Check"]) < 5 || len(by["Log"]) < 5 {
		t.Fatalf("found only %v in the audit: the rule would see nothing", by)
	}
	report(t, Coverage("docs/invariants.md", tr.read(t, "docs/invariants.md"), func(inv string) string {
		var who []string
		for _, w := range []string{"Check", "Log"} {
			if by[w][inv] {
				who = append(who, w)
			}
		}
		if who == nil {
			return "–"
		}
		return strings.Join(who, ", ")
	}))
}

func TestEveryGateHasAProperty(t *testing.T) {
	tr := load(t)
	var gates, tests []byte
	for _, name := range tr.files {
		if path.Dir(name) != "internal/core/gate" || !strings.HasSuffix(name, ".go") {
			continue
		}
		if strings.HasSuffix(name, "_test.go") {
			tests = append(tests, tr.read(t, name)...)
		} else {
			gates = append(gates, tr.read(t, name)...)
		}
	}
	if n := len(gateFunc.FindAll(gates, -1)); n < 5 {
		t.Fatalf("only %d gates found: the rule would see nothing", n)
	}
	report(t, GateProperties(gates, tests))
}

func TestCitedTests(t *testing.T) {
	exists := func(name string) bool { return name == "TestHere" || name == "FuzzHere" }
	one(t, CitedTests("docs/a.md", []byte("`TestHere` and `FuzzHere`, Tests in `testdata`, TestProse\n"), exists))
	one(t, CitedTests("docs/a.md", []byte("x\n`pkg`: `TestHere`, `TestGone`\n"), exists), "docs/a.md:2: cites TestGone")
}

func TestCoverage(t *testing.T) {
	audited := func(inv string) string {
		if inv == "S1" {
			return "Check, Log"
		}
		return "–"
	}
	var rows []string
	for _, inv := range invariants() {
		rows = append(rows, "| "+inv+" | words | "+audited(inv)+" | `TestX` |")
	}
	page := func(from, to string) []byte { return []byte(strings.Replace(strings.Join(rows, "\n"), from, to, 1)) }
	one(t, Coverage("p.md", page("", ""), audited))
	one(t, Coverage("p.md", page("| S2 | words | – | `TestX` |", "| S2 | words | – | not yet: needs nodes |"), audited))
	one(t, Coverage("p.md", page("| S2 | words | – | `TestX` |", "| S2 | words | – | later |"), audited), "p.md:2: the row of S2 cites no test")
	one(t, Coverage("p.md", page("| Check, Log |", "| Log |"), audited), "S1 says \"Log\" of the audit")
	one(t, Coverage("p.md", page("| S2 | words |", "| S2 |"), audited), "S2 has 3 cells")
	one(t, Coverage("p.md", page("| P12 |", "| P11 |"), audited), "P11 is there twice", "no row for P12")
}

func TestGatePropertyRule(t *testing.T) {
	gates := []byte("package gate\n\nfunc CheckA() {}\nfunc CheckB() {}\n")
	prop := func(name, body string) string { return "\nfunc " + name + "(t *testing.T) {\n" + body + "\n}\n" }
	a, b := prop("TestS1A", "rapid.Check(t, gate.CheckA(x))"), prop("TestS2B", "rapid.Check(t, gate.CheckB(x))")
	one(t, GateProperties(gates, []byte(a+b)))
	one(t, GateProperties(gates, []byte(a+prop("TestS2B", "gate.CheckB(x)"))), "CheckB")
	one(t, GateProperties(gates, []byte(a+prop("TestB", "rapid.Check(t, gate.CheckB(x))"))), "CheckB")
	one(t, GateProperties(gates, []byte(a+prop("TestL5All", "rapid.Check(t, gate.CheckA(x), gate.CheckB(x))"))), "CheckB")
}
