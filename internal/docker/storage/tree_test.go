package storage_test

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/storage"
	"github.com/steadyfleet/steady/internal/testkit"
)

// packed is a tar of entries: name/, name -> target, or name=text.
func packed(t *testing.T, entries ...string) string {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e, Typeflag: tar.TypeDir, Mode: 0o755}
		text := ""
		if name, link, ok := strings.Cut(e, " -> "); ok {
			h.Name, h.Linkname, h.Typeflag = name, link, tar.TypeSymlink
		} else if name, data, ok := strings.Cut(e, "="); ok {
			text = data
			h.Name, h.Size, h.Typeflag, h.Mode = name, int64(len(data)), tar.TypeReg, 0o751
		}
		testkit.Must(t, w.WriteHeader(h))
		testkit.Value(w.Write([]byte(text)))(t)
	}
	testkit.Must(t, w.Close())
	return out.String()
}

func folder(target, text string, writable bool) spec.Content {
	c := config(target, text, 0)
	c.Tree, c.Writable = true, writable
	return c
}

// TestAFolderIsWhatWasPacked: files, modes and links come as they were packed, and
// nothing leaves the folder.
func TestAFolderIsWhatWasPacked(t *testing.T) {
	dir, text := t.TempDir(), packed(t, "conf.d/", "conf.d/a.conf=one", "run.sh=two", "link -> conf.d/a.conf")
	f := storage.NewFolder(dir, shelf{digest.Of([]byte(text)): text}, nil)
	got := testkit.Value(f.Files(t.Context(), "web", []spec.Content{folder("/etc/app", text, false)}, nil))(t)
	at := got["/etc/app"]
	for name, want := range map[string]string{"conf.d/a.conf": "one", "run.sh": "two", "link": "one"} {
		if have, err := os.ReadFile(filepath.Join(at, name)); string(have) != want {
			t.Errorf("%s has %q, %v", name, have, err)
		}
	}
	if info, err := os.Stat(filepath.Join(at, "run.sh")); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("run.sh is %v, %v", info, err)
	}
	for _, bad := range [][]string{{"../out=x"}, {"/out=x"}, {"up -> ..", "up/up/out=x"}, {"a=1", "a=2"}} {
		text := packed(t, bad...)
		f := storage.NewFolder(dir, shelf{digest.Of([]byte(text)): text}, nil)
		if _, err := f.Files(t.Context(), "bad", []spec.Content{folder("/x", text, false)}, nil); err == nil || len(list(t, dir+"/bad")) != 0 {
			t.Errorf("%q: %v, left %v", bad, err, list(t, dir+"/bad"))
		}
		if _, err := os.Lstat(filepath.Join(dir, "out")); err == nil {
			t.Errorf("%q wrote outside", bad)
		}
	}
	forged := folder("/x", text, false)
	f = storage.NewFolder(dir, shelf{forged.Blob.Digest: text[:len(text)-512] + strings.Repeat("\x01", 512)}, nil)
	if _, err := f.Files(t.Context(), "bad", []spec.Content{forged}, nil); err == nil || !strings.Contains(err.Error(), "digest") || len(list(t, dir+"/bad")) != 0 {
		t.Errorf("a forged folder: %v", err)
	}
}

// TestWhatAContainerWroteIsKept: a copy is made once for each content, is told of
// when it was written, and outlives the container and the workspace only then.
func TestWhatAContainerWroteIsKept(t *testing.T) {
	dir, text, next := t.TempDir(), packed(t, "a=one", "b=two"), packed(t, "a=three")
	f := storage.NewFolder(dir, shelf{digest.Of([]byte(text)): text, digest.Of([]byte(next)): next}, nil)
	files := func(l ...spec.Content) map[string]string {
		t.Helper()
		got := testkit.Value(f.Files(t.Context(), "web", l, nil))(t)
		return got
	}
	mounts := func(file string) *container.InspectResponse {
		return &container.InspectResponse{HostConfig: &container.HostConfig{Mounts: []mount.Mount{{Source: file, Target: "/data"}}}}
	}
	one, other := folder("/data", text, true), folder("/data", next, true)
	first := files(one)["/data"]
	if w, err := f.Changed("web", []spec.Content{one}); err != nil || len(w) != 0 {
		t.Errorf("as made: %v, %v", w, err)
	}
	for what, change := range map[string]func() error{
		"a file more": func() error { return os.WriteFile(first+"/c", nil, 0o600) },
		"a file less": func() error { return os.Remove(first + "/b") },
		"other text":  func() error { return os.WriteFile(first+"/a", []byte("changed"), 0o600) },
	} {
		before := testkit.Value(os.ReadDir(first))(t)
		testkit.Must(t, change())
		if w, err := f.Changed("web", []spec.Content{one}); err != nil || !slices.Equal(w, []string{"/data"}) {
			t.Errorf("%s: %v, %v (%d files before)", what, w, err, len(before))
		}
		testkit.Value(f.Prune("web", mounts(files(other)["/data"])))(t)
		if files(one)["/data"] != first {
			t.Fatal("the same content has another copy")
		}
		if _, err := os.Lstat(first + "/a"); err != nil {
			t.Fatalf("%s: what was written is gone: %v", what, err)
		}
		// As it was made again.
		testkit.Must(t, os.RemoveAll(first))
		if first = files(one)["/data"]; first == "" {
			t.Fatal("no copy")
		}
	}
	if kept, err := f.Prune("web", mounts(files(other)["/data"])); err != nil || len(kept) != 0 {
		t.Errorf("kept %v, %v", kept, err)
	}
	if _, err := os.Lstat(first); !os.IsNotExist(err) {
		t.Errorf("a copy as it was made is left: %v", err)
	}
	second := files(other)["/data"]
	testkit.Must(t, os.WriteFile(second+"/log", []byte("x"), fs.FileMode(0o600)))
	kept, err := f.Prune("web", nil)
	if err != nil || !slices.Equal(kept, []string{second}) {
		t.Errorf("kept %v, %v", kept, err)
	}
	testkit.Must(t, os.RemoveAll(second))
	if _, err := f.Prune("web", nil); err != nil || len(list(t, dir)) != 0 {
		t.Errorf("left %v, %v", list(t, dir), err)
	}
}
