package release

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestHostsAreGivenTheTimeThatServicesDeclare: an activation may take what starts and stops of the bundle may take by
// their own times, and a policy that gives less is named with the lines of both.
func TestHostsAreGivenTheTimeThatServicesDeclare(t *testing.T) {
	const fleetYAML = "apiVersion: steady/v1\nkind: Fleet\nmetadata: {name: f}\nallowMovingTags: true\nhosts: {h: {channel: stable, bundle: app}}\n" +
		"channels: {stable: {rolloutPolicy: all, freshnessWindow: 24h}}\nbundles: {app: {path: app}}\nrolloutPolicies:\n  all:\n    waves: [{name: all, selector: {all: true}}]\n"
	const worker = "services:\n  worker:\n    image: registry.example/app:1\n    stop_grace_period: 5m\n"
	for _, c := range []struct {
		name, policy, compose string
		deadline              clock.Duration
		says                  string
	}{
		{"short policy, long stop", "    activationDeadline: 3m\n", worker, 5 * clock.Minute,
			`fleet.yaml:11:25: warning: activationDeadline is 3m, and bundle "app" gives service "worker" 5m to stop (app/compose.yaml:4:24): the hosts of channel "stable" are given 5m`},
		{"short policy, slow start", "    activationDeadline: 2m\n", "services:\n  web:\n    image: registry.example/app:1\n    healthcheck: {test: [CMD, \"true\"], interval: 150s}\n", 9 * clock.Minute,
			`gives service "web" 9m to be healthy (app/compose.yaml:4:5)`},
		{"none, a chain", "", "services:\n  db:\n    image: registry.example/app:1\n    healthcheck: {test: [CMD, \"true\"], start_period: 10m, interval: 10s, timeout: 10s, retries: 3}\n" +
			"  web:\n    image: registry.example/app:1\n    depends_on: {db: {condition: service_healthy}}\n    healthcheck: {test: [CMD, \"true\"], start_period: 5m, interval: 10s, timeout: 10s, retries: 3}\n",
			17 * clock.Minute, ""},
		{"long enough", "    activationDeadline: 6m\n", worker, 6 * clock.Minute, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			src, problems := fleetdir.Load(testkit.Folder(t, map[string]string{"fleet.yaml": fleetYAML + c.policy, "app/bundle.yaml": "compose: compose.yaml\n", "app/compose.yaml": c.compose}))
			if src == nil || Fatal(problems) {
				t.Fatalf("%s", lines(problems))
			}
			k := newKeys(t, "f")
			_, _, v := publish(t, k, src, BuildOptions{Now: t0})
			header := v.Manifests["stable"][0].Header.Value()
			if got := header.Policy.ActivationDeadline; got != c.deadline {
				t.Errorf("hosts are given %s, not %s", got, c.deadline)
			}
			_, problems = Build(src, BuildOptions{Now: t0})
			if text := lines(problems); !strings.Contains(text, c.says) || c.says == "" && strings.Contains(text, "activationDeadline") {
				t.Errorf("the build says\n%s", text)
			}
		})
	}
}
