package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

const caseFleet = `apiVersion: steady/v1
kind: Fleet
metadata: {name: acme}
hosts: {web-1: {channel: stable, bundle: app, allow: [settings, disable]}}
channels: {stable: {rolloutPolicy: all, freshnessWindow: 24h}}
bundles: {app: {path: app}}
allowMovingTags: true
rolloutPolicies:
  all:
    waves: [{name: all, selector: {all: true}}]
`

// hostCase is a folder of testdata/cases on a real server, agent and engine: what operators wrote, whose images alone
// are others.
type hostCase struct {
	*testing.T
	folder string
	d      *dockertest.Daemon
	api    *client.Client
	prefix string
	e      *estate
	o      *origin
	b      *box
	policy string // further lines of the rollout policy
	done   int    // releases
	waits  int    // patiences that a rollout may take
}

func newHostCase(t *testing.T, folder string, d *dockertest.Daemon) *hostCase {
	c := &hostCase{T: t, folder: folder, d: d, api: d.Client(), prefix: d.Namespace(t).Name("web-1."), e: newEstate(t)}
	d.Busybox(t)
	c.o = newOrigin(t, c.e, nil).start()
	return c
}

// files are those of the bundle; edit changes them.
func (c *hostCase) files(edit func(declare)) declare {
	c.Helper()
	out := declare{"fleet.yaml": caseFleet + c.policy, "app/bundle.yaml": "compose: compose.yaml\n"}
	root := filepath.Join("testdata", "cases", c.folder)
	testkit.Must(c, fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		out[path.Join("app", name)] = strings.ReplaceAll(string(raw), "busybox:1", dockertest.BusyboxRef)
		return err
	}))
	if edit != nil {
		edit(out)
	}
	return out
}

// join has the host enrol, once.
func (c *hostCase) join(edit func(*box)) {
	c.Helper()
	c.b = newBox(c, c.o, "web-1")
	c.b.hosting = hosting.Config{Engine: c.d.Socket(), Prefix: c.prefix}
	if edit != nil {
		edit(c.b)
	}
	c.b.start()
}

// release makes the next one and waits until the host has converged on it.
func (c *hostCase) release(files declare) {
	c.Helper()
	c.done++
	c.o.push(c.e.release(fmt.Sprint("v", c.done), files))
	if c.b == nil {
		c.join(nil)
	}
	c.converged()
}

func (c *hostCase) converged() {
	c.Helper()
	name := fmt.Sprintf("stable@v%d", c.done)
	for range c.waits {
		testkit.InTime(func() bool {
			return !slices.Contains([]rollout.Phase{"", rollout.Opening, rollout.Active, rollout.Converging}, c.o.phase(name))
		})
	}
	c.o.ended(name, rollout.Terminal)
}

// patient has what the file lets take minutes take them.
func (c *hostCase) patient() *hostCase { c.waits = 2; return c }

func (c *hostCase) box(service string) (container.InspectResponse, error) {
	got, err := c.api.ContainerInspect(context.Background(), c.prefix+service, client.ContainerInspectOptions{})
	return got.Container, err
}

func (c *hostCase) run(service string, cmd ...string) string {
	c.Helper()
	e := testkit.Value(dockerapi.Open(dockerapi.Options{Socket: c.d.Socket()}))(c)
	defer e.Close()
	_, out, err := e.Run(c.Context(), c.prefix+service, dockerapi.Exec{Cmd: cmd}, 1<<16)
	testkit.Must(c, err)
	return string(out)
}

// deadline is what the newest release gives hosts for an activation.
func (c *hostCase) deadline() clock.Duration {
	c.Helper()
	header := c.e.latest.Manifests["stable"][0].Header.Value()
	return header.Policy.ActivationDeadline
}

// TestJobsRunOnce: a service that ended well and that no policy starts again is done, whether anybody waits for it or
// not.
func TestJobsRunOnce(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, dockertest.Here)
	d := dockertest.Engine(t)
	policies := []string{`restart: "no"`, "", "restart: on-failure", "deploy: {restart_policy: {condition: none}}"}
	if !testkit.Nightly() {
		policies = policies[:1]
	}
	for _, policy := range policies {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			c := newHostCase(t, "01-one-shot-no-restart", d)
			const app = "app/compose.yaml"
			c.release(c.files(func(f declare) { f[app] = strings.ReplaceAll(f[app], `    restart: "no"`, "    "+policy) }))
			if got := strings.Count(c.run("app", "cat", "/data/runs"), "\n"); got != 1 {
				t.Errorf("it ran %d times", got)
			}
		})
	}
}

