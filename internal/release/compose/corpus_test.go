package compose

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write what is found as expected")

// folder writes the files of an archive and says how to load them.
func folder(t testing.TB, ar *txtar.Archive) (*os.Root, []string, Options) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range ar.Files {
		if strings.HasPrefix(f.Name, "want") {
			continue
		}
		at := filepath.Join(dir, filepath.FromSlash(f.Name))
		testkit.Must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		testkit.Must(t, os.WriteFile(at, f.Data, 0o644))
	}
	root := testkit.Value(os.OpenRoot(dir))(t)
	t.Cleanup(func() { root.Close() })
	files, o := []string{"compose.yaml"}, Options{Name: "shop", Environ: map[string]string{}}
	for line := range strings.Lines(string(ar.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "files":
			files = strings.Fields(value)
		case "chmod":
			for _, pair := range strings.Fields(value) {
				name, mode, _ := strings.Cut(pair, "=")
				n, err := strconv.ParseUint(mode, 8, 12)
				if err == nil {
					err = os.Chmod(filepath.Join(dir, name), os.FileMode(n))
				}
				testkit.Must(t, err)
			}
		case "profiles":
			o.Profiles = strings.Fields(value)
		case "env":
			for _, pair := range strings.Fields(value) {
				k, v, _ := strings.Cut(pair, "=")
				o.Environ[k] = v
			}
		}
	}
	return root, files, o
}

func archives(t testing.TB, pattern string, least int) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) < least {
		t.Fatalf("%d files, error %v", len(names), err)
	}
	return names
}

func lines(ps []Problem) string {
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// expect compares parts of an archive, or writes them with -rewrite.
func expect(t *testing.T, file string, ar *txtar.Archive, want map[string]string) {
	t.Helper()
	for _, name := range []string{"want.json", "want"} {
		got, ok := want[name]
		i := slices.IndexFunc(ar.Files, func(f txtar.File) bool { return f.Name == name })
		switch {
		case *rewrite && ok && i < 0:
			ar.Files = append(ar.Files, txtar.File{Name: name, Data: []byte(got)})
		case *rewrite && ok:
			ar.Files[i].Data = []byte(got)
		case ok && i < 0:
			t.Errorf("%s has no %s; run with -rewrite", file, name)
		case ok:
			if d := cmp.Diff(string(ar.Files[i].Data), got); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		}
	}
	if *rewrite {
		testkit.Must(t, os.WriteFile(file, txtar.Format(ar), 0o644))
	}
}

// Compose files that load: the set and the warnings are those beside them.
func TestCorpus(t *testing.T) {
	for _, file := range archives(t, "testdata/compose/*.txtar", 20) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar := testkit.Value(txtar.ParseFile(file))(t)
			root, files, o := folder(t, ar)
			loaded, problems := Load(root, files, o)
			if loaded == nil {
				t.Fatalf("it is refused:\n%s", lines(problems))
			}
			raw := testkit.Value(json.MarshalIndent(loaded.Set, "", "  "))(t)
			expect(t, file, ar, map[string]string{"want.json": string(raw) + "\n", "want": lines(problems)})
			for _, b := range loaded.Set.Blobs() {
				if got := loaded.Blobs[b.Digest]; int64(len(got)) != b.Size {
					t.Errorf("content %s has %d bytes, declared are %d", b.Digest.Short(), len(got), b.Size)
				}
			}
			if len(loaded.Blobs) != len(loaded.Set.Blobs()) {
				t.Errorf("%d blobs for %d that the set names", len(loaded.Blobs), len(loaded.Set.Blobs()))
			}
			if ps := loaded.Set.Check(); len(ps) > 0 {
				t.Errorf("the set is not valid: %v", ps)
			}
			again, _ := Load(root, files, o)
			if d := cmp.Diff(loaded, again); d != "" {
				t.Errorf("a second reading differs:\n%s", d)
			}
		})
	}
}

// Compose files that are refused, with the place and the reason.
func TestRefused(t *testing.T) {
	for _, file := range archives(t, "testdata/refused/*.txtar", 10) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar := testkit.Value(txtar.ParseFile(file))(t)
			root, files, o := folder(t, ar)
			loaded, problems := Load(root, files, o)
			if loaded != nil {
				t.Fatalf("it is taken, with:\n%s", lines(problems))
			}
			expect(t, file, ar, map[string]string{"want": lines(problems)})
			for _, p := range problems {
				if strings.Contains(p.String(), os.TempDir()) {
					t.Errorf("a problem names the temporary folder: %s", p)
				}
			}
		})
	}
}

// The corpus uses every attribute of the table, and so of the specification.
func TestCorpusUsesEveryAttribute(t *testing.T) {
	used := map[string]bool{}
	for _, file := range slices.Concat(archives(t, "testdata/compose/*.txtar", 20), archives(t, "testdata/refused/*.txtar", 10)) {
		ar := testkit.Value(txtar.ParseFile(file))(t)
		root, files, o := folder(t, ar)
		l := newLoad(disk.PlainFolder(root), files, o)
		l.environment()
		l.collect()
		for _, a := range l.attributesUsed() {
			used[a] = true
		}
		l.close()
	}
	for _, a := range attributes {
		if !used[a.Path] {
			t.Errorf("no file of the corpus uses %s", a.Path)
		}
	}
}
