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
