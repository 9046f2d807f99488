package fleetdir_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/strictdoc"
)

var update = flag.Bool("update", false, "rewrite the expected problems in testdata/bad")

func lines(ps []strictdoc.Problem) string {
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// writeTree writes files below a new folder and returns it.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Every file of testdata/bad is a fleet folder and the exact problems in it.
func TestBadInput(t *testing.T) {
	cases, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(cases) < 40 {
		t.Fatalf("%d cases found, error %v", len(cases), err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			files, want, wantAt := map[string]string{}, "", -1
			for i, f := range ar.Files {
				if f.Name == "want" {
					want, wantAt = string(f.Data), i
					continue
				}
				files[f.Name] = string(f.Data)
			}
			_, problems := fleetdir.Load(writeTree(t, files))
			got := lines(problems)
			if *update {
				ar.Files[wantAt].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got == "" {
				t.Fatal("no problem found")
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
}

func TestLoadWithoutFolderOrFile(t *testing.T) {
	dir := t.TempDir()
	if _, ps := fleetdir.Load(filepath.Join(dir, "gone")); len(ps) != 1 || !strings.Contains(ps[0].String(), "expected a folder with fleet.yaml") {
		t.Errorf("a missing folder gave %q", lines(ps))
	}
	if _, ps := fleetdir.Load(dir); len(ps) != 1 || !strings.HasPrefix(ps[0].String(), `fleet.yaml: "fleet.yaml" cannot be read`) {
		t.Errorf("a missing file gave %q", lines(ps))
	}
}

func TestLoadCapsTheFile(t *testing.T) {
	dir := writeTree(t, map[string]string{fleetdir.FleetFile: "# " + strings.Repeat("x", 8<<20)})
	if _, ps := fleetdir.Load(dir); len(ps) != 1 || !strings.Contains(ps[0].String(), "at most 8388608 are taken") {
		t.Errorf("got %q", lines(ps))
	}
}

func TestLoadKeepsInsideTheFolders(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := writeTree(t, map[string]string{
		fleetdir.FleetFile: strings.Replace(jsonFleet, `"name":"acme"`, `"name":"links"`, 1),
		"web/bundle.yaml":  "files:\n  - {path: a, source: link}\n",
	})
	if err := os.Symlink(secret, filepath.Join(dir, "web", "link")); err != nil {
		t.Fatal(err)
	}
	_, ps := fleetdir.Load(dir)
	if want := `web/bundle.yaml:2:23: "link" cannot be read: it leads out of the folder: expected a file inside the bundle folder` + "\n"; lines(ps) != want {
		t.Errorf("got  %swant %s", lines(ps), want)
	}
}

const jsonFleet = `{"apiVersion":"steady/v1","kind":"Fleet","metadata":{"name":"acme"},
 "hosts":{"a-1":{"channel":"stable","bundle":"web"}},
 "channels":{"stable":{"rolloutPolicy":"once","freshnessWindow":"24h"}},
 "rolloutPolicies":{"once":{"waves":[{"name":"all","selector":{"all":true}}]}},
 "bundles":{"web":{"path":"web"}}}`

func TestLoadTakesJSON(t *testing.T) {
	dir := writeTree(t, map[string]string{fleetdir.FleetFile: jsonFleet, "web/bundle.yaml": `{"files":[{"path":"a","content":"x"}]}`})
	src, ps := fleetdir.Load(dir)
	if len(ps) != 0 {
		t.Fatalf("problems: %s", lines(ps))
	}
	if src.Declaration.Hosts["a-1"].Channel != "stable" || len(src.Bundles["web"].Bundle.Files) != 1 {
		t.Errorf("loaded %+v", src.Declaration)
	}
}

func FuzzLoad(f *testing.F) {
	for _, name := range []string{"quickstart/fleet.yaml", "edge/fleet.yaml"} {
		raw, err := os.ReadFile(filepath.Join("../../../examples", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(jsonFleet))
	f.Add([]byte("hosts: {a: &a {b: *a}}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fleetdir.FleetFile), raw, 0o644); err != nil {
			t.Fatal(err)
		}
		src, ps := fleetdir.Load(dir)
		if src == nil && !strictdoc.Fatal(ps) {
			t.Fatal("nothing was loaded and nothing is said to be wrong")
		}
		for _, p := range ps {
			if p.Message == "" || p.File == "" || (p.Line == 0) != (p.Column == 0) {
				t.Fatalf("a problem without a place: %+v", p)
			}
		}
		if src != nil && !strictdoc.Fatal(ps) {
			if rel, ps := release.Build(src, release.BuildOptions{Ref: "r1", Now: 1}); rel == nil && !strictdoc.Fatal(ps) {
				t.Fatal("nothing was built and nothing is said to be wrong")
			}
		}
	})
}
