package live

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
)

// A host that enrols again with a past of its own reads without gaps.
func TestWordsOfAPastThatTheLogDidNotSee(t *testing.T) {
	for body, want := range map[string]string{
		`{"rollout":"","expected":"","reported":"pending","input":"booted"}`:           "comes as pending, which the log did not lead to (booted)",
		`{"rollout":"a@b","expected":"soaking","reported":"failed","input":"elapsed"}`: "went failed in a@b where soaking was expected (elapsed)",
	} {
		got := Words(operator.Event{Type: "host.mirror_diverged", Host: "web-1", Body: []byte(body)})
		if !strings.Contains(got, want) {
			t.Errorf("%s reads %q", body, got)
		}
	}
}
