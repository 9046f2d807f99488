package devices

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// What a device sends stays on the line that quotes it: it cannot forge a line of the command.
func TestDeviceTextStaysOnItsLine(t *testing.T) {
	t.Parallel()
	const forged = "FORGED"
	text := "text\n" + forged + "\r" + forged
	for name, show := range map[string]func(verbs) error{
		"preview": func(a verbs) error {
			return (&objects{a, nodeconfig.Flow, false}).preview("a", operator.ObjectPreview{Legs: []operator.LegPreview{{
				Role: "sender", Node: "gw-1", Wait: &drift.Wait{Message: text}, Checked: true,
				Fields: []drift.Field{{Field: text, Actual: &text, Desired: &text}}, Problems: []operator.DeviceProblem{{Field: text, Message: text}},
			}}})
		},
		"node": func(a verbs) error {
			return a.showNode(drift.NodeDetail{NodeRow: drift.NodeRow{Name: "gw-1", Status: drift.NodeOffline, Why: text, Driver: text, Version: text, Problem: text}})
		},
	} {
		var out bytes.Buffer
		if err := show(verbs{&command.Env{Streams: command.Streams{Out: &out, Getenv: func(string) string { return "" }, Now: func() time.Time { return time.Unix(0, 0) }}}}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), forged) {
			t.Errorf("%s does not show the text:\n%s", name, &out)
		}
		for line := range strings.FieldsFuncSeq(out.String(), func(r rune) bool { return r == '\n' || r == '\r' }) {
			if strings.HasPrefix(line, forged) {
				t.Errorf("%s shows a line of the device as its own: %q", name, line)
			}
		}
	}
}