// TestAFileInStorage: a placeholder does not take data away, and its removal does not bring data back.
func TestAFileInStorage(t *testing.T) {
	t.Parallel()
	const keep = "app/data/.gitkeep"
	without := func(f declare) { delete(f, keep) }
	for _, turn := range []struct {
		before, after func(declare)
		says          string
	}{{without, nil, `"data" was storage of service "db" in version 1`}, {nil, without, `"data" was files of the bundle for service "db" in version 1`}} {
		c := &hostCase{T: t, folder: "03-gitkeep-moves-data", e: newEstate(t)}
		c.e.release("v1", c.files(turn.before))
		src := t.TempDir()
		testkit.Files(t, src, c.files(turn.after))
		if _, err := c.e.Release(src, t.TempDir(), "v2", c.e.latest, c.e.roots...); err == nil || !strings.Contains(err.Error(), turn.says) {
			t.Errorf("the build says %v, and not %s", err, turn.says)
		}
	}
}

// TestABundlesFileMountedAlone: a container sees what the bundle writes, after it changed and after somebody's edit of
// it was mended.
func TestABundlesFileMountedAlone(t *testing.T) {
	t.Parallel()
	testkit.Only(t, testkit.Nightly(), "on a real engine, whose own tests have the rule: STEADY_NIGHTLY=1")
	testkit.Needs(t, dockertest.Here)
	c := newHostCase(t, "05-bundle-file-bind", dockertest.Engine(t))
	etc := t.TempDir() // /etc/app is the machine's
	version := func(text string) declare {
		return c.files(func(f declare) {
			for name := range f {
				f[name] = strings.NewReplacer("etc/app/", etc[1:]+"/", "version one", text).Replace(f[name])
			}
		})
	}
	c.done = 1
	c.o.push(c.e.release("v1", version("version one")))
	c.join(func(b *box) { b.root = "/" })
	c.converged()
	sees := func(want string) {
		t.Helper()
		testkit.Eventually(t, "the container to see "+want, func() bool {
			box, err := c.box("app")
			return err == nil && box.State.Running && c.run("app", "cat", "/etc/app.conf") == want+"\n"
		})
	}
	sees("version one")
	c.release(version("version two"))
	if got := c.run("app", "cat", "/etc/app.conf"); got != "version two\n" {
		t.Fatalf("converged, and the container has %q", got)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(etc, "app.conf"), []byte("by hand\n"), 0o644))
	testkit.Eventually(t, "the file to be mended", func() bool {
		raw, err := os.ReadFile(filepath.Join(etc, "app.conf"))
		return err == nil && string(raw) == "version two\n"
	})
	sees("version two")
}

// slowStarts are the ways in which a file gives a start more than two minutes.
var slowStarts = map[string]func(declare){"start_period": nil, "retries": func(f declare) {
	f["app/compose.yaml"] = strings.Replace(f["app/compose.yaml"], "interval: 5s, timeout: 3s, retries: 3, start_period: 4m", "interval: 10s, timeout: 3s, retries: 30", 1)
}}

// TestTimesAsDeclared: a policy that is shorter than what a file gives its starts and stops is no reason to revert.
func TestTimesAsDeclared(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		folder string
		edit   func(declare)
		least  clock.Duration
	}{
		{"06-slow-healthcheck", slowStarts["start_period"], 4*clock.Minute + 3*(5+3)*clock.Second},
		{"06-slow-healthcheck", slowStarts["retries"], 30 * (10 + 3) * clock.Second},
		{"07-stop-longer-than-deadline", nil, 5 * clock.Minute},
	} {
		c := &hostCase{T: t, folder: x.folder, e: newEstate(t), policy: "    activationDeadline: 2m\n"}
		c.e.release("v1", c.files(x.edit))
		if got := c.deadline(); got < x.least {
			t.Errorf("%s: hosts are given %s, the file %s", x.folder, got, x.least)
		}
	}
}

// TestStartsAsSlowAsDeclared: the file gives the start four minutes and more, of which it takes 140 s.
func TestStartsAsSlowAsDeclared(t *testing.T) {
	t.Parallel()
	testkit.Only(t, testkit.Nightly(), "a start of 140 s is for the nightly run: STEADY_NIGHTLY=1")
	testkit.Needs(t, dockertest.Here)
	d := dockertest.Engine(t)
	for name, edit := range slowStarts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newHostCase(t, "06-slow-healthcheck", d)
			c.patient().release(c.files(edit))
		})
	}
}

