// Uibuild bundles the web UI: internal/web/ui into internal/web/dist, which is
// committed and embedded, so that only a change of the UI needs npm.
//
//	(cd internal/web/ui && npm ci --ignore-scripts) && go run ./internal/web/uibuild
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/web"
)

func main() {
	if err := run("internal/web"); err != nil {
		fmt.Fprintln(os.Stderr, "uibuild:", err)
		os.Exit(1)
	}
}

// run builds below the folder of package web, seen from the root of the tree. Equal sources
// and packages give equal bytes.
func run(folder string) error {
	// What is embedded stays until there is something else: this program embeds it, too.
	ui, embedded, dist := filepath.Join(folder, "ui"), filepath.Join(folder, "dist"), filepath.Join(folder, "dist.new")
	if _, err := os.Stat(filepath.Join(ui, "node_modules")); err != nil {
		return fmt.Errorf("the packages are not installed (%w): run npm ci --ignore-scripts in %s", err, ui)
	}
	if err := os.RemoveAll(dist); err != nil {
		return err
	}
	// Below node_modules, so that what is made of it is known to be its package's.
	modules, meta := filepath.Join(dist, "node_modules"), filepath.Join(dist, "meta.json")
	if err := plotter(filepath.Join(ui, "node_modules/uplot"), filepath.Join(modules, "uplot")); err != nil {
		return err
	}
	cmd := exec.Command("go", "tool", "-modfile=tools/go.mod", "esbuild", filepath.Join(ui, "src/main.tsx"), "--outdir="+filepath.Join(dist, "assets"),
		"--bundle", "--splitting", "--format=esm", "--target=es2022", "--minify", "--legal-comments=none", "--jsx=automatic", "--jsx-import-source=preact",
		"--tsconfig-raw={}", "--alias:uplot=./"+filepath.Join(modules, "uplot"), "--entry-names=[name]-[hash]", "--chunk-names=[name]-[hash]", "--metafile="+meta, "--log-level=warning")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("esbuild: %w", err)
	}
	raw, err := os.ReadFile(meta)
	if err != nil {
		return err
	}
	var m metafile
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	if err := errors.Join(os.Remove(meta), os.RemoveAll(modules)); err != nil {
		return err
	}
	files := map[string][]byte{}
	if files["index.html"], err = page(ui, dist); err != nil {
		return err
	}
	if files["LICENSES.txt"], err = licences(ui, m.packages()); err != nil {
		return err
	}
	if files["icon.svg"], err = os.ReadFile(filepath.Join(ui, "src/icon.svg")); err != nil {
		return err
	}
	sum, err := web.SumSources(os.DirFS(ui))
	if err != nil {
		return err
	}
	files[web.SourcesFile] = []byte(sum + "\n")
	for name, content := range files { // order-free: each file by itself
		if err := os.WriteFile(filepath.Join(dist, name), content, 0o644); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(embedded); err != nil {
		return err
	}
	return os.Rename(dist, embedded)
}

// plotter copies the package uPlot without the functions that it hangs on its class for others to
// call: an eighth of it is of use to them alone, and no bundler can tell that nobody asks for it.
func plotter(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	name := filepath.Join(to, "dist/uPlot.esm.js")
	script, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	class, rest, ok := bytes.Cut(script, []byte("\nuPlot.assign = assign;\n"))
	_, exports, last := bytes.Cut(rest, []byte("\nexport { uPlot as default };\n"))
	if !ok || !last || len(bytes.TrimSpace(exports)) > 0 {
		return fmt.Errorf("%s does not end with what it adds to its class, and its export: is this another version of uPlot?", name)
	}
	return os.WriteFile(name, append(class, "\nexport { uPlot as default };\n"...), 0o644)
}

// page is the one page, with the names of what it begins with.
func page(ui, dist string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(ui, "src/index.html"))
	if err != nil {
		return nil, err
	}
	for mark, pattern := range map[string]string{"{{script}}": "main-*.js", "{{style}}": "main-*.css"} { // order-free: each mark by itself
		found, err := filepath.Glob(filepath.Join(dist, "assets", pattern))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("%d files are %s, not one (%v)", len(found), pattern, err)
		}
		text = bytes.ReplaceAll(text, []byte(mark), []byte("/assets/"+filepath.Base(found[0])))
	}
	return text, nil
}

// metafile is what esbuild says of its inputs.
type metafile struct {
	Inputs map[string]json.RawMessage `json:"inputs"`
}

// packages lists those that a part of is in the bundle, sorted.
func (m *metafile) packages() (list []string) {
	for input := range m.Inputs { // order-free: sorted below
		_, path, ok := strings.Cut(input, "node_modules/")
		if !ok {
			continue
		}
		parts := strings.Split(path, "/")
		n := 1
		if strings.HasPrefix(path, "@") {
			n = 2
		}
		list = append(list, strings.Join(parts[:n], "/"))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// licences joins the licences of packages.
func licences(ui string, packages []string) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("The scripts and styles beside this file contain parts of these packages.\n")
	for _, name := range packages {
		dir := filepath.Join(ui, "node_modules", filepath.FromSlash(name))
		raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
		if err != nil {
			return nil, err
		}
		var p struct{ Version, License string }
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found, err := filepath.Glob(filepath.Join(dir, "LICENSE*"))
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s has no licence", name)
		}
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(found[0])
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "\n%s %s (%s)\n\n%s\n", name, p.Version, p.License, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	return b.Bytes(), nil
}
