package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// sh runs a line of the shell and returns its output.
func sh(t *testing.T, dir, line string) string {
	t.Helper()
	cmd := exec.Command("bash", "-eo", "pipefail", "-c", line)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// compatFleet declares so many hosts.
func compatFleet(hosts ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: steady/v1\nkind: Fleet\nmetadata: {name: acme}\nhosts:\n")
	for _, h := range hosts {
		fmt.Fprintf(&b, "  %s: {channel: stable, tags: [web], bundle: web}\n", h)
	}
	b.WriteString(`channels:
  stable: {rolloutPolicy: careful, freshnessWindow: 24h, signingInterval: 1h, reconcileInterval: 5s}
rolloutPolicies:
  careful: {waves: [{name: all, selector: {all: true}, soak: 1s}], healthGate: {maxFailures: 0}, confirmWindow: 1m}
disruptionBudgets:
  - {selector: {tags: [web]}, maxInFlight: 4}
allowMassChange: true # each release drops a file of the one before
bundles: {web: {path: bundles/web}}
`)
	return b.String()
}

// TestVersionsMeet takes one fleet from the version that .ci/compat names to this one,
// the server first, and back again: every pair converges on a release of its own and
// enrols a host, on the state that the pair before left; then both versions find the
// whole log sound.
func TestVersionsMeet(t *testing.T) {
	t.Parallel()
	other, this := testkit.OtherVersion(t), filepath.Join(t.TempDir(), "steady")
	testkit.Must(t, os.WriteFile(this, []byte("#!/bin/sh\nexec env "+actAsSteady+`=1 "`+testkit.Value(os.Executable())(t)+`" "$@"`+"\n"), 0o755))
	y := newYard(t, other)
	var last made
	claims := 0
	for i, pair := range []struct{ what, server, agent string }{
		{"the other version", other, other},
		{"the server is upgraded", this, other},
		{"the agents are upgraded", this, this},
		{"the server goes back", other, this},
		{"the agents go back", other, other},
		{"all of this version", this, this},
	} {
		t.Log(pair.what)
		y.become(pair.server, pair.agent)
		ref, h := fmt.Sprintf("v%d", i+1), fmt.Sprintf("web-%d", i+1)
		last = y.estate.release(ref, declare{"fleet.yaml": compatFleet(append(y.hosts, h)...), "bundles/web/bundle.yaml": killBundle(ref)})
		y.push(last)
		y.enrol(h)
		claims += len(y.hosts)
		for !y.follow("stable@"+ref, 1) {
		}
	}
	log := filepath.Join(y.dir, "log")
	for _, v := range []string{other, this} {
		os.Remove(log)
		sh(t, y.dir, fmt.Sprintf("%s --context %s audit export %s", v, y.where.Context, log))
		for _, reader := range []string{other, this} {
			sh(t, y.dir, fmt.Sprintf("%s audit verify --file %s --root %s", reader, log, y.estate.rootFile()))
		}
	}
	y.settle()
	for _, v := range []string{other, this} {
		sh(t, y.dir, fmt.Sprintf("%s doctor --data %s", v, filepath.Join(y.dir, "server")))
	}
	y.converged(last, claims)
}

// become has the server and the agents run other programs, on the state they have.
func (y *yard) become(server, agent string) {
	y.t.Helper()
	if server != y.serverOf {
		y.serverOf = server
		y.server.stop()
		y.startServer()
	}
	if agent != y.agentOf {
		y.agentOf = agent
		for _, h := range y.hosts {
			y.agents[h].stop()
			y.startAgent(h)
		}
	}
}
