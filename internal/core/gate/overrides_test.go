package gate_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/testkit"
)

var (
	manifests = []digest.Digest{digest.Of([]byte("m1")), digest.Of([]byte("m2"))}
	bundles   = []digest.Digest{digest.Of([]byte("b1")), digest.Of([]byte("b2"))}
)

// draw makes overrides as distinct documents; some are signed at one instant.
func draw(t *rapid.T, i int) gate.AcceptedOverride {
	o := fleet.Override{ID: fmt.Sprintf("o%d", i), Channel: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "channel"), Reason: "because"}
	o.Action = rapid.SampledFrom(fleet.OverrideActions).Draw(t, "action")
	o.Fleet, o.Epoch, o.IssuedAt = "acme", uint64(rapid.IntRange(1, 2).Draw(t, "epoch")), clock.Instant(rapid.IntRange(1, 6).Draw(t, "at"))
	o.Version, o.NotAfter = uint64(o.IssuedAt), o.IssuedAt.Add(clock.Day)
	switch o.Action {
	case fleet.OverrideQuarantine, fleet.OverrideUnquarantine:
		o.Bundle, o.Host = rapid.SampledFrom(bundles).Draw(t, "bundle"), rapid.SampledFrom([]string{"", "h"}).Draw(t, "host")
	case fleet.OverrideFreeze, fleet.OverrideUnfreeze:
	case fleet.OverrideRemove:
		o.Host, o.Incarnation, o.Workloads = "h", 1, rapid.SampledFrom([]fleet.Workloads{fleet.Keep, fleet.Stop, fleet.Wipe}).Draw(t, "workloads")
	default:
		o.Manifest = rapid.SampledFrom(manifests).Draw(t, "manifest")
		o.Channel = "a"
		if o.Action == fleet.OverridePromote {
			o.Wave = rapid.SampledFrom([]string{"w0", "w1"}).Draw(t, "wave")
		}
	}
	testkit.Must(t, o.Check())
	return gate.AcceptedOverride{Override: o, Digest: digest.Of([]byte(o.ID))}
}

// TestS18OverridesFoldInAnyOrder: whoever sends the signed words, in whatever
// order and however often, they add up to the same; so what was loosened before
// it was held cannot be sent again to loosen it.
func TestS18OverridesFoldInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []gate.AcceptedOverride
		for i := range rapid.IntRange(1, 12).Draw(t, "words") {
			all = append(all, draw(t, i))
		}
		var want, got gate.Overrides
		for _, o := range all {
			want.Accept(o)
		}
		for _, o := range rapid.Permutation(append(append([]gate.AcceptedOverride{}, all...), all...)).Draw(t, "order") {
			switch before := got.Clone(); got.Accept(o) {
			case gate.OverrideNew:
			case gate.OverrideKnown, gate.OverrideOlder:
				if !reflect.DeepEqual(before.List(), got.List()) {
					t.Fatalf("%s changed something", o.ID)
				}
			default:
				t.Fatal("full")
			}
		}
		if !reflect.DeepEqual(want.List(), got.List()) {
			t.Fatalf("%+v\n%+v", want.List(), got.List())
		}
		naive(t, all, &got)
		raw := testkit.Value(json.Marshal(got))(t)
		var again gate.Overrides
		if err := json.Unmarshal(raw, &again); err != nil || !reflect.DeepEqual(again.List(), got.List()) {
			t.Fatalf("read back as %+v, %v", again, err)
		}
		got.End(2)
		for _, o := range got.List() {
			if o.Epoch < 2 {
				t.Fatalf("%s outlived its epoch", o.ID)
			}
		}
	})
}

// naive asks of every hold whether nothing signed later loosens it.
func naive(t *rapid.T, all []gate.AcceptedOverride, s *gate.Overrides) {
	loosened := func(a fleet.OverrideAction) fleet.OverrideAction {
		return map[fleet.OverrideAction]fleet.OverrideAction{fleet.OverridePause: fleet.OverrideResume,
			fleet.OverrideQuarantine: fleet.OverrideUnquarantine, fleet.OverrideFreeze: fleet.OverrideUnfreeze}[a]
	}
	later := func(a, b gate.AcceptedOverride) bool {
		return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Version > b.Version
	}
	for _, o := range all {
		if !o.Action.Restricts() || o.Action == fleet.OverrideRemove { // it ends an identity: TestS43SignedRemoval
			continue
		}
		stands := true
		for _, other := range all {
			same := other.Manifest == o.Manifest && other.Bundle == o.Bundle && other.Host == o.Host && other.Channel == o.Channel
			again := other.Action == fleet.OverrideRetry && o.Manifest != ""
			if same && (other.Action == loosened(o.Action) || again) && later(other, o) {
				stands = false
			}
		}
		host := o.Host
		if host == "" {
			host = "h"
		}
		if stands && s.Forbids(o.Channel, o.Manifest, o.Bundle, host) == nil {
			t.Fatalf("%s (%s) stands and forbids nothing", o.ID, o.Action)
		}
	}
}

