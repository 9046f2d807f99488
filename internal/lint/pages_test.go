package lint

import (
	"path"
	"strings"
	"testing"
)

// TestEveryThreatAndFaultIsCovered holds the pages of threats and faults; that
// the tests they cite exist is TestCitedTestsExist.
func TestEveryThreatAndFaultIsCovered(t *testing.T) {
	tr := load(t)
	report(t, Matrix("docs/threats.md", tr.read(t, "docs/threats.md"), "T", 40))
	report(t, Matrix("docs/faults.md", tr.read(t, "docs/faults.md"), "F", 36))
	report(t, Matrix("docs/nodes-traps.md", tr.read(t, "docs/nodes-traps.md"), "N", 31))
	report(t, Matrix("docs/nodes-sentences.md", tr.read(t, "docs/nodes-sentences.md"), "Q", 34))
	report(t, Matrix("docs/framework-sentences.md", tr.read(t, "docs/framework-sentences.md"), "F", 26))
}

func TestDecisionsAreListed(t *testing.T) {
	tr := load(t)
	pages := map[string][]byte{}
	for _, name := range tr.files {
		if path.Dir(name) == "docs/adr" && name != "docs/adr/README.md" {
			pages[name] = tr.read(t, name)
		}
	}
	if len(pages) < 20 {
		t.Fatalf("only %d decisions found: the rule would see nothing", len(pages))
	}
	report(t, Decisions("docs/adr/README.md", tr.read(t, "docs/adr/README.md"), pages))
}

func TestMatrix(t *testing.T) {
	page := func(rows ...string) []byte { return []byte(strings.Join(rows, "\n")) }
	a, b := "| T1 | words | words | `TestX` |", "| T2 | words | words | `FuzzX` |"
	one(t, Matrix("p.md", page(a, b), "T", 2))
	one(t, Matrix("p.md", page(a, "| T2 | words | words | Not yet: the web interface |"), "T", 2))
	one(t, Matrix("p.md", page(a, "| T2 | words | `TestX` | later |"), "T", 2), "p.md:2: the row of T2 cites no test")
	one(t, Matrix("p.md", page(a, "| T2 | words | `TestX` |"), "T", 2), "T2 has 3 cells")
	one(t, Matrix("p.md", page(a, b, a), "T", 2), "p.md:3: the row of T1 is there twice")
	one(t, Matrix("p.md", page(a), "T", 2), "no row for T2")
	one(t, Matrix("p.md", page("| F1 | words | words | `TestX` |"), "F", 1))
}

func TestDecisions(t *testing.T) {
	pages := func(more ...string) map[string][]byte {
		out := map[string][]byte{"d/0001-a.md": []byte("# 0001. One\n\nwords\n")}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = []byte(more[i+1])
		}
		return out
	}
	row, second := "| [0001](0001-a.md) | One | accepted |\n", "| [0002](0002-b.md) | Two | replaced by 0003 |\n"
	index := func(rows ...string) []byte {
		return []byte("| number | decision | status |\n|---|---|---|\n" + strings.Join(rows, ""))
	}
	one(t, Decisions("d/README.md", index(row, second), pages("d/0002-b.md", "# 0002. Two\n")))
	one(t, Decisions("d/README.md", index(row), pages("d/0002-b.md", "# 0002. Two\n")), "no row for 0002-b.md")
	one(t, Decisions("d/README.md", index(row, row), pages()), "0001 is there twice")
	one(t, Decisions("d/README.md", index(strings.Replace(row, "One", "Two", 1)), pages()), `says "Two", the page "One"`)
	one(t, Decisions("d/README.md", index(row, "| [0002](0001-b.md) | Two | accepted |\n"), pages("d/0001-b.md", "# 0001. Two\n")),
		"d/0001-b.md:1: has the number of 0001-a.md", "0002 leads to 0001-b.md")
	one(t, Decisions("d/README.md", index(row), pages("d/b.md", "# 0002. Two\n")), "d/b.md:1: is no NNNN")
	one(t, Decisions("d/README.md", index(row), pages("d/0002-b.md", "# 0003. Two\n")), "d/0002-b.md:1: begins with")
}
