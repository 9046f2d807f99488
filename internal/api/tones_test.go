package api_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestEveryStatusWordHasATone: no word of a status stands in the web UI without a shape and a colour.
func TestEveryStatusWordHasATone(t *testing.T) {
	t.Parallel()
	source := string(testkit.Value(os.ReadFile("../web/ui/src/words.tsx"))(t))
	table := regexp.MustCompile(`(?s)const tones[^{]*\{(.*?)\n\};`).FindStringSubmatch(source)
	if table == nil {
		t.Fatal("words.tsx has no table of tones")
	}
	var known []string
	for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(table[1], -1) {
		known = append(known, m[1])
	}
	words := reflect.ValueOf(operator.NewReference())
	for i := range words.NumField() {
		list, is := words.Field(i).Interface().([]prose.Meaning)
		name := words.Type().Field(i).Name
		if !is || name == "Gates" { // which hold or do not
			continue
		}
		for _, m := range list {
			if !slices.Contains(known, m.Word) && !slices.Contains(known, strings.ReplaceAll(strings.ToLower(m.Word), " ", "-")) {
				t.Errorf("%s: %q has no tone", name, m.Word)
			}
		}
	}
}
