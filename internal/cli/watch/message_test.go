package watch

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// A host that enrols again with a past of its own reads without gaps.
func TestWordsOfAPastThatTheLogDidNotSee(t *testing.T) {
	for body, want := range map[string]string{
		`{"rollout":"","expected":"","reported":"pending","input":"booted"}`:           "came back pending, which the log does not explain (the agent started)",
		`{"rollout":"a@b","expected":"soaking","reported":"failed","input":"elapsed"}`: "is failed in a@b where the server expected soaking (time passed)",
	} {
		got := operator.Message(operator.Event{Type: "host.mirror_diverged", Subject: event.HostSubject("web-1"), Body: []byte(body)})
		if !strings.Contains(got, want) {
			t.Errorf("%s reads %q", body, got)
		}
	}
}

// TestLinesOfEventsAreOneLine is T18: what a host reports cannot drive the
// terminal of whoever watches, nor look like an event of its own.
func TestLinesOfEventsAreOneLine(t *testing.T) {
	e := encode(t, 7, "web-1", event.GrantDeclined{Grant: "g1", Code: "busy", Detail: "x\n     8  00:00:00.000  server  \x1b[32mall is well\u202e"})
	if got := Line(e, e.At); strings.ContainsAny(got, "\n\x1b\u202e") || !strings.Contains(got, "all is well") {
		t.Errorf("shown as %q", got)
	}
}

// TestFirstStepIsFromPending: a host that never stood anywhere has a name for that.
func TestFirstStepIsFromPending(t *testing.T) {
	e := encode(t, 7, "web-1", event.HostStepped{To: host.Activating})
	if got := operator.Message(e); !strings.HasPrefix(got, "pending -> activating") {
		t.Errorf("reads %q", got)
	}
}

// TestWordsNameARolloutOnce is that the name of a rollout, which begins with its
// channel, is not given the channel again.
func TestWordsNameARolloutOnce(t *testing.T) {
	name := fleet.RolloutName("lab", "v2")
	for _, e := range []event.Event{
		event.RolloutQueued{Channel: "lab", TargetRef: name, Reason: "r"},
		event.RolloutDeferred{Channel: "lab", TargetRef: name, BlockedBy: "stable", Reason: "r"},
	} {
		if got := operator.Message(encode(t, 1, "", e)); !strings.HasPrefix(got, name+" ") {
			t.Errorf("%s reads %q", e.EventType(), got)
		}
	}
}
