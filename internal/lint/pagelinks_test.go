package lint

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// rowsOf checks the rows of a page whose name row matches: each name of wanted has
// one, of four cells, and one whose last cell cites no test says "not yet". cells and
// missing say in words what a row has and what to write; check may add of the cells.
func rowsOf(name string, src []byte, row *regexp.Regexp, wanted []string, cells, missing string, check func(id string, cells []string) string) []Finding {
	var out []Finding
	rows := map[string]bool{}
	for i, line := range strings.Split(string(src), "\n") {
		m := row.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		add := func(format string, args ...any) {
			out = append(out, Finding{File: name, Line: i + 1, Text: "the row of " + m[1] + " " + fmt.Sprintf(format, args...)})
		}
		if rows[m[1]] {
			add("is there twice: keep one")
		}
		rows[m[1]] = true
		has := strings.Split(strings.Trim(line, "| "), "|")
		if len(has) != 4 {
			add("has %d cells and not 4: %s", len(has), cells)
			continue
		}
		if words := check(m[1], has); words != "" {
			add("%s", words)
		}
		if !citedTest.MatchString(has[3]) && !strings.Contains(strings.ToLower(has[3]), "not yet") {
			add("cites no test: cite one, or say \"not yet\" and what is missing")
		}
	}
	for _, want := range wanted {
		if !rows[want] {
			out = append(out, Finding{File: name, Text: "has no row for " + want + ": " + missing})
		}
	}
	return out
}

// Matrix checks a page of threats or faults: each name from the letter and 1 to
// last has one row of four cells (name, what happens, what stands against it,
// tests), and a row without a test says "not yet".
func Matrix(name string, src []byte, letter string, last int) []Finding {
	return rowsOf(name, src, regexp.MustCompile(`^\| (`+letter+`\d+) \|`), numbered(letter, last),
		"name, what happens, what stands against it, tests", "write what happens, what stands against it and which tests show it",
		func(string, []string) string { return "" })
}

// numbered are the names from the letter and 1 to last.
func numbered(letter string, last int) []string {
	names := make([]string, last)
	for n := range names {
		names[n] = fmt.Sprint(letter, n+1)
	}
	return names
}

var (
	decisionFile  = regexp.MustCompile(`^(\d{4})-[a-z0-9-]+\.md$`)
	decisionTitle = regexp.MustCompile(`^# (\d{4})\. (.+)$`)
	decisionRow   = regexp.MustCompile(`(?m)^\| \[(\d{4})\]\(([^)]+)\) \| (.*) \| [a-z0-9 ]+ \|$`)
)

// Decisions checks the pages of decisions, by path, and their index: a number
// stands for one decision, in the name of its file and in its title, and the
// index has each once, with that title.
func Decisions(index string, src []byte, pages map[string][]byte) []Finding {
	var out []Finding
	titles, numbers := map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		add := func(format string, args ...any) {
			out = append(out, Finding{File: name, Line: 1, Text: fmt.Sprintf(format, args...)})
		}
		m := decisionFile.FindStringSubmatch(path.Base(name))
		if m == nil {
			add("is no NNNN-a-few-words.md: give the decision a number")
			continue
		}
		if other, taken := numbers[m[1]]; taken {
			add("has the number of %s: take the next free one", other)
		}
		numbers[m[1]] = path.Base(name)
		first, _, _ := strings.Cut(string(pages[name]), "\n")
		title := decisionTitle.FindStringSubmatch(first)
		if title == nil || title[1] != m[1] {
			add("begins with %q: expected \"# %s. The decision in one line\"", first, m[1])
			continue
		}
		titles[path.Base(name)] = title[2]
	}
	seen := map[string]bool{}
	for _, m := range decisionRow.FindAllStringSubmatch(string(src), -1) {
		add := func(format string, args ...any) {
			out = append(out, Finding{File: index, Text: "the row of " + m[1] + " " + fmt.Sprintf(format, args...)})
		}
		if seen[m[2]] {
			add("is there twice: keep one")
		}
		seen[m[2]] = true
		if !strings.HasPrefix(m[2], m[1]+"-") {
			add("leads to %s: correct the number or the link", m[2])
		}
		if want, ok := titles[m[2]]; ok && want != m[3] {
			add("says %q, the page %q: correct one", m[3], want)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(titles)) {
		if !seen[name] {
			out = append(out, Finding{File: index, Text: "has no row for " + name + ": add one"})
		}
	}
	return out
}
