package storage_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/storage"
	"github.com/steadyfleet/steady/internal/testkit"
)

// shelf has what was put on it, under whatever digest.
type shelf map[digest.Digest]string

func (s shelf) Blob(_ context.Context, d digest.Digest, _ int64) (io.ReadCloser, error) {
	text, ok := s[d]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader([]byte(text))), nil
}

func config(target, text string, mode uint32) spec.Content {
	return spec.Content{Target: target, Blob: &spec.Blob{Digest: digest.Of([]byte(text)), Size: int64(len(text))}, Mode: mode, UID: os.Getuid(), GID: os.Getgid()}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, filepath.Join(dir, e.Name()))
	}
	return out
}

// TestFilesAreNamedByWhatTheyAre: the same content is the same file, another
// content, mode or secret is another, and the mounted ones alone outlive tidying.
func TestFilesAreNamedByWhatTheyAre(t *testing.T) {
	dir, key := t.TempDir(), "hush"
	f := storage.NewFolder(dir, shelf{digest.Of([]byte("one")): "one"}, func(string) ([]byte, error) { return []byte(key), nil })
	files := func(sum string, l ...spec.Content) map[string]string {
		t.Helper()
		got := testkit.Value(f.Files(t.Context(), "web", l, map[string]string{"key": sum}))(t)
		return got
	}
	secret := spec.Content{Target: "/key", Secret: "key", Mode: 0o400, UID: os.Getuid(), GID: os.Getgid()}
	first := files("1", config("/a", "one", 0), config("/b", "one", 0o600), secret)
	if again := files("1", config("/a", "one", 0), config("/c", "one", 0)); again["/a"] != first["/a"] || again["/c"] != first["/a"] || first["/b"] == first["/a"] {
		t.Errorf("first %v, then %v", first, again)
	}
	for target, want := range map[string]struct {
		text string
		mode fs.FileMode
	}{"/a": {"one", 0o444}, "/b": {"one", 0o600}, "/key": {"hush", 0o400}} {
		text, err := os.ReadFile(first[target])
		info, serr := os.Stat(first[target])
		if err != nil || serr != nil || string(text) != want.text || info.Mode().Perm() != want.mode {
			t.Errorf("%s: %q, %v %v %v", target, text, info, err, serr)
		}
	}
	key = "another"
	if next := files("2", secret); next["/key"] == first["/key"] {
		t.Error("a changed secret is in the file of the one before")
	}
	used := &container.InspectResponse{HostConfig: &container.HostConfig{Mounts: []mount.Mount{{Source: first["/a"], Target: "/a"}}}}
	if _, err := f.Prune("web", used); err != nil || len(list(t, dir+"/web")) != 1 || list(t, dir+"/web")[0] != first["/a"] {
		t.Errorf("left %v: %v", list(t, dir+"/web"), err)
	}
	if _, err := f.Prune("web", nil); err != nil || len(list(t, dir)) != 0 {
		t.Errorf("left %v: %v", list(t, dir), err)
	}
}

// TestNothingHalfIsLeft: a blob that is not what its digest says, is too long, or
// does not come leaves no file, and neither does a secret that is not there.
func TestNothingHalfIsLeft(t *testing.T) {
	good := config("/a", "one", 0)
	for name, x := range map[string]struct {
		there shelf
		ask   spec.Content
		says  string
	}{
		"forged":      {shelf{good.Blob.Digest: "two"}, good, "digest"},
		"longer":      {shelf{good.Blob.Digest: "one and more"}, good, "4 bytes"},
		"not there":   {shelf{}, good, fs.ErrNotExist.Error()},
		"lost secret": {shelf{}, spec.Content{Target: "/a", Secret: "key"}, "no such secret"},
	} {
		dir := t.TempDir()
		f := storage.NewFolder(dir, x.there, func(string) ([]byte, error) { return nil, errors.New("no such secret") })
		if _, err := f.Files(t.Context(), "web", []spec.Content{x.ask}, nil); err == nil || !strings.Contains(err.Error(), x.says) || !strings.Contains(err.Error(), "/a") {
			t.Errorf("%s: %v", name, err)
		}
		if left := list(t, dir+"/web"); len(left) != 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
	none := storage.NewFolder("", shelf{}, nil)
	if _, err := none.Files(t.Context(), "web", []spec.Content{good}, nil); err == nil || !strings.Contains(err.Error(), "workspace web") {
		t.Errorf("without a folder: %v", err)
	}
	if _, err := none.Prune("web", nil); err != nil {
		t.Error(err)
	}
}

// TestSharedCopies: all that name one copy see it, whole or a part of it; it goes once nothing mounts it and nobody wrote in it.
func TestSharedCopies(t *testing.T) {
	dir := t.TempDir()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	testkit.Must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "sub/", Mode: 0o755}))
	testkit.Must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "sub/f", Mode: 0o644, Size: 3}))
	testkit.Value(w.Write([]byte("one")))(t)
	testkit.Must(t, w.Close())
	d := digest.Of(archive.Bytes())
	f := storage.NewFolder(dir, shelf{d: archive.String()}, nil)
	content := func(target, below string, writable bool) spec.Content {
		return spec.Content{Target: target, Blob: &spec.Blob{Digest: d, Size: int64(archive.Len())}, Tree: true, UID: os.Getuid(), GID: os.Getgid(), Writable: writable, Shared: "site", Below: below}
	}
	files := func(workspace string, c spec.Content) string {
		t.Helper()
		return testkit.Value(f.Files(t.Context(), workspace, []spec.Content{c}, nil))(t)[c.Target]
	}
	writer, reader := files("writer", content("/out", "", true)), files("reader", content("/in", "sub", false))
	if reader != filepath.Join(writer, "sub") {
		t.Fatalf("the writer has %s, the reader %s", writer, reader)
	}
	testkit.Must(t, f.PruneShared([]string{reader}, time.Now().Add(time.Hour)))
	if len(list(t, filepath.Join(dir, ".shared"))) == 0 {
		t.Fatal("a copy that is mounted is gone")
	}
	testkit.Must(t, f.PruneShared(nil, time.Now().Add(-time.Hour)))
	if len(list(t, filepath.Join(dir, ".shared"))) == 0 {
		t.Fatal("a young copy is gone")
	}
	testkit.Must(t, os.WriteFile(filepath.Join(writer, "new"), []byte("x"), 0o644))
	testkit.Must(t, f.PruneShared(nil, time.Now().Add(time.Hour)))
	if _, err := os.Stat(filepath.Join(writer, "new")); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, os.Remove(filepath.Join(writer, "new")))
	testkit.Must(t, f.PruneShared(nil, time.Now().Add(time.Hour)))
	if left := list(t, filepath.Join(dir, ".shared")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
