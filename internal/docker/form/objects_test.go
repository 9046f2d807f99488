package form_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	core "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/docker/form"
)

var networks = map[string]core.Network{
	"plain":    {},
	"internal": {Driver: "bridge", Internal: true, Attachable: true, Labels: map[string]string{"a": "", "api_key": "x"}},
	"options":  {Options: map[string]string{"com.docker.network.bridge.enable_icc": "false", "com.docker.network.driver.mtu": "1400"}},
	"pool":     {Pools: []core.Pool{{Subnet: "10.78.0.0/16", Range: "10.78.4.0/24", Gateway: "10.78.0.9", Aux: map[string]string{"router": "10.78.0.7"}}}},
	"subnet":   {Pools: []core.Pool{{Subnet: "10.79.0.0/16"}}, IPAMDriver: "default", IPAMOpts: map[string]string{"x": "y"}},
	"both":     {IPv6: true, Pools: []core.Pool{{Subnet: "fd00:0:0:78::/64"}, {Subnet: "10.80.0.0/16"}}},
}

func TestS36NetworksDoNotDiffer(t *testing.T) {
	w := newWorld(t)
	own := w.d.Namespace(t)
	ids := map[string]string{}
	records := map[string]form.Record{}
	inspect := func(name string) client.NetworkInspectResult {
		r, err := w.api.NetworkInspect(t.Context(), ids[name], client.NetworkInspectOptions{})
		w.ok(err)
		return r
	}
	in := form.Inputs{Digest: key}
	for name, n := range networks {
		n.Name = name
		o, err := form.CreateNetwork(&n, map[string]string{"io.steady.owner": "f/h"})
		w.ok(err)
		made, err := w.api.NetworkCreate(t.Context(), own.Name(name), o)
		w.ok(err)
		ids[name] = made.ID
		seen := inspect(name).Network
		same(t, name, diff.Compare(form.Network(&n, own.Name(name), in), form.ObservedNetwork(&seen, in), nil, diff.NetworkRules{}))
		records[name], err = form.RecordNetwork(&n, own.Name(name), in, &seen)
		w.ok(err)
	}
	// Each from each other, with and without a record: different ones differ.
	for name, n := range networks {
		for other := range networks {
			n.Name = name
			seen := inspect(other).Network
			base, err := form.Baseline(records[other], key)
			w.ok(err)
			ds := diff.Compare(form.Network(&n, own.Name(other), in), form.ObservedNetwork(&seen, in), base, diff.NetworkRules{})
			if (name == other) != (len(ds) == 0) {
				t.Errorf("%s from %s: %v", name, other, ds)
			}
			if name != other && diff.Verdict(ds) != diff.Replace {
				t.Errorf("%s from %s is %s", name, other, diff.Verdict(ds))
			}
		}
	}
	for _, bad := range []core.Pool{{Subnet: "x"}, {Range: "x"}, {Gateway: "x"}, {Aux: map[string]string{"a": "x"}}} {
		if _, err := form.CreateNetwork(&core.Network{Name: "bad", Pools: []core.Pool{bad}}, nil); err == nil || !strings.Contains(err.Error(), "network bad") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestTrap18_VolumesAreGivenBackAsTheyAre: a second making of a volume changes
// nothing of it, and only the comparison tells.
func TestTrap18_VolumesAreGivenBackAsTheyAre(t *testing.T) {
	w := newWorld(t)
	in := form.Inputs{Digest: key}
	name := w.d.Namespace(t).Name("kept")
	v := core.Volume{Name: "kept", Options: map[string]string{"type": "tmpfs", "device": "tmpfs", "o": "size=1m,password=hunter2"}, Labels: map[string]string{"a": "1"}}
	make := func(v *core.Volume) []diff.Difference {
		t.Helper()
		r, err := w.api.VolumeCreate(t.Context(), form.CreateVolume(v, name, map[string]string{"io.steady.owner": "f/h"}))
		w.ok(err)
		seen := r.Volume
		for _, f := range []diff.Form{form.Volume(v, name, in), form.ObservedVolume(&seen, in)} {
			if strings.Contains(f["option/o"], "hunter2") {
				t.Errorf("an option shows a password: %v", f)
			}
		}
		return diff.Compare(form.Volume(v, name, in), form.ObservedVolume(&seen, in), nil, diff.VolumeRules{})
	}
	same(t, "made", make(&v))
	r, err := w.api.VolumeInspect(t.Context(), name, client.VolumeInspectOptions{})
	w.ok(err)
	rec, err := form.RecordVolume(&v, name, in, &r.Volume)
	w.ok(err)
	raw, err := json.Marshal(rec)
	w.ok(err)
	var read form.Record
	w.ok(json.Unmarshal(raw, &read))
	base, err := form.Baseline(read, key)
	w.ok(err)

	v.Labels["a"], v.Options["o"] = "2", "size=2m,password=hunter2"
	wantFields(t, make(&v), classes{"label/a": diff.Blocked, "option/o": diff.Blocked})
	ds := diff.Compare(form.Volume(&v, name, in), base.Observed, base, diff.VolumeRules{})
	for _, d := range ds {
		if d.Cause != diff.Declared {
			t.Errorf("%s", d.Show())
		}
	}
	if len(ds) != 2 {
		t.Errorf("%v", ds)
	}
}

func TestSecretish(t *testing.T) {
	for _, x := range []struct {
		name, value string
		want        bool
	}{{"o", "addr=10.0.0.1,password=x", true}, {"splunk-token", "x", true}, {"DB_PASSWORD", "", true}, {"AWS_SECRET_ACCESS_KEY", "x", true},
		{"o", "size=1m", false}, {"max-size", "1m", false}, {"NAME", "a token of thanks", false}} {
		if form.Secretish(x.name, x.value) != x.want {
			t.Errorf("%s=%s", x.name, x.value)
		}
	}
	if a, b := form.Keyed([]byte("1"))("v"), form.Keyed([]byte("2"))("v"); a == b || !strings.HasPrefix(a, "hmac:") || len(a) != 69 {
		t.Errorf("%s and %s", a, b)
	}
}
