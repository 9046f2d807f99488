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
					out = append(out, Finding{File: name, Line: i + 1, Text: "cites " + test + ", and no test has that name: correct it, or cite the test that replaced it"})
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
	return rowsOf(name, src, coverRow, invariants(), "name, what must hold, audit, tests", "write what must hold and which tests check it",
		func(id string, cells []string) string {
			if got, want := strings.TrimSpace(cells[2]), audited(id); got != want {
				return fmt.Sprintf("says %q of the audit, the code says %q: correct the cell", got, want)
			}
			return ""
		})
}

// invariants are the names of the contract.
func invariants() []string {
	return slices.Concat(numbered("S", 58), numbered("L", 5), numbered("P", 12))
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
