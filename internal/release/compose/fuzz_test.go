package compose

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/steadyfleet/steady/internal/testkit"
)

// Any file is taken or refused, in bounded time and without an end of the
// program; what is taken is valid.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/compose/*.txtar", "testdata/refused/*.txtar"} {
		for _, file := range archives(f, pattern, 10) {
			ar := testkit.Value(txtar.ParseFile(file))(f)
			for _, part := range ar.Files {
				if part.Name == "compose.yaml" {
					f.Add(part.Data)
				}
			}
		}
	}
	dir := f.TempDir()
	testkit.Must(f, os.MkdirAll(filepath.Join(dir, "web"), 0o755))
	for name, text := range map[string]string{"web/Dockerfile": "FROM scratch\n", ".env": "TAG=1\n"} {
		testkit.Must(f, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 16<<10 {
			return // longer than what is looked for
		}
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "compose.yaml"), data, 0o644))
		root := testkit.Value(os.OpenRoot(dir))(t)
		defer root.Close()
		loaded, problems := Load(root, []string{"compose.yaml"}, Options{Name: "shop"})
		if loaded == nil {
			if len(problems) == 0 {
				t.Fatal("it is refused without a reason")
			}
			return
		}
		if ps := loaded.Set.Check(); len(ps) > 0 {
			t.Fatalf("what is taken is not valid: %v", ps)
		}
	})
}

// A file of a few kilobytes must not cost more than a moment.
func TestBombsAreRefusedQuickly(t *testing.T) {
	var aliases strings.Builder
	aliases.WriteString("x-0: &a0 {k: v}\n")
	for i := 1; i < 60; i++ {
		n, m := string(rune('0'+i/10))+string(rune('0'+i%10)), string(rune('0'+(i-1)/10))+string(rune('0'+(i-1)%10))
		if i == 1 {
			m = "0"
		}
		aliases.WriteString("x-" + n + ": &a" + n + " {<<: *a" + m + ", l: *a" + m + ", r: *a" + m + "}\n")
	}
	for name, text := range map[string]string{
		"aliases":       aliases.String() + "services: {a: {image: busybox}}\n",
		"own alias":     "services: &s {a: {image: busybox, x-a: *s}}\n",
		"deep":          "services: " + strings.Repeat("{a: ", 5000) + strings.Repeat("}", 5000),
		"deep list":     "services: {a: {image: busybox, command: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}}",
		"many services": "services:\n" + strings.Repeat("  - a\n", 200_000),
		"ports":         "services: {a: {image: busybox, ports: ['1-65535:1-65535/udp']}}",
		"host ports":    "services: {a: {image: busybox, ports: ['127.0.0.1:1-65535:1-65535']}}",
		"exposed":       "services: {a: {image: busybox, expose: ['1-65535']}}",
		"scale":         "services: {a: {image: busybox, scale: 999999999}}",
		"replicas":      "services: {a: {image: busybox, deploy: {replicas: 999999999}}}",
		"variables":     "services: {a: {image: '" + strings.Repeat("${A:-", 800) + strings.Repeat("}", 800) + "'}}",
		"itself":        "include: [compose.yaml]\nservices: {a: {image: busybox}}",
		"extends":       "services: {a: {extends: {service: a}}}",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "compose.yaml"), []byte(text), 0o644))
			root := testkit.Value(os.OpenRoot(dir))(t)
			defer root.Close()
			began := time.Now()
			loaded, problems := Load(root, []string{"compose.yaml"}, Options{Name: "shop"})
			if loaded != nil {
				t.Fatal("it is taken")
			}
			t.Logf("%v: %s", time.Since(began), problems[0])
		})
	}
}
