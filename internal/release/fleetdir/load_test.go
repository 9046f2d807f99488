package fleetdir_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/strictyaml"
	"github.com/steadyfleet/steady/internal/testkit"
)

var update = flag.Bool("update", false, "rewrite the expected problems in testdata/bad")

func lines(ps []strictyaml.Problem) string {
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.String() + "\n")
	}
	return b.String()
}

// Every file of testdata/bad is a fleet folder and the exact problems in it.
func TestBadInput(t *testing.T) {
	cases, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(cases) < 40 {
		t.Fatalf("%d cases found, error %v", len(cases), err)
	}
	for _, file := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			ar := testkit.Value(txtar.ParseFile(file))(t)
			files, want, wantAt := map[string]string{}, "", -1
			for i, f := range ar.Files {
				if f.Name == "want" {
					want, wantAt = string(f.Data), i
					continue
				}
				files[f.Name] = string(f.Data)
			}
			_, problems := fleetdir.Load(testkit.Folder(t, files))
			got := lines(problems)
			if *update {
				ar.Files[wantAt].Data = []byte(got)
				testkit.Must(t, os.WriteFile(file, txtar.Format(ar), 0o644))
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
	dir := testkit.Folder(t, map[string]string{fleetdir.FleetFile: "# " + strings.Repeat("x", 8<<20)})
	if _, ps := fleetdir.Load(dir); len(ps) != 1 || !strings.Contains(ps[0].String(), "at most 8388608 are allowed") {
		t.Errorf("got %q", lines(ps))
	}
}

func TestLoadKeepsInsideTheFolders(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	dir := testkit.Folder(t, map[string]string{
		fleetdir.FleetFile: strings.Replace(jsonFleet, `"name":"acme"`, `"name":"links"`, 1),
		"web/bundle.yaml":  "files:\n  - {path: a, source: link}\n",
	})
	testkit.Must(t, os.Symlink(secret, filepath.Join(dir, "web", "link")))
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
	dir := testkit.Folder(t, map[string]string{fleetdir.FleetFile: jsonFleet, "web/bundle.yaml": `{"files":[{"path":"a","content":"x"}]}`})
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
		raw := testkit.Value(os.ReadFile(filepath.Join("../../../examples", name)))(f)
		f.Add(raw)
	}
	f.Add([]byte(jsonFleet))
	f.Add([]byte("hosts: {a: &a {b: *a}}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		dir := t.TempDir()
		testkit.Must(t, os.WriteFile(filepath.Join(dir, fleetdir.FleetFile), raw, 0o644))
		src, ps := fleetdir.Load(dir)
		if src == nil && !strictyaml.Fatal(ps) {
			t.Fatal("nothing was loaded and nothing is said to be wrong")
		}
		for _, p := range ps {
			if p.Message == "" || p.File == "" || (p.Line == 0) != (p.Column == 0) {
				t.Fatalf("a problem without a place: %+v", p)
			}
		}
		if src != nil && !strictyaml.Fatal(ps) {
			if rel, ps := release.Build(src, release.BuildOptions{Ref: "r1", Now: 1}); rel == nil && !strictyaml.Fatal(ps) {
				t.Fatal("nothing was built and nothing is said to be wrong")
			}
		}
	})
}

// What a host may leave to the server is a list in the schema, for editors; it is that
// of the kinds and allowances that there are.
func TestSchemaKnowsKindsAndAllowances(t *testing.T) {
	var schema struct {
		Defs map[string]struct {
			Properties map[string]struct {
				Items      struct{ Enum []string }
				Properties map[string]struct{ Items struct{ Enum []string } }
			}
		} `json:"$defs"`
	}
	testkit.Must(t, json.Unmarshal(fleetdir.SchemaJSON("fleet"), &schema))
	host := schema.Defs["host"].Properties
	for field, want := range map[string][]string{"managed": slices.Sorted(slices.Values(spec.Kinds)), "allow": fleet.Allowances} {
		if got := host[field].Items.Enum; !slices.Equal(got, want) {
			t.Errorf("%s of a host is one of %v in the schema, expected %v", field, got, want)
		}
	}
	if got := host["bounds"].Properties["owners"].Items.Enum; !slices.Equal(got, spec.OwnerKinds) {
		t.Errorf("owners are one of %v in the schema, expected %v", got, spec.OwnerKinds)
	}
}
