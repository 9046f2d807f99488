package api_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestBrowserOwnKind: what a driver has a word of its own for has a list and a page as flows have, with
// what was changed by hand, and what people type about it.
func TestBrowserOwnKind(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	s := &site{world: newWorld(t)}
	d := s.newDevice("gw-1", `{"door": {"zoom": 2, "night": true}, "gate": {"zoom": 1}}`)
	d.collection.Kind = "camera"
	d.register()
	testkit.Value(s.op.AdoptObjects(s.ctx(), "gw-1", operator.Adopt{Reason: "test"}))(t)
	d.write(`{"door": {"zoom": 5, "night": true}, "gate": {"zoom": 1}}`)
	s.untilNode("gw-1", "drift of the door", func(n *drift.Node) bool {
		return n.Episodes[drift.Key("camera", "door")] != nil
	})
	p := s.browser(t, s.adminSecret(), "/config/camera")
	p.WaitSeq(1)
	list := p.In("group", "Objects of kind camera")
	list.WaitText("door")
	list.WaitText("mismatched")
	usable(t, p, "")
	p.Go(s.server.OperatorURL() + "/config/camera/door?edit=1")
	change := p.In("region", "Change")
	change.Write("textbox", "zoom", "3")
	p.Until("the text to say so", `document.getElementById("source").value.includes("zoom: 3")`)
	usable(t, p, "camera")
	s.byKeyboard(t, p, keyed{verb: "Set", role: "region", part: "Change", line: "steady object --kind camera edit door -f door.yaml"})
	s.until("the camera to be set", func() bool {
		o, err := s.op.Object(s.ctx(), "camera", "door")
		return err == nil && string(o.Definition.Legs[0].Config) == `{"night":true,"zoom":3}`
	})
}
