package release

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
)

func mapFS(files map[string][]byte) fs.FS {
	m := fstest.MapFS{}
	for name, raw := range files {
		m[name] = &fstest.MapFile{Data: raw}
	}
	return m
}

func TestPackRoundTrip(t *testing.T) {
	k := newKeys(t, "shops")
	dir, _, v := publish(t, k, load(t, example(t, "edge")), BuildOptions{Ref: "r1", Now: t0})
	packed := Pack(os.DirFS(dir))
	defer packed.Close()
	to := t.TempDir()
	testkit.Must(t, Unpack(packed, to, DefaultCaps()))
	got := testkit.Value(VerifyDir(to, k.state(t), t0))(t)
	if got.Resolved.Digest() != v.Resolved.Digest() || len(got.Names) != len(v.Names) {
		t.Errorf("unpacked snapshot %s with %d files, packed %s with %d", got.Resolved.Digest(), len(got.Names), v.Resolved.Digest(), len(v.Names))
	}
}

func TestPackStopsAtWhatIsNoRelease(t *testing.T) {
	r := Pack(mapFS(map[string][]byte{"roster.json": []byte("{}"), "id_ed25519": []byte("secret")}))
	defer r.Close()
	if _, err := io.ReadAll(r); err == nil {
		t.Error("a private key was packed")
	}
}

func tarOf(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		testkit.Must(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			testkit.Value(w.Write(make([]byte, h.Size)))(t)
		}
	}
	testkit.Must(t, w.Close())
	return b.Bytes()
}

func TestUnpackRefuses(t *testing.T) {
	file := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}
	}
	whole := tarOf(t, file(RosterPath, 2000))
	tests := map[string][]byte{
		"no file":        tarOf(t),
		"no tar":         bytes.Repeat([]byte("x"), 2048),
		"unknown name":   tarOf(t, file("readme", 1)),
		"parent":         tarOf(t, file("../roster.json", 1)),
		"absolute":       tarOf(t, file("/roster.json", 1)),
		"dot":            tarOf(t, file("./roster.json", 1)),
		"symbolic link":  tarOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: RosterPath, Linkname: "/etc/passwd"}),
		"hard link":      tarOf(t, tar.Header{Typeflag: tar.TypeLink, Name: RosterPath, Linkname: "x"}),
		"folder":         tarOf(t, tar.Header{Typeflag: tar.TypeDir, Name: "blobs/"}),
		"device":         tarOf(t, tar.Header{Typeflag: tar.TypeChar, Name: RosterPath}),
		"twice":          tarOf(t, file(RosterPath, 1), file(RosterPath, 1)),
		"over own cap":   tarOf(t, file(ResolvedPath, 4<<20+1)),
		"too many files": tarOf(t, file(RosterPath, 1), file(RevocationsPath, 1), file("1.root.json", 1), file("2.root.json", 1)),
		"too many bytes": tarOf(t, file(RosterPath, 3000), file(RevocationsPath, 3000)),
		"cut short":      whole[:1024],
	}
	for name, raw := range tests {
		t.Run(name, func(t *testing.T) {
			caps := Caps{Files: 3, Bytes: 5000}
			if name == "over own cap" {
				caps = DefaultCaps()
			}
			if err := Unpack(bytes.NewReader(raw), t.TempDir(), caps); err == nil {
				t.Fatal("it was taken")
			} else if name != "cut short" && !errors.Is(err, ErrPack) {
				t.Errorf("not blamed on the sender: %v", err)
			}
		})
	}
}

// Whatever arrives, nothing is written outside the folder and nothing panics.
func TestUnpackStaysInsideItsFolder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parent := testkit.Value(os.MkdirTemp("", "unpack"))(rt)
		defer os.RemoveAll(parent)
		dir := parent + "/in"
		testkit.Must(rt, os.Mkdir(dir, 0o755))
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for range rapid.IntRange(0, 4).Draw(rt, "entries") {
			h := tar.Header{
				Typeflag: rapid.SampledFrom([]byte{tar.TypeReg, tar.TypeSymlink, tar.TypeLink, tar.TypeDir}).Draw(rt, "type"),
				Name:     rapid.SampledFrom([]string{"roster.json", "../x", "blobs/../../x", "/tmp/x", "blobs", "rollouts/a@b.json", "blobs/"}).Draw(rt, "name"),
				Linkname: rapid.SampledFrom([]string{"", "..", "/tmp"}).Draw(rt, "link"),
			}
			if err := w.WriteHeader(&h); err != nil {
				continue
			}
		}
		testkit.Must(rt, w.Flush())
		err := Unpack(&b, dir, DefaultCaps())
		left, readErr := os.ReadDir(parent)
		if readErr != nil || len(left) != 1 {
			rt.Fatalf("beside the folder: %v, error %v (unpack: %v)", left, readErr, err)
		}
	})
}
