package fleetdir

import (
	"strings"
	"testing"
)

// TestRenameHost: every place that names the host has the new name, comments and all else
// stay, and the host says what it was called.
func TestRenameHost(t *testing.T) {
	const file = `# web-1 is in the cellar
hosts:
  web-1: {channel: stable, tags: [web-1]} # web-1, ä
  "db-1": {channel: stable}
edges: [{gated: web-1, gates: db-1, reason: after web-1}]
rolloutPolicies:
  p: {waves: [{name: web-1, selector: {hosts: ["web-1", db-1]}}, {name: ä, selector: {not: {hosts: [db-1, web-1]}}}]}
`
	const want = `# web-1 is in the cellar
hosts:
  box: {renamedFrom: web-1, channel: stable, tags: [web-1]} # web-1, ä
  "db-1": {channel: stable}
edges: [{gated: box, gates: db-1, reason: after web-1}]
rolloutPolicies:
  p: {waves: [{name: web-1, selector: {hosts: ["box", db-1]}}, {name: ä, selector: {not: {hosts: [db-1, box]}}}]}
`
	out, lines, err := RenameHost("fleet.yaml", []byte(file), "web-1", "box")
	if err != nil || string(out) != want || len(lines) != 3 {
		t.Errorf("%v, lines %v:\n%s", err, lines, out)
	}
	for before, after := range map[string]string{
		"hosts:\n  a:\n    channel: stable\n    bundle: web\n": "hosts:\n  b:\n    renamedFrom: a\n    channel: stable\n    bundle: web\n",
		"hosts: {a: {channel: a}, c: {channel: a}}\n":          "hosts: {b: {renamedFrom: a, channel: a}, c: {channel: a}}\n",
		"hosts:\n  a: {channel: x, renamedFrom: z}\n":          "hosts:\n  b: {channel: x, renamedFrom: a}\n",
	} {
		if out, _, err := RenameHost("fleet.yaml", []byte(before), "a", "b"); err != nil || string(out) != after {
			t.Errorf("%v:\n%s", err, out)
		}
	}
	if out, _, err := RenameHost("fleet.yaml", []byte(file), "db-1", "db"); err != nil || !strings.Contains(string(out), `"db": {`) {
		t.Errorf("%v:\n%s", err, out)
	}
	for _, c := range [][2]string{{"nobody", "box"}, {"web-1", "db-1"}, {"web-1", "No Name"}} {
		if _, _, err := RenameHost("fleet.yaml", []byte(file), c[0], c[1]); err == nil {
			t.Errorf("%s was renamed to %s", c[0], c[1])
		}
	}
}
