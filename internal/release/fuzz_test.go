package release

import (
	"archive/tar"
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// FuzzUnpack: whatever arrives, only regular files with names of a release are
// written, within the caps and inside the folder.
func FuzzUnpack(f *testing.F) {
	pack := func(size int64, typ byte, names ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, name := range names {
			_ = w.WriteHeader(&tar.Header{Typeflag: typ, Name: name, Linkname: "..", Size: size, Mode: 0o644})
			_, _ = w.Write(bytes.Repeat([]byte("x"), int(size)))
		}
		_ = w.Close()
		return b.Bytes()
	}
	f.Add(pack(3, tar.TypeReg, "roster.json", "timestamp.json"))
	f.Add(pack(3, tar.TypeReg, "roster.json", "roster.json"))
	f.Add(pack(0, tar.TypeSymlink, "blobs"))
	f.Add(pack(3, tar.TypeReg, "blobs/../../x"))
	f.Add(pack(3, tar.TypeReg, "roster.json")[:600])
	caps, temp := Caps{Files: 4, Bytes: 4096}, f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		parent := testkit.Value(os.MkdirTemp(temp, "unpack"))(t)
		defer os.RemoveAll(parent)
		dir := filepath.Join(parent, "in")
		testkit.Must(t, os.Mkdir(dir, 0o755))
		_ = Unpack(bytes.NewReader(raw), dir, caps)
		files, total := 0, int64(0)
		err := filepath.WalkDir(parent, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			inside, err := filepath.Rel(dir, name)
			if _, ok := FileCap(filepath.ToSlash(inside)); err != nil || !ok || !info.Mode().IsRegular() || strings.HasPrefix(inside, "..") {
				t.Fatalf("wrote %s, %v", inside, info.Mode())
			}
			files, total = files+1, total+info.Size()
			return nil
		})
		if err != nil || files > caps.Files || total > caps.Bytes {
			t.Fatalf("wrote %d files of %d bytes, %v", files, total, err)
		}
	})
}

// FuzzVerify puts arbitrary bytes in the place of any file of a signed release:
// it is refused, unless the file is an envelope that says the same.
func FuzzVerify(f *testing.F) {
	k := newKeys(f, "acme")
	dir, _, v := publish(f, k, load(f, example(f, "quickstart")), BuildOptions{Ref: "r1", Now: t0})
	files := map[string][]byte{}
	for i, name := range slices.Sorted(slices.Values(v.Names)) {
		raw := testkit.Value(readIn(dir, name))(f)
		files[name] = raw
		if len(raw) < 8<<10 {
			f.Add(uint16(i), raw)
			f.Add(uint16(i+1), raw)
		}
	}
	names, state := slices.Sorted(maps.Keys(files)), k.state(f)
	f.Fuzz(func(t *testing.T, at uint16, raw []byte) {
		name := names[int(at)%len(names)]
		changed := maps.Clone(files)
		changed[name] = raw
		got, err := Verify(mapFS(changed), state, t0)
		if err != nil {
			return
		}
		if !bytes.Equal(raw, files[name]) && !sameEnvelope(raw, files[name]) {
			t.Fatalf("%s was replaced by %q and taken", name, raw)
		}
		if got.Roster.Digest() != v.Roster.Digest() {
			t.Fatal("another roster")
		}
	})
}

// sameEnvelope reports whether the same is signed: white space and unknown
// fields around it are not.
func sameEnvelope(a, b []byte) bool {
	x, err := trust.ParseEnvelope(a)
	if err != nil {
		return false
	}
	y, err := trust.ParseEnvelope(b)
	return err == nil && bytes.Equal(trust.PAE(x.PayloadType, x.Payload), trust.PAE(y.PayloadType, y.Payload))
}
