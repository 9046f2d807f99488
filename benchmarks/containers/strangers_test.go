package main

import (
	"flag"
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

	api "github.com/moby/moby/api/types/container"
	apimount "github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/release/compose"
	"github.com/steadyfleet/steady/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write what differs as expected")

// strangerImage runs until it is told to end.
const strangerImage = "FROM steady.test/busybox:1\nCMD [\"sh\", \"-c\", \"trap 'exit 0' TERM; sleep 100000 & wait\"]\n"

// TestStrangers runs applications as strangers wrote them, with another image, first with docker compose and then with
// the agent's managers, and compares what each service sees of its mounts: where, whether it may write, what lies
// there, and who else sees what it writes. So once more after a second release, and after the engine started anew.
// What is made otherwise is in the file's own list of differences, with what the build says.
func TestStrangers(t *testing.T) {
	binary := os.Getenv(peerEnv)
	testkit.Only(t, binary != "", "no docker compose to compare with: go build -C benchmarks/compose -o FILE github.com/docker/compose/v2/cmd, which takes minutes, and "+peerEnv+"=FILE")
	files, err := filepath.Glob("testdata/strangers/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			s := &stranger{bench: newStrangersEngine(t).bench(t), ar: testkit.Value(txtar.ParseFile(file))(t)}
			defer s.end()
			s.expect(file, s.equal(binary))
		})
	}
}

// strangersEngine is an engine of its own with the image that all applications have.
type strangersEngine struct{ d *dockertest.Daemon }

func newStrangersEngine(t *testing.T) strangersEngine {
	e := strangersEngine{dockertest.Private(t)}
	e.d.Busybox(t)
	built, err := e.d.Client().ImageBuild(t.Context(), dockertest.BuildContext(t, map[string]string{"Dockerfile": strangerImage}), client.ImageBuildOptions{Tags: []string{"app"}, Remove: true, ForceRemove: true})
	testkit.Must(t, err)
	drain(t, built.Body)
	return e
}

func (e strangersEngine) bench(t *testing.T) *bench {
	return &bench{host: &host{TB: t}, ctx: t.Context(), d: e.d, api: e.d.Client()}
}

// end reports the failure that ended a test, and leaves the engine empty.
func (s *stranger) end() {
	if why, is := recover().(failure); is {
		s.TB.Error(string(why))
	}
	s.clean()
}

// equal runs the application with both, reports what services see otherwise, and returns which fields differ.
func (s *stranger) equal(binary string) string {
	theirs, theirFields := s.compose(binary)
	ours, ourFields, said := s.steady()
	for round, want := range theirs {
		for _, at := range slices.Sorted(maps.Keys(want)) {
			if got := ours[round][at]; got != want[at] {
				s.TB.Errorf("%s: %s\n  compose: %s\n  steady:  %s", rounds[round], at, want[at], got)
			}
		}
		for at := range ours[round] {
			if _, there := want[at]; !there && round < 2 {
				s.TB.Errorf("%s: compose has no %s", rounds[round], at)
			}
		}
	}
	return differing(theirFields, ourFields) + said
}

var rounds = []string{"made", "after a second release", "after a start of the engine"}

type stranger struct {
	*bench
	ar *txtar.Archive
}

// write writes the application's files; again is a second release of them.
func (s *stranger) write(dir string, again bool) {
	for _, f := range s.ar.Files {
		name, program := strings.CutSuffix(f.Name, "!")
		text := strings.ReplaceAll(string(f.Data), "IMAGE", "app")
		if name == "compose.yaml" && again {
			text = strings.NewReplacer("REV=1", "REV=2", `REV: "1"`, `REV: "2"`).Replace(text)
		}
		at, mode := filepath.Join(dir, filepath.FromSlash(name)), os.FileMode(0o644)
		if program {
			mode = 0o755
		}
		if again && name != "compose.yaml" {
			continue // what was written stays
		}
		s.ok(os.MkdirAll(path.Dir(at), 0o755))
		s.ok(os.WriteFile(at, []byte(text), mode))
		s.ok(os.Chmod(at, mode))
	}
}

