package fleetdir_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
)

// declaredDuration is a key of the schema that takes a duration, a place of it in a fleet, and what the
// code does: what it takes where the key is left out (-1: the key is required), and its bounds.
type declaredDuration struct {
	key        string
	place      []string
	otherwise  clock.Duration
	least      clock.Duration // 0: also 0s is taken
	most       clock.Duration // 0: no bound
	unbounded0 bool           // 0s is taken below least, and turns it off
}

const required = -1

var declaredDurations = []declaredDuration{
	{key: "fleet.host.bounds.maxStopGrace", place: []string{"hosts", "web-1", "bounds", "maxStopGrace"}, otherwise: 0},
	{key: "fleet.channel.freshnessWindow", place: []string{"channels", "stable", "freshnessWindow"}, otherwise: required, least: 2 * fleet.DefaultSigningInterval},
	{key: "fleet.channel.signingInterval", place: []string{"channels", "stable", "signingInterval"}, otherwise: fleet.DefaultSigningInterval, least: 1},
	{key: "fleet.channel.reconcileInterval", place: []string{"channels", "stable", "reconcileInterval"}, otherwise: fleet.DefaultReconcileInterval, least: fleet.MinReconcile},
	{key: "fleet.policy.confirmWindow", place: []string{"rolloutPolicies", "careful", "confirmWindow"}, otherwise: fleet.DefaultConfirmWindow, least: fleet.MinConfirmWindow, unbounded0: true},
	{key: "fleet.policy.activationDeadline", place: []string{"rolloutPolicies", "careful", "activationDeadline"}, otherwise: fleet.DefaultActivationDeadline, least: 1},
	{key: "fleet.policy.sustainedFailure", place: []string{"rolloutPolicies", "careful", "sustainedFailure"}, otherwise: fleet.DefaultSustainedFailure},
	{key: "fleet.policy.grantExpiry", place: []string{"rolloutPolicies", "careful", "grantExpiry"}, otherwise: fleet.DefaultGrantExpiry, least: 1},
	{key: "fleet.wave.soak", place: []string{"rolloutPolicies", "careful", "waves", "0", "soak"}, otherwise: 0},
	{key: "fleet.window.duration", place: []string{"maintenanceWindows", "0", "duration"}, otherwise: required, least: clock.MinWindow, most: clock.MaxWindow},
	{key: "fleet.probe.interval", place: []string{"probes", "opens", "interval"}, otherwise: fleet.DefaultProbeInterval, least: fleet.MinProbeInterval},
	{key: "fleet.probe.timeout", place: []string{"probes", "opens", "timeout"}, otherwise: fleet.DefaultProbeTimeout, least: 1, most: fleet.DefaultProbeInterval},
	{key: "fleet.probe.timeout", place: []string{"probes", "runs", "timeout"}, otherwise: fleet.DefaultExecTimeout, least: 1, most: fleet.DefaultProbeInterval},
	{key: "fleet.probe.evidence.maxAge", place: []string{"probes", "scans", "evidence", "maxAge"}, otherwise: fleet.DefaultEvidenceMaxAge},
	{key: "bundle.probe.interval", place: []string{"bundle", "probes", "inside", "interval"}, otherwise: fleet.DefaultProbeInterval, least: fleet.MinProbeInterval},
	{key: "bundle.probe.timeout", place: []string{"bundle", "probes", "inside", "timeout"}, otherwise: fleet.DefaultProbeTimeout, least: 1, most: fleet.DefaultProbeInterval},
	{key: "bundle.probe.evidence.maxAge", place: []string{"bundle", "probes", "scanned", "evidence", "maxAge"}, otherwise: fleet.DefaultEvidenceMaxAge},
	{key: "bundle.system.timeout", place: []string{"bundle", "system", "0", "timeout"}, otherwise: fleet.DefaultNixTimeout, least: 1, most: fleet.MaxNixTimeout},
	{key: "bundle.system.timeout", place: []string{"bundle", "system", "1", "timeout"}, otherwise: fleetdir.DefaultStepTimeout, least: 1},
}

const durationsFleet = `{
 "apiVersion": "steady/v1", "kind": "Fleet", "metadata": {"name": "acme"},
 "hosts": {"web-1": {"channel": "stable", "bundle": "web", "managed": ["workspace"], "bounds": {"images": ["*"]}}},
 "channels": {"stable": {"rolloutPolicy": "careful", "freshnessWindow": "24h"}},
 "rolloutPolicies": {"careful": {"waves": [{"name": "all", "selector": {"all": true}}]}},
 "maintenanceWindows": [{"name": "night", "selector": {"all": true}, "cron": "0 2 * * *", "duration": "2h"}],
 "bundles": {"web": {"path": "web"}},
 "probes": {"opens": {"tcp": {"address": "localhost:80"}}, "runs": {"exec": {"command": ["true"]}}, "scans": {"evidence": {"path": "/x.json"}}}
}`

const durationsBundle = `{
 "system": [{"driver": "nix", "name": "os", "path": "/nix/store/00000000000000000000000000000000-nixos"}, {"driver": "exec", "name": "step", "activate": ["true"]}],
 "probes": {"inside": {"tcp": {"address": "localhost:80"}}, "scanned": {"evidence": {"path": "/x.json"}}}
}`

