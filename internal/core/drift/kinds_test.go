package drift_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// TestCollections: a node has objects of any kinds, within bounds.
func TestCollections(t *testing.T) {
	list := func(kinds ...string) (out []event.NodeCollection) {
		for _, k := range kinds {
			out = append(out, event.NodeCollection{Kind: k})
		}
		return out
	}
	var many []string
	for n := range nodeconfig.MaxKinds + 1 {
		many = append(many, fmt.Sprintf("kind-%d", n))
	}
	for _, c := range []struct {
		kinds []string
		want  string
	}{
		{[]string{"camera"}, ""},
		{[]string{"flow", "camera", "ingress"}, ""},
		{many[1:], ""},
		{many, "a node has 1 to 16 collections, not 17"},
		{nil, "a node has 1 to 16 collections, not 0"},
		{[]string{"camera", "camera"}, "the collection camera is there twice"},
		{[]string{"camera", "host"}, `kind "host" is reserved`},
		{[]string{"Camera"}, "expected 1 to 40"},
		{[]string{"a/b"}, "expected 1 to 40"},
	} {
		err := drift.CheckCollections(list(c.kinds...))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.kinds, err, c.want)
		}
	}
}

// TestKindRows: what every fleet has stands first, then the words of drivers; what is retired counts no more.
func TestKindRows(t *testing.T) {
	s := drift.New()
	of := func(kinds ...string) *drift.Node {
		n := &drift.Node{}
		for _, k := range kinds {
			n.Collections = append(n.Collections, event.NodeCollection{Kind: k})
		}
		return n
	}
	s.Nodes["a"], s.Nodes["b"], s.Nodes["c"] = of("zone", "camera"), of("camera", "flow"), of("old")
	s.Nodes["c"].RetiredAt = 1
	s.Objects["camera/x"] = &drift.Object{Kind: "camera", Name: "x"}
	s.Objects["lamp/y"] = &drift.Object{Kind: "lamp", Name: "y"}
	var got []string
	for _, r := range s.KindRows() {
		got = append(got, fmt.Sprint(r.Name, r.Nodes, r.Objects))
	}
	if want := "flow1 0 tunnel0 0 document0 0 camera2 1 lamp0 1 zone1 0"; strings.Join(got, " ") != want {
		t.Errorf("the kinds are %q, want %q", strings.Join(got, " "), want)
	}
	if s.CheckKind("zone") != nil || s.CheckKind("") != nil || s.CheckKind("old") == nil {
		t.Error("a kind is known if a node has objects of it, or the server knows one")
	}
}
