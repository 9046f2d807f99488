package gate_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/gate"
)

func drawOutstanding(t *rapid.T) []gate.Outstanding {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) gate.Outstanding {
		return gate.Outstanding{Host: names.Draw(t, "host"), Controls: rapid.SliceOfN(names, 1, 5).Draw(t, "controls")}
	}), 0, 5).Draw(t, "outstanding")
}

// TestS42ComplianceGatesOpenWhenNothingFails checks that both gates are shut
// exactly while something fails, and name the first that does.
func TestS42ComplianceGatesOpenWhenNothingFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		failures, failing := rapid.SliceOfN(names, 0, 5).Draw(t, "failures"), drawOutstanding(t)
		b := gate.CheckControls("c@1", failures)
		opens(t, b, gate.Compliance, len(failures) == 0)
		if b != nil && !strings.Contains(b.Message, failures[0]) {
			t.Fatalf("%s does not name %s", b.Message, failures[0])
		}
		e := gate.CheckEvidence("c@1", failing)
		opens(t, e, gate.Compliance, len(failing) == 0)
		if e != nil && (!strings.Contains(e.Message, failing[0].Host) || !strings.Contains(e.Message, failing[0].Controls[0])) {
			t.Fatalf("%s does not name %+v", e.Message, failing[0])
		}
	})
}
