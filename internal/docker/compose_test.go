package docker_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/release/compose"
	"github.com/steadyfleet/steady/internal/strictyaml"
)

// compose declares what the Compose file of an archive says; a name with ! is a
// program. The image is one that the engine has.
func (w *world) compose(text string) spec.Set {
	w.t.Helper()
	set := w.read(text)
	for i := range set.Workspaces {
		quick(&set.Workspaces[i])
	}
	w.declare(set)
	return set
}

// read is what the Compose file of an archive says.
func (w *world) read(text string) spec.Set {
	w.t.Helper()
	dir := w.t.TempDir()
	for _, f := range txtar.Parse([]byte(strings.ReplaceAll(text, "IMAGE", dockertest.BusyboxRef))).Files {
		mode := os.FileMode(0o644)
		name, program := strings.CutSuffix(f.Name, "!")
		if program {
			mode = 0o755
		}
		at := filepath.Join(dir, name)
		w.ok(os.MkdirAll(filepath.Dir(at), 0o755))
		w.ok(os.WriteFile(at, f.Data, mode))
	}
	root, err := os.OpenRoot(dir)
	w.ok(err)
	defer root.Close()
	got, problems := compose.Load(root, []string{"compose.yaml"}, compose.Options{Name: "shop"})
	if got == nil || strictyaml.Fatal(problems) {
		w.t.Fatalf("%v", problems)
	}
	folder := filepath.Join(w.cfg.Dir, "blobs")
	w.ok(os.MkdirAll(folder, 0o700))
	for d, b := range got.Blobs {
		w.ok(os.WriteFile(filepath.Join(folder, d.Short()), b, 0o600))
	}
	for i := range got.Set.Images {
		if p := got.Set.Images[i].Pull; p != nil {
			p.Policy = spec.PullNever
		}
	}
	return got.Set
}

// TestComposeFilesAsTheyAre: links lead where each service says, on networks and on
// the engine's own bridge, also after what they lead to was replaced; files of the
// bundle keep their permissions, are written where they may be, and missing paths
// are storage that outlives a replacement.
func TestComposeFilesAsTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	file := func(version string) string {
		return `
-- compose.yaml --
services:
  db1: {image: IMAGE, command: [sleep, "9999"], environment: {V: "` + version + `"}, volumes: ["./data:/data"]}
  db2: {image: IMAGE, command: [sleep, "9999"]}
  app1: {image: IMAGE, command: [sleep, "9999"], links: ["db1:mysql"]}
  app2: {image: IMAGE, command: [sleep, "9999"], links: ["db2:mysql"], environment: [PATH_NOT_SET]}
  old-db: {image: IMAGE, command: [sleep, "9999"], network_mode: bridge, environment: {V: "` + version + `"}}
  old-app: {image: IMAGE, command: [sleep, "9999"], network_mode: bridge, links: [old-db, "old-db:mysql"]}
  files:
    image: IMAGE
    entrypoint: /start.sh
    stop_signal: KILL
    volumes: [./conf:/etc/app:ro, ./site:/srv]
    configs: [{source: start, target: /start.sh}, {source: inline, target: /inline}]
configs: {start: {file: start.sh}, inline: {content: "text"}}
-- start.sh! --
#!/bin/sh
/etc/app/check.sh > /srv/checked && echo more >> /inline && sleep 9999
-- conf/check.sh! --
#!/bin/sh
echo ` + version + `
-- site/index --
hello
`
	}
	at := func(name, network string) string {
		w.t.Helper()
		return w.one(name, true).NetworkSettings.Networks[network].IPAddress.String()
	}
	links := func(when string) {
		w.t.Helper()
		for app, db := range map[string]string{"app1": "db1", "app2": "db2"} {
			if got, want := w.run(app, "ping", "-c1", "-W9", "mysql"), at(db, w.owner.Title("default")); !strings.Contains(got, "("+want+")") {
				t.Errorf("%s: mysql of %s is not %s at %s: %s", when, app, db, want, got)
			}
		}
		for _, name := range []string{"old-db", "mysql"} {
			if got, want := w.run("old-app", "ping", "-c1", "-W9", name), at("old-db", "bridge"); !strings.Contains(got, "("+want+")") {
				t.Errorf("%s: %s of old-app is not at %s: %s", when, name, want, got)
			}
		}
	}
	w.compose(file("1"))
	w.settled()
	links("made")
	if got := w.run("files", "cat", "/srv/checked", "/srv/index", "/inline"); got != "1\nhello\ntextmore\n" {
		t.Errorf("%q", got)
	}
	w.run("db1", "touch", "/data/kept")
	set := w.compose(file("2"))
	w.settled()
	links("replaced")
	if got := w.run("db1", "ls", "/data"); got != "kept\n" {
		t.Errorf("%q", got)
	}
	w.until("the next version does not run", func() (bool, string) {
		got := w.run("files", "cat", "/srv/checked")
		return got == "2\n", got
	})
	w.right(set)
}

// TestRenamedServiceKeepsItsContainer: a service with another name, which says which workspace it is, has the container
// that it had: with its new name, on its networks too, and not started again. So has one that gets its old name back.
func TestRenamedServiceKeepsItsContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	file := func(name, more string) string {
		return `
-- compose.yaml --
services:
  ` + name + `: {image: IMAGE, command: [sleep, "9999"], volumes: ["./data:/data"]` + more + `}
  app: {image: IMAGE, command: [sleep, "9999"], depends_on: [` + name + `]}
`
	}
	w.compose(file("web", ""))
	w.converged()
	before := w.inspect(w.owner.Title("web"))
	for _, name := range []string{"frontend", "shop", "web"} {
		w.compose(file(name, ", x-steady: {workspace: web}"))
		w.converged()
		x := w.inspect(w.owner.Title(name))
		if x.ID != before.ID || x.State.StartedAt != before.State.StartedAt {
			t.Errorf("%s is container %.12s started %s, it was %.12s started %s", name, x.ID, x.State.StartedAt, before.ID, before.State.StartedAt)
		}
		if out := w.run("app", "ping", "-c", "1", "-W", "5", name); !strings.Contains(out, " 0% packet loss") {
			t.Errorf("app does not find %s: %s", name, out)
		}
	}
}
