package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

const runsFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  web-1: {channel: stable, tags: [web], bundle: web}
channels:
  stable: {rolloutPolicy: all, freshnessWindow: 24h}
rolloutPolicies:
  all:
    sustainedFailure: 2s
    waves: [{name: all, selector: {all: true}, soak: SOAK}]
allowMovingTags: true # the image is imported on the engine, so no registry gave it a digest
bundles: {web: {path: bundles/web}}
`

const runsCompose = `services:
  app:
    image: steady.test/busybox:1
    pull_policy: never
    stop_grace_period: 0s
    command: [sh, -c, "COMMAND"]
    x-steady: {update: {monitor: 100ms}}
`

// runs is a fleet whose host runs a command in a container.
func runs(command, soak string) declare {
	return declare{"fleet.yaml": strings.Replace(runsFleet, "SOAK", soak, 1), "bundles/web/bundle.yaml": "compose: compose.yaml\n",
		"bundles/web/compose.yaml": strings.Replace(runsCompose, "COMMAND", command, 1)}
}

// TestConvergedMeansThatItRuns: a container of a new bundle runs until the bundle is
// activated and then ends, while the host soaks. That is a failure of the bundle:
// the host goes back, and the cause names the workspace, the exit code and the last
// output. The host's earlier bundle, which runs, had converged.
func TestConvergedMeansThatItRuns(t *testing.T) {
	t.Parallel()
	d := dockertest.Engine(t)
	d.Busybox(t)
	e := newEstate(t)
	o := newOrigin(t, e, nil).start()
	b := newBox(t, o, victim)
	b.hosting = hosting.Config{Engine: d.Socket(), Prefix: d.Namespace(t).Prefix}
	phase := func(p host.Phase) func() bool {
		return func() bool { m := b.agent.Status().Machine; return m.Phase == p && !m.Reverting }
	}
	o.push(e.release("v1", runs("exec sleep 1000", "0s")))
	b.start()
	testkit.Eventually(t, "the bundle that runs converges", phase(host.Converged))

	o.push(e.release("v2", runs("until [ -e /gone ]; do sleep 0.1; done; echo the database is gone; exit 3", "1h")))
	testkit.Eventually(t, "the next bundle soaks", phase(host.Soaking))
	engine := testkit.Value(dockerapi.Open(dockerapi.Options{Socket: d.Socket()}))(t)
	defer engine.Close()
	if code, out, err := engine.Run(t.Context(), b.hosting.Prefix+"app", dockerapi.Exec{Cmd: []string{"touch", "/gone"}}, 1<<10); code != 0 || err != nil {
		t.Fatalf("exit code %d: %s, %v", code, out, err)
	}
	testkit.Eventually(t, "the bundle that falls over is left", phase(host.Reverted))
	m := b.agent.Status().Machine
	for _, part := range []string{"probe resources", "workspace/app", "exit code 3", "the database is gone"} {
		if !strings.Contains(m.Detail, part) {
			t.Errorf("the cause does not say %q: %s: %s", part, m.Cause, m.Detail)
		}
	}
	if m.Cause != host.ProbeFailing || m.Current != e.made[0].leaf(t, "stable", victim).Target {
		t.Errorf("cause %s, runs %s", m.Cause, m.Current.Short())
	}
}

// TestEnrolledAnewKeepsRunning: a host whose state folder was moved away is enrolled
// anew while its containers run. They are adopted as they are, and everything that they
// mount from the state folder is there again: they survive a restart of the engine.
func TestEnrolledAnewKeepsRunning(t *testing.T) {
	t.Parallel()
	d := dockertest.Private(t)
	d.Busybox(t)
	e := newEstate(t)
	o := newOrigin(t, e, nil).start()
	b := newBox(t, o, victim)
	b.hosting = hosting.Config{Engine: d.Socket(), Prefix: d.Namespace(t).Prefix}
	declared := runs("exec sleep 1000", "0s")
	declared["bundles/web/compose.yaml"] += "    configs: [{source: conf, target: /etc/app.conf}]\nconfigs: {conf: {content: hello}}\n"
	o.push(e.release("v1", declared))
	b.start()
	converged := func() bool { return b.agent.Status().Machine.Phase == host.Converged }
	testkit.Eventually(t, "it converges", converged)
	running := func() (id string) {
		list := testkit.Value(d.Client().ContainerList(t.Context(), client.ContainerListOptions{}))(t)
		for _, c := range list.Items {
			id = c.ID
		}
		return id
	}
	before := running()
	b.stop()
	testkit.Must(t, os.Rename(b.state, b.state+".lost"))
	b.enrol(o.token(victim))
	b.start()
	testkit.Eventually(t, "it converges again", converged)
	if now := running(); now != before {
		t.Errorf("container %.12s was not adopted: %.12s runs", before, now)
	}
	testkit.Must(t, os.RemoveAll(b.state+".lost"))
	d.Restart()
	testkit.Eventually(t, "it runs again after the engine restarted", func() bool { return running() == before })
}