// TestStopsAsLongAsDeclared: the file gives the stop five minutes, of which it takes four.
func TestStopsAsLongAsDeclared(t *testing.T) {
	t.Parallel()
	testkit.Only(t, testkit.Nightly(), "a stop of 240 s is for the nightly run: STEADY_NIGHTLY=1")
	testkit.Needs(t, dockertest.Here)
	c := newHostCase(t, "07-stop-longer-than-deadline", dockertest.Engine(t))
	c.policy = "    activationDeadline: 3m\n"
	c.release(c.files(nil))
	c.patient().release(c.files(func(f declare) { f["app/compose.yaml"] = strings.Replace(f["app/compose.yaml"], `V: "1"`, `V: "2"`, 1) }))
	if box := testkit.Value(c.box("worker"))(t); !slices.Contains(box.Config.Env, "V=2") {
		t.Errorf("converged, and the worker has %v", box.Config.Env)
	}
}

// TestALeftOverStaysStopped: what the release has no more does not come back with the engine, without the server and
// on a disabled host.
func TestALeftOverStaysStopped(t *testing.T) {
	t.Parallel()
	testkit.Only(t, testkit.Nightly(), "on a real engine, whose own tests have the rule: STEADY_NIGHTLY=1")
	testkit.Needs(t, dockertest.Here)
	c := newHostCase(t, "12-stopped-always-returns", dockertest.Private(t))
	version := func(n int) declare {
		return c.files(func(f declare) {
			f["app/compose.yaml"] = f[fmt.Sprintf("app/compose-v%d.yaml", n)]
			maps.DeleteFunc(f, func(name, _ string) bool { return strings.HasPrefix(name, "app/compose-v") })
			f["fleet.yaml"] += "allowMassChange: true\n"
		})
	}
	c.release(version(1))
	c.release(version(2))
	started := testkit.Value(c.box("worker"))(t).State.StartedAt
	stopped := func(when string) {
		t.Helper()
		box := testkit.Value(c.box("worker"))(t)
		if box.State.Running || box.State.StartedAt != started || !box.HostConfig.RestartPolicy.IsNone() {
			t.Errorf("%s: the worker: %+v, started at %s and before at %s, policy %s", when, box.State.Status, box.State.StartedAt, started, box.HostConfig.RestartPolicy.Name)
		}
	}
	stopped("left over")
	c.o.stop()
	c.d.Restart()
	up := func(want bool) func() bool {
		return func() bool {
			box, err := c.box("web")
			return err == nil && box.State.Running == want
		}
	}
	testkit.Eventually(t, "the web service to run", up(true))
	stopped("without the server")
	c.o.start()
	off := false
	testkit.Value(c.o.control.Tune(t.Context(), "web-1", func(s *fleet.Settings) { s.Enabled = &off }, "maintenance", "test"))(t)
	testkit.Eventually(t, "the web service to stop", up(false))
	c.o.stop()
	c.d.Restart()
	stopped("on a disabled host")
	if !up(false)() {
		t.Error("on a disabled host the web service runs")
	}
}

// TestASecretsNewline: one at the end of the file is no part of a variable.
func TestASecretsNewline(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, dockertest.Here)
	c := newHostCase(t, "13-secret-newline", dockertest.Engine(t))
	c.done = 1
	c.o.push(c.e.release("v1", c.files(nil)))
	c.join(func(b *box) {
		at := filepath.Join(b.state, "secrets")
		testkit.Must(t, os.MkdirAll(at, 0o700))
		testkit.Must(t, os.WriteFile(filepath.Join(at, "tok"), []byte("abc\n"), 0o600))
	})
	c.converged()
	if got := c.run("app", "sh", "-c", `printf "<%s>" "$TOKEN"`); got != "<abc>" {
		t.Errorf("the variable is %q", got)
	}
}

// TestLabelsOfCompose: schedulers, proxies and log shippers find their siblings.
func TestLabelsOfCompose(t *testing.T) {
	t.Parallel()
	testkit.Only(t, testkit.Nightly(), "on a real engine, whose own tests have the rule: STEADY_NIGHTLY=1")
	testkit.Needs(t, dockertest.Here)
	c := newHostCase(t, "14-compose-labels", dockertest.Private(t))
	c.release(c.files(func(f declare) { // the engine's socket lies elsewhere here
		f["app/compose.yaml"] = strings.Replace(f["app/compose.yaml"], "/var/run/docker.sock:/", c.d.Socket()+":/", 1)
	}))
	found := testkit.Value(c.api.ContainerList(t.Context(), client.ContainerListOptions{
		Filters: client.Filters{}.Add("label", "com.docker.compose.project=app", "com.docker.compose.service=app")}))(t)
	if len(found.Items) != 1 || found.Items[0].Labels["job.backup"] != "@daily" {
		t.Errorf("%d containers have the labels: %+v", len(found.Items), found.Items)
	}
}
