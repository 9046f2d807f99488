package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"archive/tar"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/release/compose"
)

// image is what every service runs: a shell that ends when it is told to.
const image = "steady.test/bench:1"

const networks = 5

// project is a Compose file of so many services on five networks. Version is in
// the environment of the first service, all in that of every one; running false
// declares them as stopped, which Compose does not know.
func project(services int, version, all string, running bool) string {
	var b strings.Builder
	b.WriteString("services:\n")
	for i := range services {
		v := all
		if i == 0 {
			v = all + version
		}
		fmt.Fprintf(&b, "  s%03d:\n    image: %s\n    environment: {VERSION: %q}\n    networks: [n%d]\n    restart: unless-stopped\n", i, image, "v"+v, i%networks)
		if !running {
			b.WriteString("    x-steady: {state: stopped}\n")
		}
	}
	b.WriteString("networks:\n")
	for i := range networks {
		fmt.Fprintf(&b, "  n%d: {}\n", i)
	}
	return b.String()
}

// load reads a Compose file as a release does.
func load(t *host, dir, text string) spec.Set {
	t.ok(os.WriteFile(filepath.Join(dir, "compose.yaml"), []byte(text), 0o644))
	root, err := os.OpenRoot(dir)
	t.ok(err)
	defer root.Close()
	l, problems := compose.Load(root, []string{"compose.yaml"}, compose.Options{Name: "bench"})
	if l == nil {
		t.Fatal("the Compose file is refused: ", problems)
	}
	return l.Set
}

// importImage makes the image from the static Busybox.
func importImage(t *host, api *client.Client) {
	path, err := exec.LookPath("busybox")
	t.ok(err)
	binary, err := os.ReadFile(path)
	t.ok(err)
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range []struct {
		name string
		data []byte
	}{{"bin/sh", binary}, {"bin/sleep", binary}} {
		t.ok(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o755, Size: int64(len(f.data))}))
		_, err := w.Write(f.data)
		t.ok(err)
	}
	t.ok(w.Close())
	r, err := api.ImageImport(context.Background(), client.ImageImportSource{Source: &buf, SourceName: "-"}, image,
		client.ImageImportOptions{Changes: []string{`CMD ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"]`}})
	t.ok(err)
	defer r.Close()
	said, err := io.ReadAll(r)
	t.ok(err)
	if bytes.Contains(said, []byte("errorDetail")) {
		t.Fatalf("import the image: %s", said)
	}
}
