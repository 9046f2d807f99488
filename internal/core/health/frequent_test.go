package health_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Whatever hosts say of themselves, metrics have a bounded number of versions, each host
// counts once, and what most hosts run is named.
func TestVersionsAreBounded(t *testing.T) {
	const most = 32
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.MapOfN(rapid.StringMatching(`[0-9.]{1,4}|other`), rapid.IntRange(1, 9), 0, 3*most).Draw(t, "versions")
		all, top := 0, ""
		for v, c := range n {
			all += c
			if c > n[top] {
				top = v
			}
		}
		few := health.MostFrequent(n, most)
		sum := 0
		for _, c := range few {
			sum += c
		}
		if len(few) > most || sum != all || top != health.Other && few[top] < n[top] && n[top] > 1 && countAtLeast(n, n[top]) < most {
			t.Fatalf("%d versions with %d hosts of %d; most run %q: %v", len(few), sum, all, top, few)
		}
	})
}

func countAtLeast(n map[string]int, least int) (count int) {
	for _, c := range n {
		if c >= least {
			count++
		}
	}
	return count
}

// TestKindsOfOneHostAreBounded: what one host calls its resources makes no more labels of a
// metric than a fleet may have.
func TestKindsOfOneHostAreBounded(t *testing.T) {
	r := newReports(t)
	for i := range 3 * health.MaxKinds {
		r.fold("h", status(fmt.Sprintf("kind%d/mine", i), engine.Failed, spec.ErrorState))
	}
	n := health.Total(r.s, []string{"h"}, func(string) health.Facts { return health.Facts{} }, 0)
	if len(n.Errors) != health.MaxKinds || n.Errors[health.Other] != 2*health.MaxKinds+1 {
		t.Errorf("%d kinds are told apart, %d others", len(n.Errors), n.Errors[health.Other])
	}
}
