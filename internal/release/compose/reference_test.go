package compose

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestReferenceOfAttributes holds docs/reference/compose.md equal to what becomes of
// each attribute.
func TestReferenceOfAttributes(t *testing.T) {
	const path = "../../../docs/reference/compose.md"
	list := slices.Clone(attributes)
	slices.SortFunc(list, func(x, y Attribute) int { return cmp.Compare(x.Path, y.Path) })
	var b strings.Builder
	b.WriteString("# Attributes of Compose files\n\nThis page is made from the code; a test holds it equal. `*` stands for a name, `[]` for each entry of a list. " +
		"[containers.md](../containers.md) says how a bundle names its Compose files.\n")
	for _, how := range []struct {
		how   How
		title string
	}{{Applied, "Applied: they end in what runs on the host"}, {Noted, "Noted: a warning of the build"}, {Refused, "Refused: an error of the build, with what to do instead"}} {
		fmt.Fprintf(&b, "\n## %s\n\n", how.title)
		if how.how == Applied {
			for _, a := range list {
				if a.How == how.how {
					fmt.Fprintf(&b, "- `%s`\n", a.Path)
				}
			}
			continue
		}
		b.WriteString("| attribute | why |\n|---|---|\n")
		for _, a := range list {
			if a.How == how.how {
				fmt.Fprintf(&b, "| `%s` | %s |\n", a.Path, strings.ReplaceAll(a.Why, "|", `\|`))
			}
		}
	}
	if *rewrite {
		testkit.Must(t, os.WriteFile(path, []byte(b.String()), 0o644))
	}
	if was, err := os.ReadFile(path); err != nil || string(was) != b.String() {
		t.Errorf("%s is not what the code says (%v); run this test with -rewrite", path, err)
	}
}
