package agentcmd

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// nixUnit has Nix evaluate the module with settings in its language.
func nixUnit(t *testing.T, settings string) (string, error) {
	t.Helper()
	module := testkit.Value(filepath.Abs("module.nix"))(t)
	evaluate := testkit.Value(filepath.Abs("testdata/evaluate.nix"))(t)
	cmd := exec.CommandContext(t.Context(), "nix-instantiate", "--store", "dummy://", "--eval", "--strict", "--json", "-E", "import "+evaluate+" { module = "+module+"; settings = "+settings+"; }")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return errs.String(), err
	}
	var unit string
	testkit.Must(t, json.Unmarshal(out.Bytes(), &unit))
	return unit, nil
}

// settingsOf are the settings of a unit by section and name.
func settingsOf(unit string) map[string]string {
	out, section := map[string]string{}, ""
	for _, l := range joined(unit) {
		if strings.HasPrefix(l, "[") {
			section = strings.Trim(l, "[]") + "."
		} else if key, value, ok := strings.Cut(l, "="); ok && l[0] != '#' {
			if value == "yes" {
				value = "true"
			}
			out[section+key] = value
		}
	}
	return out
}

// TestModuleOfNixOSIsTheUnit: what NixOS makes of the module has the settings of the unit that an installation writes,
// and of its own what only NixOS needs.
func TestModuleOfNixOSIsTheUnit(t *testing.T) {
	testkit.Needs(t, testkit.Nix)
	args := []string{"--http", ":80", "--reboot-command", `/bin/sh -c "exit $CODE" 100%`}
	unit := settingsOf(testkit.Value(systemd.declare(layout{Root: "/", Program: "steady-agent", Host: "web-1", Fleet: "acme", Args: args}))(t))
	quoted := ""
	for _, a := range args {
		quoted += " " + nixString(a)
	}
	text, err := nixUnit(t, `{ enable = true; program = "/usr/local/bin/steady-agent"; flags = [`+quoted+` ]; }`)
	if err != nil {
		t.Fatal(err, text)
	}
	module := settingsOf(text)
	own := map[string]string{
		"Unit.Description":           "Steady agent of this host",
		"Service.Environment":        "PATH=/nix/store/none-nix/bin:/run/wrappers/bin:/run/current-system/sw/bin",
		"Service.X-RestartIfChanged": "true", "Service.X-StopIfChanged": "false",
	}
	for key, value := range own {
		if module[key] != value {
			t.Errorf("the module has %s=%s, expected %s", key, module[key], value)
		}
		delete(module, key)
		delete(unit, key)
	}
	words := func(s map[string]string) []string { return testkit.Value(execWords(s["Service.ExecStart"]))(t) }
	if got, want := words(module), words(unit); !slices.Equal(got, want) {
		t.Errorf("the module starts %q, expected %q", got, want)
	}
	delete(module, "Service.ExecStart")
	delete(unit, "Service.ExecStart")
	if !maps.Equal(module, unit) {
		t.Errorf("the module makes\n%v\nand an installation writes\n%v", module, unit)
	}
}

// TestOptionsOfTheModule: what people give it comes into the command, or is refused.
func TestOptionsOfTheModule(t *testing.T) {
	testkit.Needs(t, testkit.Nix)
	for settings, want := range map[string]string{
		`{ }`: "",
		`{ enable = true; package = { outPath = "/nix/store/p"; }; tokenFile = "/etc/steady/a b.token"; }`: `ExecStart="/nix/store/p/bin/steady-agent" "--state" "/var/lib/steady" "--root" "/" "--token" "/etc/steady/a b.token"`,
		`{ enable = true; program = "/nix/store/x-steady"; }`:                                              `ExecStart="/nix/store/x-steady" "agent" "--state"`,
		`{ enable = true; program = "/nix/store/x-steady-agent"; path = [ "/opt" ]; }`:                     `ExecStart="/nix/store/x-steady-agent" "--state"`,
		`{ enable = true; flags = "--http"; program = "/x"; }`:                                             "not of its type",
		`{ enable = true; }`:             "needs a package or a program",
		`{ enable = true; flag = [ ]; }`: "no option flag",
	} {
		got, err := nixUnit(t, settings)
		if !strings.Contains(got, want) || want == "" && (got != "" || err != nil) {
			t.Errorf("%s makes %q (%v), expected %q", settings, got, err, want)
		}
	}
}

// TestExamplesOfNixAreRead has Nix read all that it is given as an example.
func TestExamplesOfNixAreRead(t *testing.T) {
	testkit.Needs(t, testkit.Nix)
	files := testkit.Value(filepath.Glob("../../../examples/nix/*.nix"))(t)
	if len(files) != 3 {
		t.Errorf("%d files of Nix in examples", len(files))
	}
	out, err := exec.CommandContext(t.Context(), "nix-instantiate", append([]string{"--store", "dummy://", "--parse"}, files...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

var vendorHash = regexp.MustCompile(`vendorHash \? "(sha256-[^"]*)"`)

// TestVendorHash: the package names the modules that go.mod does, as nixpkgs fetches them.
func TestVendorHash(t *testing.T) {
	testkit.Needs(t, testkit.Nix)
	testkit.Only(t, testkit.Nightly() || *rewrite, "copies all modules: STEADY_NIGHTLY=1, or -rewrite after go.mod changed")
	vendor := filepath.Join(t.TempDir(), "vendor")
	cmd := exec.CommandContext(t.Context(), "go", "mod", "vendor", "-o", vendor)
	cmd.Dir = "../../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sum := testkit.Value(exec.CommandContext(t.Context(), "nix-hash", "--type", "sha256", vendor).Output())(t)
	is := "sha256-" + base64.StdEncoding.EncodeToString(testkit.Value(hex.DecodeString(strings.TrimSpace(string(sum))))(t))
	const file = "../../../examples/nix/package.nix"
	text := testkit.Value(os.ReadFile(file))(t)
	if *rewrite {
		text = vendorHash.ReplaceAll(text, []byte(`vendorHash ? "`+is+`"`))
		testkit.Must(t, os.WriteFile(file, text, 0o644))
	}
	if m := vendorHash.FindSubmatch(text); m == nil || string(m[1]) != is {
		t.Errorf("%s has another vendorHash than %s: run this test with -rewrite", file, is)
	}
}
