package dockerapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/api/types/container"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestListingsAreReadAsEver: whatever changes between two listings, and wherever
// an answer is cut off, what is read is what encoding/json reads.
func TestListingsAreReadAsEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l listed
		var all []container.Summary
		for range rapid.IntRange(1, 5).Draw(t, "listings") {
			for i := range all {
				if rapid.IntRange(0, 3).Draw(t, "changes") == 0 {
					all[i].Status = rapid.SampledFrom([]string{"Up 1 second", "Up 2 minutes", `a "]},{" b`, ""}).Draw(t, "status")
				}
			}
			if len(all) > 0 && rapid.IntRange(0, 3).Draw(t, "goes") == 0 {
				all = all[1:]
			}
			for range rapid.IntRange(0, 2).Draw(t, "come") {
				id := fmt.Sprintf("%064x", rapid.IntRange(0, 4).Draw(t, "id"))
				all = append([]container.Summary{{ID: id[rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "short"):], Labels: map[string]string{"a": "b"}}}, all...)
			}
			raw := testkit.Value(json.Marshal(all))(t)
			body := string(raw)
			if rapid.Bool().Draw(t, "spaced") {
				body = " " + strings.ReplaceAll(body, `},{"Id"`, "} ,\n{\"Id\"") + "\n"
			}
			if rapid.IntRange(0, 3).Draw(t, "cut") == 0 {
				body = body[:rapid.IntRange(0, len(body)).Draw(t, "at")]
			}
			var want []container.Summary
			wrong := json.Unmarshal([]byte(body), &want)
			got, err := l.read([]byte(body))
			if (err == nil) != (wrong == nil) {
				t.Fatalf("%q: %v, encoding/json says %v", body, err, wrong)
			}
			if err == nil {
				if d := cmp.Diff(want, got); d != "" {
					t.Fatalf("%q: %s", body, d)
				}
			}
		}
	})
}

func TestListingsThatAreNone(t *testing.T) {
	for _, body := range []string{"", "{}", "[", "]", "[]]", "[] []", "[,]", `[{}`, `[{}{}]`, `[{},]`, `[{};{}]`, `[{"Id":1}]`, "[null", `"x"`} {
		var l listed
		var want []container.Summary
		if got, err := l.read([]byte(body)); err == nil || json.Unmarshal([]byte(body), &want) == nil {
			t.Errorf("%q gave %v", body, got)
		}
	}
}
