package compose

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

func rootWith(t *testing.T, files map[string]string) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		testkit.Must(t, os.MkdirAll(filepath.Dir(at), 0o755))
		testkit.Must(t, os.WriteFile(at, []byte(text), 0o644))
	}
	root := testkit.Value(os.OpenRoot(dir))(t)
	t.Cleanup(func() { root.Close() })
	return root, dir
}

// No file outside the folder is read, through links either, and no variable of
// the process is.
func TestNothingOutsideIsRead(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "outside.yaml")
	testkit.Must(t, os.WriteFile(secret, []byte("services: {x: {image: 'stolen:1', environment: {A: stolen}}}\nSTOLEN=stolen\n"), 0o644))
	t.Setenv("STOLEN", "stolen")
	for name, text := range map[string]string{
		"include":         "include: [LINK]\nservices: {a: {image: busybox:1}}",
		"include path":    "include: [{path: OUTSIDE}]\nservices: {a: {image: busybox:1}}",
		"include env":     "include: [{path: inner.yaml, env_file: OUTSIDE}]",
		"extends":         "services: {a: {extends: {file: LINK, service: x}}}",
		"extends outside": "services: {a: {extends: {file: OUTSIDE, service: x}}}",
		"extends by name": "services: {a: {extends: {file: '${F:-OUTSIDE}', service: x}}}",
		"env_file":        "services: {a: {image: busybox:1, env_file: LINK}}",
		"env_file path":   "services: {a: {image: busybox:1, env_file: OUTSIDE}}",
		"label_file":      "services: {a: {image: busybox:1, label_file: LINK}}",
		"config":          "services: {a: {image: busybox:1, configs: [c]}}\nconfigs: {c: {file: LINK}}",
		"secret":          "services: {a: {image: busybox:1, secrets: [c]}}\nsecrets: {c: {file: OUTSIDE}}",
		"secret variable": "services: {a: {image: busybox:1, secrets: [c]}}\nsecrets: {c: {environment: STOLEN}}",
		"seccomp":         "services: {a: {image: busybox:1, security_opt: ['seccomp=LINK']}}",
		"load":            "x-steady: {images: {i: {load: LINK, ref: 'a:1'}}}\nservices: {a: {image: 'a:1'}}",
		"variable":        "services: {a: {image: 'busybox:1', environment: {A: '${STOLEN:?}'}}}",
	} {
		t.Run(name, func(t *testing.T) {
			text = strings.ReplaceAll(strings.ReplaceAll(text, "OUTSIDE", secret), "LINK", "link.yaml")
			root, dir := rootWith(t, map[string]string{"compose.yaml": text, "inner.yaml": "services: {a: {image: 'busybox:${STOLEN-1}'}}"})
			testkit.Must(t, os.Symlink(secret, filepath.Join(dir, "link.yaml")))
			loaded, problems := Load(root, []string{"compose.yaml"}, Options{Name: "shop"})
			if loaded != nil {
				t.Fatalf("it is taken: %+v", loaded.Set)
			}
			if strings.Contains(lines(problems), "stolen") {
				t.Errorf("the problems show what is outside: %s", lines(problems))
			}
		})
	}
}

func TestVariablesAreThoseThatAreGiven(t *testing.T) {
	t.Setenv("ONLY_HERE", "stolen")
	root, _ := rootWith(t, map[string]string{"compose.yaml": "services: {a: {image: 'busybox:1', environment: [ONLY_HERE, GIVEN], labels: {x: 'y${ONLY_HERE}'}}}"})
	loaded, problems := Load(root, []string{"compose.yaml"}, Options{Name: "shop", Environ: map[string]string{"GIVEN": "g"}})
	if loaded == nil || len(problems) != 2 {
		t.Fatalf("%s", lines(problems))
	}
	w := loaded.Set.Workspaces[0]
	if len(w.Env) != 2 || w.Env[0].Name != "GIVEN" || w.Env[0].Value != "g" || !w.Env[1].Unset || w.Labels["x"] != "y" {
		t.Errorf("%+v %v", w.Env, w.Labels)
	}
}
