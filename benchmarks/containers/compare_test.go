package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/release/compose"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

// peerEnv names a docker compose v2 binary to compare with.
const peerEnv = "STEADY_COMPOSE"

// rich is an image with all that an image can have, to show what a file takes over
// and what it leaves.
const rich = `FROM steady.test/busybox:1
ENV IMAGE=image TZ=UTC
ENTRYPOINT ["sh", "-c"]
CMD ["sleep 1000"]
HEALTHCHECK --interval=9s --retries=2 CMD test -e /x
VOLUME /image-data
WORKDIR /root
EXPOSE 8080
LABEL image.label=image
STOPSIGNAL SIGQUIT
`

// fragment is one Compose file with what it needs, by path.
type fragment struct {
	name  string
	files map[string]string
}

// fragments reads the corpus: services of one attribute, and whole files.
func fragments(t *testing.T) (out []fragment) {
	t.Helper()
	raw, err := os.ReadFile("testdata/attributes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		name, entries, ok := strings.Cut(strings.TrimSpace(line), " | ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		entries = strings.TrimSuffix(strings.TrimPrefix(entries, "{}"), ",")
		if entries != "" {
			entries = ", " + entries
		}
		out = append(out, fragment{name, map[string]string{"compose.yaml": "services: {a: {image: app" + entries + "}}\n"}})
	}
	ar, err := txtar.ParseFile("testdata/fragments.txtar")
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]map[string]string{}
	for _, f := range ar.Files {
		name, file, _ := strings.Cut(f.Name, "/")
		if whole[name] == nil {
			whole[name] = map[string]string{}
		}
		whole[name][file] = string(f.Data)
	}
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		out = append(out, fragment{name, whole[name]})
	}
	return out
}

// decisions are the differences that are meant, by fragment and field, with why.
func decisions(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("testdata/decided.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		what, why, ok := strings.Cut(line, " | ")
		if !ok || why == "" {
			t.Fatalf("testdata/decided.txt: %q: expected FRAGMENT FIELD | WHY", line)
		}
		out[what] = why
	}
	return out
}

// TestSameAsCompose makes what every fragment declares with docker compose and
// with the agent's own managers, on one engine, and compares what inspect shows of
// it, field by field. What differs is in testdata/decided.txt, and what is there
// differs.
func TestSameAsCompose(t *testing.T) {
	binary := os.Getenv(peerEnv)
	testkit.Only(t, binary != "", "no docker compose to compare with: go build -C benchmarks/compose -o FILE github.com/docker/compose/v2/cmd, which takes minutes, and "+peerEnv+"=FILE")
	decided := decisions(t)
	open := maps.Clone(decided)
	d := dockertest.Engine(t)
	d.Busybox(t)
	b := &bench{host: &host{TB: t}, ctx: t.Context(), d: d, api: d.Client()}
	built, err := b.api.ImageBuild(b.ctx, dockertest.BuildContext(t, map[string]string{"Dockerfile": rich}), client.ImageBuildOptions{Tags: []string{"app"}, Remove: true, ForceRemove: true})
	if err != nil {
		t.Fatal(err)
	}
	drain(t, built.Body)
	b.clean()
	all := fragments(t)
	compared := 0
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			b.host = &host{TB: t}
			defer func() {
				switch why := recover().(type) {
				case nil:
				case failure:
					t.Error(string(why))
				default:
					panic(why)
				}
			}()
			for _, diff := range b.compare(binary, f) {
				what := f.name + " " + diff.field
				if decided[what] == "" {
					t.Errorf("%s\n  compose: %s\n  steady:  %s", what, diff.theirs, diff.ours)
				}
				delete(open, what)
			}
			compared++
		})
	}
	if compared == len(all) {
		for _, what := range slices.Sorted(maps.Keys(open)) {
			t.Errorf("testdata/decided.txt: %s is the same now: delete the line", what)
		}
	}
}

// difference is one field that the two made differently.
type difference struct{ field, theirs, ours string }

// compare makes a fragment with both and gives what differs.
func (b *bench) compare(binary string, f fragment) []difference {
	theirs, theirErr := b.theirs(binary, f)
	b.clean()
	ours, ourErr := b.ours(f)
	b.clean()
	switch {
	case theirErr != nil && ourErr != nil:
		return []difference{{"both", theirErr.Error(), ourErr.Error()}}
	case theirErr != nil:
		return []difference{{"compose-refuses", theirErr.Error(), "made"}}
	case ourErr != nil:
		return []difference{{"steady-refuses", "made", ourErr.Error()}}
	}
	var out []difference
	both := maps.Clone(theirs)
	maps.Copy(both, ours)
	for _, field := range slices.Sorted(maps.Keys(both)) {
		if theirs[field] != ours[field] {
			out = append(out, difference{field, theirs[field], ours[field]})
		}
	}
	return out
}

func (f *fragment) write(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), project1)
	for name, text := range f.files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(path.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// project1 is what compose puts before names, and what the bundle is called.
const project1 = "cmp"

func (b *bench) theirs(binary string, f fragment) (map[string]string, error) {
	dir := f.write(b.TB)
	cmd := exec.Command(binary, "-p", project1, "-f", "compose.yaml", "create")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+b.d.Socket(), "HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, tail(string(out)))
	}
	return b.seen("com.docker.compose.service", "com.docker.compose.container-number", "com.docker.compose.project", dir), nil
}

// ours has the agent's managers make it, all of it stopped.
func (b *bench) ours(f fragment) (seen map[string]string, err error) {
	dir := f.write(b.TB)
	root, err := os.OpenRoot(dir)
	b.ok(err)
	defer root.Close()
	l, problems := compose.Load(root, []string{"compose.yaml"}, compose.Options{Name: project1})
	if l == nil {
		return nil, fmt.Errorf("the build: %v", problems)
	}
	for i := range l.Set.Workspaces {
		l.Set.Workspaces[i].State = spec.Stopped
	}
	state := b.TempDir()
	r := openRig(b.host, state, b.d.Socket(), 0)
	defer r.close()
	defer func() {
		if why, is := recover().(failure); is {
			seen, err = nil, fmt.Errorf("the host: %s", string(why))
		}
	}()
	r.within = 10 * time.Second // what waits is not made
	maps.Copy(r.blobs, l.Blobs)
	r.converge(l.Set)
	return b.seen("io.steady.name", "", "io.steady.owner", state), nil
}

// clean removes all that a fragment made.
func (b *bench) clean() {
	ctx := context.Background()
	b.wipe()
	list, err := b.api.VolumeList(ctx, client.VolumeListOptions{})
	b.ok(err)
	for _, v := range list.Items {
		_, err := b.api.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true})
		b.ok(err)
	}
}
