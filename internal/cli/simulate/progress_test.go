package simulate

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/cli/command"
)

// TestProgressInAPipe checks that what is over within a second says nothing, and
// that what takes longer says so now and then.
func TestProgressInAPipe(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		want  string
	}{
		{900 * time.Millisecond, ""},
		{5 * time.Second, "played 1 of 3\n"},
		{20 * time.Second, "played 1 of 3\nplayed 2 of 3\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var stderr bytes.Buffer
			tell := verbs{command.New(command.Streams{Err: &stderr, Getenv: func(string) string { return "" }})}.progress("played %d of 3")
			tell(1)
			time.Sleep(min(c.takes, 6*time.Second)) // in a bubble
			tell(2)
			time.Sleep(max(0, c.takes-6*time.Second))
			tell(-1)
			if got := stderr.String(); got != c.want {
				t.Errorf("after %s: %q, expected %q", c.takes, got, c.want)
			}
		})
	}
}
