package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
)

const imageFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts:
  web-1: {channel: stable, tags: [canary], bundle: web}
  web-2: {channel: stable, bundle: web}
channels:
  stable: {rolloutPolicy: careful, freshnessWindow: 24h}
rolloutPolicies:
  careful:
    waves: [{name: canary, selector: {tags: [canary]}}, {name: rest, selector: {all: true}}]
allowMovingTags: true # for the service that shows what happens without a digest
bundles: {web: {path: bundles/web}}
`

const imageCompose = `services:
  locked: &run
    image: HUB/locked:1
    pull_policy: always
    stop_grace_period: 0s
    command: [sleep, "100000"]
    x-steady: {update: {monitor: 1s}}
  moving: {<<: *run, image: HUB/moving:1}
`

// TestTagMovesBetweenWaves: what a tag means changes in the registry between the
// first wave and the second. Both waves run the image that was locked when the
// release was built; one that nobody locked is another in the second wave.
func TestTagMovesBetweenWaves(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, dockertest.Here, testkit.Registry)
	d := dockertest.Engine(t)
	hub := dockertest.Registry(t)
	space := d.Namespace(t)
	ids := map[string]string{}
	for _, content := range []string{"old", "new"} {
		from := space.Prefix + content + ":1"
		dockerfile := "FROM " + d.Busybox(t) + "\nLABEL content=" + content + "\n"
		built := testkit.Value(d.Client().ImageBuild(t.Context(), dockertest.BuildContext(t, map[string]string{"Dockerfile": dockerfile}), client.ImageBuildOptions{Tags: []string{from}}))(t)
		testkit.Value(io.Copy(io.Discard, built.Body))(t)
		testkit.Must(t, built.Body.Close())
		ids[content] = testkit.Value(d.Client().ImageInspect(t.Context(), from))(t).ID
	}
	push := func(content string) {
		for _, name := range []string{"locked:1", "moving:1"} {
			hub.Push(t, d, space.Prefix+content+":1", name)
		}
	}
	push("old")

	home := t.TempDir()
	login := fmt.Sprintf(`{"auths": {%q: {"username": %q, "password": %q}}}`, hub.Addr, hub.User, hub.Password)
	testkit.Must(t, os.WriteFile(filepath.Join(home, "config.json"), []byte(login), 0o600))
	asks := dockerapi.Registry{Credentials: dockerapi.OpenCredentials(filepath.Join(home, "config.json")).For}
	key := testkit.Value(imageref.Key(hub.Ref("locked:1")))(t)
	lock := imageref.Lock{key: testkit.Value(asks.Digest(t.Context(), key))(t)}

	e := newEstate(t)
	o := newOrigin(t, e, nil).start()
	o.push(e.release("v1", declare{"fleet.yaml": imageFleet, fleetdir.LockFile: string(fleetdir.LockText(lock)),
		"bundles/web/bundle.yaml": "compose: compose.yaml\n", "bundles/web/compose.yaml": strings.ReplaceAll(imageCompose, "HUB", hub.Addr)}))
	engines := map[string]*dockertest.Daemon{"web-1": d, "web-2": dockertest.Private(t)}
	runs := func(host, service string) string {
		c, err := engines[host].Client().ContainerInspect(context.Background(), space.Prefix+host+"."+service, client.ContainerInspectOptions{})
		if err != nil || c.Container.State == nil || !c.Container.State.Running {
			return ""
		}
		return c.Container.Image
	}
	join := func(host string) {
		b := newBox(t, o, host)
		b.hosting = hosting.Config{Engine: engines[host].Socket(), Prefix: space.Prefix + host + "."}
		at := filepath.Join(b.state, "secrets", "registries")
		testkit.Must(t, os.MkdirAll(at, 0o700))
		testkit.Must(t, os.WriteFile(filepath.Join(at, hub.Addr), fmt.Appendf(nil, `{"username": %q, "password": %q}`, hub.User, hub.Password), 0o600))
		b.start()
		testkit.Eventually(t, host+" runs both services", func() bool { return runs(host, "locked") != "" && runs(host, "moving") != "" })
	}
	join("web-1")
	push("new")
	join("web-2")
	for _, c := range []struct{ host, service, want string }{
		{"web-1", "locked", "old"}, {"web-1", "moving", "old"}, {"web-2", "locked", "old"}, {"web-2", "moving", "new"},
	} {
		if got := runs(c.host, c.service); got != ids[c.want] {
			t.Errorf("%s of %s runs %s, want the %s image %s", c.service, c.host, got, c.want, ids[c.want])
		}
	}
}