// planOf is what a fleet comes to with a text at a place, or what is wrong with it.
func planOf(t *testing.T, place []string, text string) (plan, wrong string) {
	t.Helper()
	files := map[string]any{}
	for name, doc := range map[string]string{"fleet": durationsFleet, "bundle": durationsBundle} {
		var tree any
		testkit.Must(t, json.Unmarshal([]byte(doc), &tree))
		files[name] = tree
	}
	if text != "" {
		in, rest := files["fleet"], place
		if place[0] == "bundle" {
			in, rest = files["bundle"], place[1:]
		}
		put(in, rest, text)
	}
	dir := testkit.Folder(t, map[string]string{fleetdir.FleetFile: string(testkit.Value(json.Marshal(files["fleet"]))(t)),
		"web/" + fleetdir.BundleFile: string(testkit.Value(json.Marshal(files["bundle"]))(t))})
	src, problems := fleetdir.Load(dir)
	for _, p := range problems {
		if !p.IsWarning {
			return "", lines(problems)
		}
	}
	in := fleet.Inputs{Ref: "v1", Now: 1, Zones: map[string]clock.Zone{"UTC": {Name: "UTC", From: 1, Until: clock.Instant(300 * clock.Day), Transitions: []clock.Transition{}}}, Bundles: map[string]fleet.Bundle{},
		Digests: map[string]digest.Digest{}, BundleProbes: map[string]fleet.ProbeSet{}}
	for name, b := range src.Bundles {
		in.Bundles[name], in.Digests[name], in.BundleProbes[name] = b.Bundle, b.Digest, b.Probes
	}
	resolved, findings := fleet.Resolve(&src.Declaration, in)
	for _, f := range findings {
		if f.Severity == fleet.Error {
			return "", f.Message
		}
	}
	return string(testkit.Value(json.Marshal([]any{resolved, in.Bundles}))(t)), ""
}

func put(tree any, place []string, text string) {
	switch in := tree.(type) {
	case map[string]any:
		if len(place) == 1 {
			in[place[0]] = text
			return
		}
		put(in[place[0]], place[1:], text)
	case []any:
		put(in[place[0][0]-'0'], place[1:], text)
	}
}

// TestDurationsAreDescribed: each key that takes a duration says in its schema what the code takes where it is
// left out, and its bounds; and the code does so.
func TestDurationsAreDescribed(t *testing.T) {
	described := map[string]map[string]any{}
	for _, schema := range []string{"fleet", "bundle"} {
		var doc map[string]any
		testkit.Must(t, json.Unmarshal(fleetdir.SchemaJSON(schema), &doc))
		durationsIn(schema, doc, described)
	}
	seen := map[string]bool{}
	for _, d := range declaredDurations {
		seen[d.key] = true
		about, _ := described[d.key]["description"].(string)
		byDefault, _ := described[d.key]["default"].(string)
		says := about + " default " + byDefault
		without, wrong := planOf(t, d.place, "")
		if wrong != "" {
			t.Fatal(wrong)
		}
		if d.otherwise != required {
			if !strings.Contains(says, d.otherwise.String()) {
				t.Errorf("%s: %q, and left out it is %s", d.key, says, d.otherwise)
			}
			if with, wrong := planOf(t, d.place, d.otherwise.String()); with != without {
				t.Errorf("%s: %s is not what the code takes where it is left out %s", d.key, d.otherwise, wrong)
			}
		}
		other := d.otherwise + clock.Second
		if with, _ := planOf(t, d.place, max(other, d.least).String()); with == without && d.otherwise != required {
			t.Errorf("%s: %s changes nothing", d.key, other)
		}
		if d.least > 1 && !strings.Contains(says, d.least.String()) && !strings.Contains(says, "at least twice") {
			t.Errorf("%s: %q, and the least is %s", d.key, says, d.least)
		}
		if d.least > 0 {
			boundary(t, d, d.least, d.least-1, "at least")
		}
		if d.most > 0 {
			boundary(t, d, d.most, d.most+clock.Second, "at most")
		}
		if _, wrong := planOf(t, d.place, "0s"); d.unbounded0 != (wrong == "") && d.least > 0 {
			t.Errorf("%s of 0s: %q", d.key, wrong)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(described)) {
		if !seen[key] {
			t.Errorf("no test has the key %s: %v", key, described[key])
		}
	}
}

// boundary holds a bound against the code: one is taken, and the other is refused.
func boundary(t *testing.T, d declaredDuration, taken, refused clock.Duration, how string) {
	t.Helper()
	if _, wrong := planOf(t, d.place, taken.String()); wrong != "" {
		t.Errorf("%s: %s is refused: %s", d.key, taken, wrong)
	}
	if refused == 0 && d.unbounded0 {
		return
	}
	if _, wrong := planOf(t, d.place, refused.String()); wrong == "" {
		t.Errorf("%s is taken as %s: expected %s %s", d.key, refused, how, taken)
	}
}

// durationsIn collects the keys of a schema that take a duration.
func durationsIn(at string, in map[string]any, out map[string]map[string]any) {
	props, _ := in["properties"].(map[string]any)
	for key, v := range props { // order-free: they go into a map
		p := v.(map[string]any)
		if p["$ref"] == "#/$defs/duration" {
			out[at+"."+key] = p
		}
		durationsIn(at+"."+key, p, out)
	}
	defs, _ := in["$defs"].(map[string]any)
	for name, d := range defs { // order-free: they go into a map
		durationsIn(at+"."+name, d.(map[string]any), out)
	}
	for _, below := range []string{"items", "additionalProperties"} {
		if sub, is := in[below].(map[string]any); is {
			durationsIn(at, sub, out)
		}
	}
}
