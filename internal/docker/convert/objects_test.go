package convert_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
)

var networks = map[string]spec.Network{
	"plain":    {},
	"internal": {Driver: "bridge", Internal: true, Attachable: true, Labels: map[string]string{"a": "", "api_key": "x"}},
	"options":  {Options: map[string]string{"com.docker.network.bridge.enable_icc": "false", "com.docker.network.driver.mtu": "1400"}},
	"pool":     {Pools: []spec.Pool{{Subnet: "10.78.0.0/16", Range: "10.78.4.0/24", Gateway: "10.78.0.9", Aux: map[string]string{"router": "10.78.0.7"}}}},
	"subnet":   {Pools: []spec.Pool{{Subnet: "10.79.0.0/16"}}, IPAMDriver: "default", IPAMOpts: map[string]string{"x": "y"}},
	"both":     {IPv6: true, Pools: []spec.Pool{{Subnet: "fd00:0:0:78::/64"}, {Subnet: "10.80.0.0/16"}}},
}

func TestS36NetworksDoNotDiffer(t *testing.T) {
	w := newWorld(t)
	own := w.d.Namespace(t)
	ids := map[string]string{}
	inspect := func(name string) client.NetworkInspectResult {
		r, err := w.api.NetworkInspect(t.Context(), ids[name], client.NetworkInspectOptions{})
		w.ok(err)
		return r
	}
	in := convert.Inputs{Digest: key}
	for name, n := range networks {
		n.Name = name
		o, err := convert.CreateNetwork(&n, map[string]string{"io.steady.owner": "f/h"})
		w.ok(err)
		made, err := w.api.NetworkCreate(t.Context(), own.Name(name), o)
		w.ok(err)
		ids[name] = made.ID
		seen := inspect(name).Network
		same(t, name, diff.Compare(convert.Network(&n, own.Name(name), in), convert.ObservedNetwork(&seen, in), nil, diff.NetworkRules{}))
	}
	// Each from each other: different ones differ.
	for name, n := range networks {
		for other := range networks {
			n.Name = name
			seen := inspect(other).Network
			asked := networks[other]
			asked.Name = other
			observed := convert.ObservedNetwork(&seen, in)
			base := &diff.Baseline{Desired: convert.Network(&asked, own.Name(other), in), Observed: observed}
			ds := diff.Compare(convert.Network(&n, own.Name(other), in), observed, base, diff.NetworkRules{})
			if (name == other) != (len(ds) == 0) {
				t.Errorf("%s from %s: %v", name, other, ds)
			}
			if slices.ContainsFunc(ds, func(d diff.Difference) bool { return d.Class != diff.Replace }) {
				t.Errorf("%s from %s: %v", name, other, ds)
			}
		}
	}
	for _, bad := range []spec.Pool{{Subnet: "x"}, {Range: "x"}, {Gateway: "x"}, {Aux: map[string]string{"a": "x"}}} {
		if _, err := convert.CreateNetwork(&spec.Network{Name: "bad", Pools: []spec.Pool{bad}}, nil); err == nil || !strings.Contains(err.Error(), "network bad") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestTrap18_VolumesAreGivenBackAsTheyAre: a second making of a volume changes
// nothing of it, and only the comparison tells.
func TestTrap18_VolumesAreGivenBackAsTheyAre(t *testing.T) {
	w := newWorld(t)
	in := convert.Inputs{Digest: key}
	name := w.d.Namespace(t).Name("kept")
	v := spec.Volume{Name: "kept", Options: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": "size=1m,password=hunter2"}, Labels: map[string]string{"a": "1"}}
	make := func(v *spec.Volume) []diff.Difference {
		t.Helper()
		r, err := w.api.VolumeCreate(t.Context(), convert.CreateVolume(v, name, map[string]string{"io.steady.owner": "f/h"}))
		w.ok(err)
		seen := r.Volume
		for _, f := range []diff.Form{convert.Volume(v, name, in), convert.ObservedVolume(&seen, in)} {
			if strings.Contains(f["option/o"], "hunter2") {
				t.Errorf("an option shows a password: %v", f)
			}
		}
		return diff.Compare(convert.Volume(v, name, in), convert.ObservedVolume(&seen, in), nil, diff.VolumeRules{})
	}
	same(t, "made", make(&v))
	v.Labels["a"], v.Options["o"] = "2", "size=2m,password=hunter2"
	wantFields(t, make(&v), classes{"label/a": diff.Blocked, "option/o": diff.Blocked})
}
