package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	testFunc   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	citedTest  = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
	coverRow   = regexp.MustCompile(`^\| ([SLP]\d+) \|`)
	gateFunc   = regexp.MustCompile(`(?m)^func (Check\w+)\(`)
	invariant  = regexp.MustCompile(`^Test[SL]\d+`)
	auditNames = regexp.MustCompile(`"([SL]\d+)"`)
)

// Tests lists the tests and fuzz tests that a file declares.
func Tests(src []byte) []string { return firsts(testFunc, src) }

// Audited lists the invariants that a file of package audit names.
func Audited(src []byte) []string { return firsts(auditNames, src) }

func firsts(re *regexp.Regexp, src []byte) []string {
	var out []string
	for _, m := range re.FindAllSubmatch(src, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

// CitedTests checks that each test which a page names exists.
func CitedTests(name string, src []byte, exists func(string) bool) []Finding {
	var out []Finding
	for i, line := range strings.Split(string(src), "\n") {
		for _, span := range mdSpan.FindAllStringSubmatch(line, -1) {
			for _, test := range citedTest.FindAllString(span[1], -1) {
				if !exists(test) {
					out = append(out, Finding{File: name, Line: i + 1, Text: "cites " + test + ", and no test has that name: correct it, or cite the test that took its place"})
				}
			}
		}
	}
	return out
}

// Coverage checks the page of invariants: every one has one row, says in its
// third cell what package audit checks (audited answers for an invariant with
// "Check", "Log", "Check, Log" or "–"), and cites a test or says "not yet".
func Coverage(name string, src []byte, audited func(string) string) []Finding {
	var out []Finding
	rows := map[string]bool{}
	for i, line := range strings.Split(string(src), "\n") {
		m := coverRow.FindStringSubmatch(line)
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
		cells := strings.Split(strings.Trim(line, "| "), "|")
		if len(cells) != 4 {
			add("has %d cells and not 4: name, what must hold, audit, tests", len(cells))
			continue
		}
		if got, want := strings.TrimSpace(cells[2]), audited(m[1]); got != want {
			add("says %q of the audit, the code says %q: correct the cell", got, want)
		}
		if !citedTest.MatchString(cells[3]) && !strings.Contains(strings.ToLower(cells[3]), "not yet") {
			add("cites no test: cite one, or say \"not yet\" and what is missing")
		}
	}
	for _, row := range invariants() {
		if !rows[row] {
			out = append(out, Finding{File: name, Text: "has no row for " + row + ": write what must hold and which tests check it"})
		}
	}
	return out
}

// invariants are the names of the contract.
func invariants() []string {
	var names []string
	for _, list := range []struct {
		letter string
		last   int
	}{{"S", 43}, {"L", 5}, {"P", 12}} {
		for n := range list.last {
			names = append(names, fmt.Sprintf("%s%d", list.letter, n+1))
		}
	}
	return names
}

// GateProperties checks that every gate is called by a property whose name says
// which invariant it holds. Gates and tests are sources of package gate.
func GateProperties(gates, tests []byte) []Finding {
	held := map[string][]string{}
	for body := range strings.SplitSeq(string(tests), "\nfunc ") {
		name, rest, _ := strings.Cut(body, "(")
		if !invariant.MatchString(name) || !strings.Contains(rest, "rapid.Check(") {
			continue
		}
		for _, call := range regexp.MustCompile(`gate\.(Check\w+)\(`).FindAllStringSubmatch(rest, -1) {
			held[call[1]] = append(held[call[1]], name)
		}
	}
	var out []Finding
	for _, g := range firsts(gateFunc, gates) {
		// One that asks every gate says nothing about this one's rule.
		own := slices.DeleteFunc(held[g], func(test string) bool { return strings.HasPrefix(test, "TestL5") })
		if len(own) == 0 {
			out = append(out, Finding{File: "internal/core/gate", Text: g + " has no property that names an invariant: add a TestS… with rapid.Check that calls it"})
		}
	}
	return out
}
