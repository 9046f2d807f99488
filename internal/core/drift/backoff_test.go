package drift

import (
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"pgregory.net/rapid"
)

// TestBackoff: waits begin with First and grow to Most, a fifth more or less, for any setting and leg.
func TestBackoff(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := clock.Duration(rapid.Int64Range(int64(MinRetry), int64(MaxRetry)).Draw(t, "first"))
		b := Backoff{First: first, Most: clock.Duration(rapid.Int64Range(int64(first), int64(MaxRetry)).Draw(t, "most"))}
		of := fmt.Sprint("leg ", rapid.IntRange(0, 99).Draw(t, "leg"))
		for failures, d := 1, b.First; failures < 60; failures, d = failures+1, min(d*3/2, b.Most) {
			if got := b.wait(of, failures); got < d*4/5-1 || got > d*6/5+1 {
				t.Fatalf("%v after %d failures it waits %s, not about %s", b, failures, got, d)
			}
		}
	})
	if b := (Backoff{}).WithDefaults(); b != (Backoff{30 * clock.Second, 10 * clock.Minute}) {
		t.Errorf("the default is %v", b)
	}
}
