package nodeconfig_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// TestKinds: any name is a kind with one leg, but for what a fleet has other things of.
func TestKinds(t *testing.T) {
	for name, refused := range map[string]string{
		"camera": "", "flow": "", "ptz.camera_2-b": "", "9": "", "ingress": "", "constructor": "", strings.Repeat("k", 40): "",
		"": "expected 1 to 40", strings.Repeat("k", 41): "expected 1 to 40", "Camera": "expected 1 to 40", "a b": "expected 1 to 40", "a/b": "expected 1 to 40", "-a": "expected 1 to 40",
		"käse": "expected 1 to 40", "host": "reserved", "rollout": "reserved", "node": "reserved", "session": "reserved", "drift": "reserved", "object": "reserved",
	} {
		err := nodeconfig.CheckKind(name)
		if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("%q: %v, want %q", name, err, refused)
		}
		k := nodeconfig.KindOf(name)
		if (k == nil) != (refused != "") {
			t.Errorf("%q is the kind %+v", name, k)
		}
		if k != nil && nodeconfig.IsOwn(name) {
			d, err := nodeconfig.Normal(name, "a", nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: name, Node: "n"}}})
			if err != nil || d.Legs[0].ID != "a" || nodeconfig.Command(name) != "object --kind "+name {
				t.Errorf("%q: %+v, %v", name, d, err)
			}
		}
	}
	if nodeconfig.Command(nodeconfig.Tunnel) != "tunnel" || nodeconfig.IsOwn(nodeconfig.Document) {
		t.Error("what every fleet has is a word of drivers")
	}
}
