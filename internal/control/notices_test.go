package control

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
)

// A grant says which wave and budgets let it pass; one that is asked for at a level
// that nobody reads is not even decoded.
func TestGrantsAreLoggedWithWaveAndBudgets(t *testing.T) {
	granted := testkit.Value(event.NewEntry(1, event.HostSubject("h1"), event.Granted{Grant: "g1", Rollout: "lab@1", Wave: 2, Budgets: map[string]string{"web": "1/2 in flight"}}))(t)
	for level, expected := range map[slog.Level][]string{
		slog.LevelInfo: {"granted", "host=h1", "wave=2", "web", "1/2 in flight"},
		slog.LevelWarn: nil,
	} {
		var out strings.Builder
		c := &Control{cfg: Config{Log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))}}
		c.logNotices([]event.Entry{granted})
		if slices.ContainsFunc(expected, func(s string) bool { return !strings.Contains(out.String(), s) }) || (expected == nil) != (out.Len() == 0) {
			t.Errorf("at level %s the log has %q, expected %q", level, out.String(), expected)
		}
	}
}
