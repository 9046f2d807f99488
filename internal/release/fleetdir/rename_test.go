package fleetdir

import (
	"strings"
	"testing"
)

// TestRenameHost: every place that names the host has the new name, comments and all else
// stay, and the old name is kept behind.
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
  box: {channel: stable, tags: [web-1]} # web-1, ä
  "db-1": {channel: stable}
edges: [{gated: box, gates: db-1, reason: after web-1}]
rolloutPolicies:
  p: {waves: [{name: web-1, selector: {hosts: ["box", db-1]}}, {name: ä, selector: {not: {hosts: [db-1, box]}}}]}
`
	for end, kept := range map[string]string{
		"":                                       "removed:\n  web-1: {workloads: keep}\n",
		"removed:\n    old: {workloads: stop}\n": "removed:\n    web-1: {workloads: keep}\n    old: {workloads: stop}\n",
		"removed: {old: {workloads: stop}}\n":    "removed: {web-1: {workloads: keep}, old: {workloads: stop}}\n",
	} {
		out, lines, err := RenameHost("fleet.yaml", []byte(file+end), "web-1", "box")
		if err != nil || string(out) != want+kept || len(lines) != 3 {
			t.Errorf("%v, lines %v:\n%s", err, lines, out)
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
