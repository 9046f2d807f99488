package dockertest

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/testkit"
)

// BusyboxRef is the reference of the image of Busybox.
const BusyboxRef = "steady.test/busybox:1"

// Busybox imports an image with the shell and the tools of busybox-static, once
// per engine, and gives its reference. It has no command, no environment and no
// labels.
func (d *Daemon) Busybox(t testing.TB) string {
	t.Helper()
	testkit.Must(t, d.busybox())
	return BusyboxRef
}

// importBusybox makes the image and waits until the engine has it.
func importBusybox(api *client.Client) error {
	image, err := busyboxTar()
	if err != nil {
		return fmt.Errorf("make the image of busybox: %w", err)
	}
	r, err := api.ImageImport(context.Background(), client.ImageImportSource{Source: image, SourceName: "-"}, BusyboxRef, client.ImageImportOptions{})
	if err != nil {
		return fmt.Errorf("import the image of busybox: %w", err)
	}
	defer r.Close()
	printed, err := io.ReadAll(r)
	if err != nil || bytes.Contains(printed, []byte("errorDetail")) {
		return fmt.Errorf("import the image of busybox: %w: %s", err, printed)
	}
	return nil
}

// busyboxTar is a root file system with busybox under all its names.
func busyboxTar() (io.Reader, error) {
	path := testkit.Find("busybox")
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	applets, err := exec.Command(path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("list the applets: %w", err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range []string{"bin/", "etc/", "root/", "home/", "var/", "www/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}); err != nil {
		return nil, err
	}
	files := []struct {
		name string
		mode int64
		data []byte
	}{
		{"bin/busybox", 0o755, binary},
		{"etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/sh\n")},
		{"etc/group", 0o644, []byte("root:x:0:\nnogroup:x:65534:\n")},
	}
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.data))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	for name := range strings.FieldsSeq(string(applets)) {
		if name == "busybox" {
			continue
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox"}); err != nil {
			return nil, err
		}
	}
	return &buf, w.Close()
}

// BuildContext is the tar of a folder with these files by path, to build from.
// Paths below bin/ are executable.
func BuildContext(t testing.TB, files map[string]string) *bytes.Buffer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := int64(0o644)
		if strings.HasPrefix(name, "bin/") {
			mode = 0o755
		}
		testkit.Must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(files[name]))}))
		testkit.Value(io.WriteString(w, files[name]))(t)
	}
	testkit.Must(t, w.Close())
	return &buf
}
