package apply

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
)

func TestEnd(t *testing.T) {
	now := clock.Instant(1_800_000_000_000)
	for text, want := range map[string]clock.Instant{"": 0, "8h": now.Add(8 * clock.Hour), now.Add(clock.Minute).String(): now.Add(clock.Minute)} {
		if got, err := (&End{text}).At(now); err != nil || got != want {
			t.Errorf("%q ends at %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"soon", "0s", "-1h", now.String(), "2001-05-01T18:00:00Z"} {
		if got, err := (&End{text}).At(now); err == nil {
			t.Errorf("%q ends at %s", text, got)
		}
	}
}
