package compliance

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// citation is a document with its version where it has several, and the numbers of its sections.
var citation = regexp.MustCompile(`^(CIS Docker Benchmark v1\.6\.0, [45]\.\d+|CIS Distribution Independent Linux Benchmark v2\.0\.0, 6\.1\.\d+|NIST SP 800-190, 4\.\d\.\d|NIST SP 800-128, 3\.\d)((, \d+(\.\d+)+)* and \d+(\.\d+)+)?$`)

// TestControlsCiteWhatThePageSays holds each control's citation in form, and
// docs/controls.md, which names the title of what is cited and what it was compared
// with, equal to the packs.
func TestControlsCiteWhatThePageSays(t *testing.T) {
	page := testkit.Value(os.ReadFile("../../docs/controls.md"))(t)
	_, rows, _ := strings.Cut(string(page), "## Every control")
	var listed [][]string
	for line := range strings.Lines(rows) {
		if strings.HasPrefix(line, "| `") {
			listed = append(listed, strings.Split(strings.Trim(line, "| \n"), " | "))
		}
	}
	for _, p := range packs {
		for _, c := range p.controls {
			if !citation.MatchString(c.Source) {
				t.Errorf("%s cites %q: expected a document, its version and sections", c.ID, c.Source)
			}
			if len(listed) == 0 {
				t.Fatalf("docs/controls.md lacks %s", c.ID)
			}
			row := listed[0]
			listed = listed[1:]
			if len(row) < 3 || row[0] != "`"+c.ID+"`" || row[1] != c.Source {
				t.Fatalf("docs/controls.md has %q where %s cites %s", row, c.ID, c.Source)
			}
			if sections, titles := len(regexp.MustCompile(`\d+(\.\d+)+`).FindAllString(afterComma(c.Source), -1)), len(strings.Split(row[2], "; ")); sections != titles {
				t.Errorf("%s cites %d sections and the page has %d titles", c.ID, sections, titles)
			}
		}
	}
	if len(listed) > 0 {
		t.Errorf("docs/controls.md has %q, which no pack has", listed[0])
	}
}

func afterComma(s string) string {
	_, after, _ := strings.Cut(s, ", ")
	return after
}
