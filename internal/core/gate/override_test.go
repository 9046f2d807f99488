package gate_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
)

// TestS18SignedHoldBlocks: whatever holds a rollout by signature blocks its
// grants and says who can end that; nothing else does.
func TestS18SignedHoldBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		action := rapid.SampledFrom(append([]fleet.OverrideAction{""}, fleet.OverrideActions...)).Draw(t, "action")
		b := gate.CheckOverride("c@1", string(action), "pause signed as o-1: incident 7")
		if (b == nil) != (action == "") {
			t.Fatalf("%q gives %+v", action, b)
		}
		if b != nil && (b.Code != gate.Overlay || b.Message == "" || b.WaitsFor == "" || b.ClearedBy == "") {
			t.Fatalf("%+v says too little", *b)
		}
	})
}
