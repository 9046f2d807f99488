package convert_test

import (
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestMain takes a slice of the cases that need a container each; nightly and
// -rapid.checks take more.
func TestMain(m *testing.M) {
	if !testkit.Nightly() {
		_ = flag.Set("rapid.checks", "30") // registered by rapid; the command line still decides
	}
	dockertest.Main(m)
}

var key = secret.Keyed([]byte("a key of tests"))

// values of the secrets that tests know.
var values = map[string]string{"db": "hunter2", "tls": "-----BEGIN"}

// rich sets every default that an image can have.
var rich = []string{"ENV PATH=/bin:/sbin", "ENV A=image", "ENV B=image", "LABEL of=image both=image", "EXPOSE 70 71/udp", "VOLUME /kept /other",
	"WORKDIR /work", "USER 5", "HEALTHCHECK --interval=7s --timeout=2s --start-period=1s --retries=4 CMD true",
	`ENTRYPOINT ["sleep"]`, `CMD ["900"]`}

// All tests share an image with these defaults, and none changes it.
const richRef = "steady.test/rich:1"

// world is an engine with what specs name.
type world struct {
	t        *testing.T
	d        *dockertest.Daemon
	api      *client.Client
	n        dockertest.Namespace
	images   map[string]*image.InspectResponse
	networks map[string]string // ID by the engine's name
	others   map[string]string
	folder   string
}

// furnished is what all tests share, made by the first of them and gone with the
// engine. Their own containers have names of their own.
var furnished struct {
	sync.Mutex
	w *world
}

// newWorld gives a test a world of its own to change, on what all share.
func newWorld(t *testing.T) *world {
	t.Parallel() // half of each test is waiting for the engine
	d := dockertest.Engine(t)
	furnished.Lock()
	defer furnished.Unlock()
	if furnished.w == nil {
		w := &world{t: t, d: d, api: d.Client(), n: dockertest.Namespace{Prefix: "form-"}, images: map[string]*image.InspectResponse{}, networks: map[string]string{}, others: map[string]string{}}
		w.furnish()
		furnished.w = w
	}
	w := *furnished.w
	w.t, w.folder = t, t.TempDir()
	w.images, w.networks, w.others = maps.Clone(w.images), maps.Clone(w.networks), maps.Clone(w.others)
	w.ok(os.WriteFile(filepath.Join(w.folder, "file"), []byte("x"), 0o644))
	return &w
}

// furnish makes what specs name: images, networks, volumes and another container.
func (w *world) furnish() {
	w.images["plain"] = w.image(w.d.Busybox(w.t))
	w.images["rich"] = w.build(richRef, rich...)
	w.network("front", "10.77.1.0/24")
	w.network("back", "10.77.2.0/24")
	w.network("far", "")
	for _, v := range []string{"data", "logs"} {
		_, err := w.api.VolumeCreate(w.t.Context(), convert.CreateVolume(&spec.Volume{Name: v}, w.n.Name(v), nil))
		w.ok(err)
	}
	other, err := w.api.ContainerCreate(w.t.Context(), client.ContainerCreateOptions{Name: w.n.Name("other"),
		Config: &container.Config{Image: dockertest.BusyboxRef, Cmd: []string{"sleep", "900"}, StopSignal: "SIGKILL"}, HostConfig: &container.HostConfig{IpcMode: "shareable"}})
	w.ok(err)
	_, err = w.api.ContainerStart(w.t.Context(), other.ID, client.ContainerStartOptions{})
	w.ok(err)
	w.others[w.n.Name("other")] = other.ID
}

// network makes one that specs may name.
func (w *world) network(name, subnet string) {
	w.t.Helper()
	declared := spec.Network{Name: name}
	if subnet != "" {
		declared.Pools = []spec.Pool{{Subnet: subnet}}
	}
	o, err := convert.CreateNetwork(&declared, nil)
	w.ok(err)
	made, err := w.api.NetworkCreate(w.t.Context(), w.n.Name(name), o)
	w.ok(err)
	w.networks[w.n.Name(name)] = made.ID
}

func (w *world) ok(err error) {
	w.t.Helper()
	testkit.Must(w.t, err)
}

func (w *world) image(ref string) *image.InspectResponse {
	w.t.Helper()
	r, err := w.api.ImageInspect(w.t.Context(), ref)
	w.ok(err)
	return &r.InspectResponse
}

// build makes an image of that of busybox and lines of a Dockerfile, in one layer,
// with a stop signal.
func (w *world) build(ref string, lines ...string) *image.InspectResponse {
	w.t.Helper()
	from, err := w.api.ContainerCreate(w.t.Context(), client.ContainerCreateOptions{Name: w.n.Name("from"), Config: &container.Config{Image: dockertest.BusyboxRef, Cmd: []string{"true"}, StopSignal: "SIGKILL"}})
	w.ok(err)
	_, err = w.api.ContainerCommit(w.t.Context(), from.ID, client.ContainerCommitOptions{Reference: ref, Changes: append([]string{"CMD []"}, lines...)})
	w.ok(err)
	_, err = w.api.ContainerRemove(w.t.Context(), from.ID, client.ContainerRemoveOptions{})
	w.ok(err)
	return w.image(ref)
}

// deployment resolves a workspace against the world.
func (w *world) deployment(s spec.Workspace) *spec.Deployment {
	reference := s.Image
	if i := w.images[s.Image]; i != nil {
		reference = i.RepoTags[0]
	}
	d := &spec.Deployment{Workspace: s, Uses: spec.Uses{Image: reference, Networks: map[string]string{}, Volumes: map[string]string{}, Workspaces: map[string]string{"other": w.n.Name("other")}}}
	for title := range w.networks {
		d.Uses.Networks[strings.TrimPrefix(title, w.n.Prefix)] = title
	}
	for _, v := range []string{"data", "logs"} {
		d.Uses.Volumes[v] = w.n.Name(v)
	}
	return d
}

func (w *world) inputs(s spec.Workspace) convert.Inputs {
	sums := map[string]string{}
	for k, v := range values {
		sums[k] = key(v)
	}
	return convert.Inputs{Name: w.n.Name(s.Name), API: w.api.ClientVersion(), Image: w.images[s.Image], Networks: w.networks, Containers: w.others, Secrets: sums, Digest: key}
}

func (w *world) rules() diff.WorkspaceRules { return diff.WorkspaceRules{API: w.api.ClientVersion()} }

// create makes the container of a workspace and does not start it.
func (w *world) create(t *testing.T, s spec.Workspace, more ...func(*convert.CreateInputs)) string {
	t.Helper()
	id := testkit.Value(w.try(t.Context(), s, more...))(t)
	t.Cleanup(func() {
		_, _ = w.api.ContainerRemove(context.Background(), id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	})
	return id
}

func (w *world) try(ctx context.Context, s spec.Workspace, more ...func(*convert.CreateInputs)) (string, error) {
	d := w.deployment(s)
	in := convert.CreateInputs{Inputs: w.inputs(s), Values: values, Files: map[string]string{},
		Labels: convert.Owner{Fleet: "f", Host: "h"}.Labels(spec.KindWorkspace, s.Name, w.n.Name(s.Name))}
	for _, c := range s.Contents {
		in.Files[c.Target] = filepath.Join(w.folder, "file")
	}
	for _, m := range more {
		m(&in)
	}
	r, err := convert.Create(d, in)
	if err != nil {
		return "", err
	}
	made, err := w.api.ContainerCreate(ctx, client.ContainerCreateOptions{Name: r.Name, Config: r.Config, HostConfig: r.Host, NetworkingConfig: r.Networking()})
	if err != nil {
		return "", err
	}
	for _, e := range r.Rest {
		if _, err := w.api.NetworkConnect(ctx, e.ID, client.NetworkConnectOptions{Container: made.ID, EndpointConfig: e.Settings}); err != nil {
			return made.ID, err
		}
	}
	return made.ID, nil
}

func (w *world) inspect(t *testing.T, id string) *container.InspectResponse {
	t.Helper()
	r := testkit.Value(w.api.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}))(t)
	return &r.Container
}

