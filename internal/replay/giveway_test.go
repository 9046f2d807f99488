package replay

import (
	"testing"
	"time"
)

// TestPause: there is none on a machine with room; on a busy one most of the time is left to others,
// and what somebody waits for still goes on.
func TestPause(t *testing.T) {
	for _, c := range []struct{ ran, waited, want time.Duration }{
		{0, 0, 0},
		{100, 0, 0},
		{100, 49, 0},
		{100, 50, 400},
		{time.Hour, time.Hour, mostPause},
	} {
		if got := pause(c.ran, c.waited); got != c.want {
			t.Errorf("after %s, with %s of waiting: a pause of %s, expected %s", c.ran, c.waited, got, c.want)
		}
	}
	if ran, _ := scheduled(); ran <= 0 {
		t.Error("this process did not run")
	}
}
