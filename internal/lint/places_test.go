package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	mdPlace = regexp.MustCompile(`^(?:cmd|internal|reconcile|docs|examples|tools|benchmarks|\.ci)(?:/[\w.-]+)*/?$`)
	mdRoute = regexp.MustCompile("^\\|[^|]*\\| `([\\w./-]+\\.go)` \\| ((?:`\\w+`(?:, )?)+) \\|$")
)

// Places checks that each path in a code span of a page is in the tree, and that the
// functions which a row of a table names beside a file stand in it.
func Places(name string, src []byte, exists func(string) bool, read func(string) []byte) []Finding {
	var out []Finding
	for i, line := range strings.Split(string(src), "\n") {
		add := func(format string, args ...any) {
			out = append(out, Finding{File: name, Line: i + 1, Text: fmt.Sprintf(format, args...)})
		}
		for _, span := range mdSpan.FindAllStringSubmatch(line, -1) {
			if mdPlace.MatchString(span[1]) && !exists(path.Clean(span[1])) {
				add("names %s, which is not there: correct the path", span[1])
			}
		}
		m := mdRoute.FindStringSubmatch(line)
		if m == nil || !exists(m[1]) {
			continue
		}
		src := read(m[1])
		for _, fn := range mdSpan.FindAllStringSubmatch(m[2], -1) {
			if strings.HasPrefix(fn[1], "Test") {
				continue // TestCitedTestsExist
			}
			if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + fn[1] + `[\[(]`).Match(src) {
				add("names %s beside %s, which has no such function: correct the row", fn[1], m[1])
			}
		}
	}
	return out
}

func TestPlacesInDocuments(t *testing.T) {
	tr, pages := load(t), 0
	dirs := map[string]bool{}
	for _, f := range tr.files {
		for d := f; d != "."; d = path.Dir(d) {
			dirs[d] = true
		}
	}
	exists := func(name string) bool { return dirs[name] }
	for _, name := range tr.files {
		if strings.HasSuffix(name, ".md") && (strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/adr/") || name == "README.md" || name == "CONTRIBUTING.md") {
			pages++
			report(t, Places(name, tr.read(t, name), exists, func(f string) []byte { return tr.read(t, f) }))
		}
	}
	if pages < 10 {
		t.Fatalf("only %d pages found", pages)
	}
	rows := 0
	for line := range strings.Lines(string(tr.read(t, "docs/architecture.md"))) {
		if mdRoute.MatchString(strings.TrimSpace(line)) {
			rows++
		}
	}
	if rows < 20 {
		t.Errorf("the way of a grant has %d rows: the rule would see nothing", rows)
	}
}

func TestPlaces(t *testing.T) {
	exists := func(name string) bool { return slices.Contains([]string{"internal/a", "internal/a/a.go"}, name) }
	read := func(string) []byte { return []byte("package a\n\nfunc (x *X) Do() {}\nfunc Of[T any]() {}\n") }
	check := func(page string, want ...string) {
		t.Helper()
		one(t, Places("p.md", []byte(page), exists, read), want...)
	}
	check("see `internal/a` and `go test ./internal/b`")
	check("see `internal/b`", "names internal/b")
	check("| it acts | `internal/a/a.go` | `Do`, `Of` |")
	check("| it acts | `internal/a/a.go` | `Do`, `Dont` |", "Dont beside internal/a/a.go")
}

// maxGlossary bounds the words that are not the trade's own.
const maxGlossary = 40

func TestGlossaryIsShort(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(string(load(t).read(t, "docs/glossary.md")), -1)
	seen := map[string]bool{}
	for _, row := range rows[1:] { // the first is the heading
		if seen[row[1]] || strings.Count(strings.TrimSuffix(row[2], "."), ". ") > 0 {
			t.Errorf("the word %q is there twice, or has more than one sentence", row[1])
		}
		seen[row[1]] = true
	}
	if n := len(rows) - 1; n < 20 || n > maxGlossary {
		t.Errorf("docs/glossary.md has %d words: at most %d are our own, use the trade's for others", n, maxGlossary)
	}
}

var mdLimit = regexp.MustCompile("`([\\w./-]+\\.go)` `(\\w+)`")

// Limits checks that each row of the table of what one host may take names limits that the
// file beside them declares, and a test.
func Limits(name string, src []byte, read func(string) []byte) (rows int, out []Finding) {
	_, table, _ := strings.Cut(string(src), "\n## What one host may take\n")
	from := strings.Count(string(src), "\n") - strings.Count(table, "\n")
	for i, line := range strings.Split(table, "\n") {
		cells := strings.Split(line, " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| shared |") {
			continue
		}
		rows++
		add := func(format string, args ...any) {
			out = append(out, Finding{File: name, Line: from + i + 1, Text: fmt.Sprintf(format, args...)})
		}
		if len(cells) != 6 || !strings.Contains(cells[5], "`Test") {
			add("has %d cells, or no test in the last one: write what is shared, how much, what is beyond it, where the host is named, the limit and its test", len(cells))
			continue
		}
		limits := mdLimit.FindAllStringSubmatch(cells[4], -1)
		if len(limits) == 0 {
			add("names no limit: write its file and the name that it has there")
		}
		for _, l := range limits {
			declared := `(?m)(^\s*(const |var |func (\([^)]*\) )?)?` + l[2] + `\b(, \w+)*\s*(=|\(|[\w.]+\s*(=|$|//))|^\s*\w+, ` + l[2] + `\b)`
			if !regexp.MustCompile(declared).Match(read(l[1])) {
				add("names the limit %s, which %s does not declare: correct the row", l[2], l[1])
			}
		}
	}
	return rows, out
}

func TestWhatOneHostMayTakeIsLimited(t *testing.T) {
	tr := load(t)
	rows, found := Limits("docs/threats.md", tr.read(t, "docs/threats.md"), func(f string) []byte { return tr.read(t, f) })
	report(t, found)
	if rows < 15 {
		t.Errorf("the table has %d rows: the rule would see nothing", rows)
	}
}

func TestLimits(t *testing.T) {
	read := func(string) []byte {
		return []byte("package a\n\nconst most = 4\n\ntype L struct {\n\tAll, PerHost int\n}\n")
	}
	check := func(row string, want ...string) {
		t.Helper()
		_, found := Limits("p.md", []byte("\n## What one host may take\n\n"+row+"\n"), read)
		one(t, found, want...)
	}
	check("| a | b | c | d | `a/a.go` `most`, `a/a.go` `PerHost` | `TestX` |")
	check("| a | b | c | d | `a/a.go` `least` | `TestX` |", "p.md:4: names the limit least")
	check("| a | b | c | d | – | `TestX` |", "names no limit")
	check("| a | b | c | d | `a/a.go` `most` | by hand |", "no test in the last one")
}