func (w *world) start(t *testing.T, id string) {
	t.Helper()
	testkit.Value(w.api.ContainerStart(t.Context(), id, client.ContainerStartOptions{}))(t)
}

func (w *world) stop(t *testing.T, id string) {
	t.Helper()
	now := 0
	testkit.Value(w.api.ContainerStop(t.Context(), id, client.ContainerStopOptions{Timeout: &now}))(t)
}

// compare gives the differences of a container from a workspace.
func (w *world) compare(t *testing.T, s spec.Workspace, id string, rec *convert.Record) []diff.Difference {
	t.Helper()
	ds := testkit.Value(convert.Compare(w.deployment(s), w.inputs(s), w.inspect(t, id), rec, w.rules()))(t)
	return ds
}

func (w *world) record(t *testing.T, s spec.Workspace, id string) *convert.Record {
	t.Helper()
	r := testkit.Value(convert.RecordWorkspace(w.deployment(s), w.inputs(s), w.inspect(t, id)))(t)
	return &r
}

// same fails for each difference.
func same(t *testing.T, when string, ds []diff.Difference) {
	t.Helper()
	for _, d := range ds {
		t.Errorf("%s: %s", when, d.Show())
	}
}

// fieldsOf gives field -> class for short tables.
func fieldsOf(ds []diff.Difference) map[string]diff.Class {
	out := map[string]diff.Class{}
	for _, d := range ds {
		out[d.Field] = d.Class
	}
	return out
}

func wantFields(t *testing.T, ds []diff.Difference, want map[string]diff.Class) {
	t.Helper()
	if got := fieldsOf(ds); !maps.Equal(got, want) {
		t.Errorf("differences are %v and not %v", got, want)
	}
}