func TestOverrideCheck(t *testing.T) {
	good := fleet.Override{Document: fleet.Document{Version: 1000, IssuedAt: 1000}, ID: "o-1", Action: fleet.OverridePause, Channel: "stable",
		Rollout: "stable@v1", Manifest: manifests[0], Reason: "incident 7", NotAfter: 2000}
	testkit.Must(t, good.Check())
	for name, spoil := range map[string]func(*fleet.Override){
		"no action":                 func(o *fleet.Override) { o.Action = "" },
		"another action":            func(o *fleet.Override) { o.Action = "install" },
		"no id":                     func(o *fleet.Override) { o.ID = "" },
		"an id like a path":         func(o *fleet.Override) { o.ID = "../x" },
		"no channel":                func(o *fleet.Override) { o.Channel = "" },
		"no manifest":               func(o *fleet.Override) { o.Manifest = "" },
		"a bundle besides":          func(o *fleet.Override) { o.Bundle = bundles[0] },
		"a wave besides":            func(o *fleet.Override) { o.Wave = "w0" },
		"a promotion of no wave":    func(o *fleet.Override) { o.Action, o.NotAfter = fleet.OverridePromote, o.IssuedAt.Add(clock.Day) },
		"glass broken for too long": func(o *fleet.Override) { o.Action, o.NotAfter = fleet.OverrideBreakGlass, o.IssuedAt.Add(clock.Day+1) },
		"a host besides":            func(o *fleet.Override) { o.Host = "web-1" },
		"no host's name":            func(o *fleet.Override) { o.Host = "Web 1" },
		"another channel's name":    func(o *fleet.Override) { o.Rollout = "lab@v1" },
		"a quarantine of a rollout": func(o *fleet.Override) { o.Action = fleet.OverrideQuarantine },
		"a freeze of a rollout":     func(o *fleet.Override) { o.Action = fleet.OverrideFreeze },
		"a freeze with workloads": func(o *fleet.Override) {
			o.Action, o.Manifest, o.Rollout, o.Workloads = fleet.OverrideFreeze, "", "", fleet.Stop
		},
		"a removal of nobody": func(o *fleet.Override) {
			o.Action, o.Manifest, o.Rollout, o.Incarnation, o.Workloads = fleet.OverrideRemove, "", "", 1, fleet.Stop
		},
		"a removal of every incarnation": func(o *fleet.Override) {
			o.Action, o.Manifest, o.Rollout, o.Host, o.Workloads = fleet.OverrideRemove, "", "", "h", fleet.Stop
		},
		"a removal that does not say how": func(o *fleet.Override) {
			o.Action, o.Manifest, o.Rollout, o.Host, o.Incarnation = fleet.OverrideRemove, "", "", "h", 1
		},
		"no reason":               func(o *fleet.Override) { o.Reason = "" },
		"a reason of two lines":   func(o *fleet.Override) { o.Reason = "a\nb" },
		"a version ahead":         func(o *fleet.Override) { o.Version++ },
		"no end":                  func(o *fleet.Override) { o.NotAfter = 0 },
		"an end before it begins": func(o *fleet.Override) { o.NotAfter = o.IssuedAt },
		"an end too far":          func(o *fleet.Override) { o.NotAfter = o.IssuedAt.Add(90*clock.Day + 1) },
		"a resume for too long": func(o *fleet.Override) {
			o.Action, o.NotAfter = fleet.OverrideResume, o.IssuedAt.Add(7*clock.Day+1)
		},
	} {
		bad := good
		spoil(&bad)
		if bad.Check() == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func TestOverridesAreBounded(t *testing.T) {
	var s gate.Overrides
	word := func(i int) gate.AcceptedOverride {
		o := fleet.Override{ID: fmt.Sprint("o", i), Action: fleet.OverridePause, Channel: "a", Manifest: digest.Of(fmt.Append(nil, i))}
		return gate.AcceptedOverride{Override: o, Digest: digest.Of(fmt.Append(nil, "o", i))}
	}
	for i := range gate.MaxOverrides {
		if s.Accept(word(i)) != gate.OverrideNew {
			t.Fatal(i)
		}
	}
	if s.Accept(word(gate.MaxOverrides)) != gate.OverrideFull || s.Accept(word(0)) != gate.OverrideKnown {
		t.Error("the bound is not kept, or what is there is forgotten")
	}
}