func (s *stranger) compose(binary string) (out []map[string]string, fields map[string]string) {
	dir := filepath.Join(s.TempDir(), project1)
	up := func(args ...string) {
		cmd := exec.Command(binary, append([]string{"-p", project1, "-f", "compose.yaml"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+s.d.Socket(), "HOME="+dir, "DOCKER_BUILDKIT=0")
		if raw, err := cmd.CombinedOutput(); err != nil {
			s.Fatalf("docker compose %v: %v: %s", args, err, tail(string(raw)))
		}
	}
	const service = "com.docker.compose.service"
	for _, again := range []bool{false, true} {
		s.write(dir, again)
		up("up", "-d")
		s.jobsEnd(service)
		out = append(out, s.mounts(service))
		if !again {
			fields = s.seen(service, "com.docker.compose.container-number", "com.docker.compose.project", dir)
		}
	}
	s.d.Restart()
	s.policiesRun()
	out = append(out, s.mounts(service))
	up("down", "-v", "--timeout", "0")
	s.clean()
	return out, fields
}

func (s *stranger) steady() (out []map[string]string, fields map[string]string, said string) {
	dir, state := filepath.Join(s.TempDir(), project1), s.TempDir()
	r := openRig(s.host, state, s.d.Socket(), 0)
	defer r.close()
	r.within = 3 * time.Minute
	const service = "com.docker.compose.service"
	var set spec.Set
	for _, again := range []bool{false, true} {
		s.write(dir, again)
		root, err := os.OpenRoot(dir)
		s.ok(err)
		l, problems := compose.Load(root, []string{"compose.yaml"}, compose.Options{Name: project1})
		s.ok(root.Close())
		if l == nil {
			s.Fatalf("the build: %v", problems)
		}
		for i := range l.Set.Workspaces {
			l.Set.Workspaces[i].Update.Monitor = 100
		}
		maps.Copy(r.blobs, l.Blobs)
		set = l.Set
		r.converge(set)
		out = append(out, s.mounts(service))
		if !again {
			fields = s.seen(service, "com.docker.compose.container-number", "io.steady.owner", state)
			for _, p := range problems {
				said += "build: " + strings.TrimSpace(p.String()) + "\n"
			}
		}
	}
	s.d.Restart()
	s.policiesRun()
	r.converge(set)
	return append(out, s.mounts(service)), fields, said
}

// list lists containers.
func (s *stranger) list(all bool) []api.Summary {
	list, err := s.api.ContainerList(s.ctx, client.ContainerListOptions{All: all})
	s.ok(err)
	return list.Items
}

// jobsEnd waits for what has no restart policy and ends at once.
func (s *stranger) jobsEnd(service string) {
	testkit.Eventually(s, "jobs to end", func() bool {
		return !slices.ContainsFunc(s.list(false), func(c api.Summary) bool { return c.Labels[service] == "geoipupdate" })
	})
}

// policiesRun waits until all that the engine starts by itself runs.
func (s *stranger) policiesRun() {
	testkit.Eventually(s, "what has a restart policy to run", func() bool {
		return !slices.ContainsFunc(s.list(true), func(c api.Summary) bool {
			full, err := s.api.ContainerInspect(s.ctx, c.ID, client.ContainerInspectOptions{})
			if err != nil {
				return false
			}
			policy := full.Container.HostConfig.RestartPolicy
			return (policy.IsAlways() || policy.IsUnlessStopped()) && !full.Container.State.Running
		})
	})
}

// mounts is what every service that runs sees of its mounts, by service and target.
func (s *stranger) mounts(service string) map[string]string {
	e, err := dockerapi.Open(dockerapi.Options{Socket: s.d.Socket()})
	s.ok(err)
	defer e.Close()
	run := func(id, script string, args ...string) string {
		_, raw, err := e.Run(s.ctx, id, dockerapi.Exec{Cmd: append([]string{"sh", "-c", script, "sh"}, args...)}, 1<<16)
		s.ok(err)
		return strings.TrimSpace(string(raw))
	}
	type place struct{ id, name, target, how string }
	var places []place
	for _, c := range s.list(false) {
		full, err := s.api.ContainerInspect(s.ctx, c.ID, client.ContainerInspectOptions{})
		s.ok(err)
		for _, m := range full.Container.Mounts {
			target := path.Clean(m.Destination)
			if target == "/etc/localtime" || m.Type == apimount.TypeTmpfs { // an engine does not list those of docker compose
				continue
			}
			places = append(places, place{c.ID, c.Labels[service] + " " + target, target, map[bool]string{true: "rw", false: "ro"}[m.RW]})
		}
	}
	slices.SortFunc(places, func(a, b place) int { return strings.Compare(a.name, b.name) })
	for _, p := range places {
		if p.how == "rw" {
			run(p.id, `if test -d "$1"; then touch "$1/.probe-$2"; else echo "#probe-$2#" >>"$1"; fi`, p.target, mark(p.name))
		}
	}
	out := map[string]string{}
	for _, p := range places {
		content := run(p.id, `sum() { sed '/^#probe-/d' "$1" | md5sum | cut -c1-8; }
if test -d "$1"; then cd "$1"; find . ! -name '.probe-*' -type f | sort | while read f; do echo "$f $(sum "$f")"; done; else sum "$1"; fi`, p.target)
		probes := strings.Fields(run(p.id, `{ find "$1" -name '.probe-*' | sed 's/.*probe-//'; find "$1" -type f | while read f; do sed -n 's/^#probe-\(.*\)#$/\1/p' "$f"; done; } | sort -u`, p.target))
		if own := mark(p.name); strings.HasPrefix(p.how, "rw") != slices.Contains(probes, own) {
			s.Fatalf("%s is %s, and sees %v of what it wrote itself", p.name, p.how, probes)
		}
		out[p.name] = fmt.Sprintf("%s, content %v, written by %v", p.how, strings.Split(content, "\n"), probes)
	}
	return out
}

// mark is a place as a part of a file's name.
func mark(name string) string { return strings.NewReplacer(" ", "@", "/", "_").Replace(name) }

// differing lists the fields that the two made differently, without their values' folders.
func differing(theirs, ours map[string]string) string {
	var out strings.Builder
	both := maps.Clone(theirs)
	maps.Copy(both, ours)
	for _, field := range slices.Sorted(maps.Keys(both)) {
		if theirs[field] != ours[field] && !strings.HasSuffix(field, ".MacAddress") { // by the order of starts
			fmt.Fprintf(&out, "%s\n  compose: %s\n  steady:  %s\n", field, theirs[field], ours[field])
		}
	}
	return out.String()
}

// expect compares what differs with the list beside the application, or writes it.
func (s *stranger) expect(file, got string) {
	at := strings.TrimSuffix(file, ".txtar") + ".differences"
	if *rewrite {
		s.ok(os.WriteFile(at, []byte(got), 0o644))
		return
	}
	raw, err := os.ReadFile(at)
	s.ok(err)
	if string(raw) != got {
		s.TB.Errorf("%s is not what differs; run with -rewrite\n%s", at, got)
	}
}
