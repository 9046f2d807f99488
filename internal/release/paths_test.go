package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestPathsDoNotChangeByThemselves: whether a relative path is storage or files does not follow from what happens to
// lie in the folder once a release was made of it.
func TestPathsDoNotChangeByThemselves(t *testing.T) {
	const compose = "services:\n  app:\n    image: registry.example/app:1\n    volumes:\n      - ./data:/data\n"
	files := func(t *testing.T, more map[string]string) string {
		t.Helper()
		all := map[string]string{
			"fleet.yaml": "apiVersion: steady/v1\nkind: Fleet\nmetadata: {name: f}\nallowMovingTags: true\nallowMassChange: true\nhosts: {h: {channel: stable, bundle: app}}\n" +
				"channels: {stable: {rolloutPolicy: all, freshnessWindow: 24h}}\nrolloutPolicies: {all: {waves: [{name: all, selector: {all: true}}]}}\nbundles: {app: {path: app}}\n",
			"app/bundle.yaml": "compose: compose.yaml\n", "app/compose.yaml": compose,
		}
		for name, text := range more {
			all[name] = text
		}
		return testkit.Folder(t, all)
	}
	keep, bundle := "app/data/.gitkeep", "app/bundle.yaml"
	for _, c := range []struct {
		name          string
		before, after map[string]string
		says          string // of the second build
		fatal         bool
	}{
		{"a file appears in storage", nil, map[string]string{keep: ""}, `app/compose.yaml:5:9: "data" was storage of service "app" in version 1`, true},
		{"the files are gone", map[string]string{keep: ""}, nil, `app/compose.yaml:5:9: "data" was files of the bundle for service "app" in version 1`, true},
		{"storage by a word", nil, map[string]string{keep: "", bundle: "compose: compose.yaml\npaths: {data: storage}\n"}, "", false},
		{"files on purpose", nil, map[string]string{keep: "", bundle: "compose: compose.yaml\npaths: {./data: files}\n"}, `warning: "data" was storage`, false},
		{"storage on purpose", map[string]string{keep: ""}, map[string]string{keep: "", bundle: "compose: compose.yaml\npaths: {data: storage}\n"}, `warning: "data" was files`, false},
		{"the same", map[string]string{keep: ""}, map[string]string{keep: "", "app/data/more": "x"}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKeys(t, "f")
			src, _ := fleetdir.Load(files(t, c.before))
			_, _, first := publish(t, k, src, BuildOptions{Now: t0})
			src, problems := fleetdir.Load(files(t, c.after))
			if src == nil || Fatal(problems) {
				t.Fatalf("%s", lines(problems))
			}
			_, problems = Build(src, BuildOptions{Now: t0.Add(1000), Previous: first})
			text := lines(problems)
			if Fatal(problems) != c.fatal || !strings.Contains(text, c.says) || c.says == "" && strings.Contains(text, "was ") {
				t.Errorf("the second build says\n%s", text)
			}
		})
	}
	dir := files(t, map[string]string{bundle: "compose: compose.yaml\npaths: {other: files}\n"})
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "app/other"), 0o755))
	if _, problems := fleetdir.Load(dir); !Fatal(problems) || !strings.Contains(lines(problems), `lists "other"`) {
		t.Errorf("a path that no service mounts: %s", lines(problems))
	}
}
