package lint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Module is the path of the module that the rules are about.
const Module = "github.com/steadyfleet/steady"

// Finding is one broken rule at one place.
type Finding struct {
	// File is relative to the root of the tree; Line counts from 1, or is 0 for
	// a finding about the whole file or package.
	File string
	Line int
	// Text says what is wrong and what to do instead.
	Text string
}

func (f Finding) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Text)
}

// Sort puts findings in the order of their places.
func Sort(fs []Finding) {
	slices.SortFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Text, b.Text))
	})
}

// Package is what `go list` says of one package.
type Package struct {
	ImportPath string
	Name       string
	Doc        string
	Dir        string
	Export     string
	Standard   bool
	GoFiles    []string
	// TestGoFiles are of the package, XTestGoFiles of its _test package.
	TestGoFiles  []string
	XTestGoFiles []string
	Imports      []string
	Error        *struct{ Err string }
}

// Rel is the package's folder below the module's root, "." for the root.
func (p Package) Rel() string { return rel(p.ImportPath) }

func rel(importPath string) string {
	if importPath == Module {
		return "."
	}
	return strings.TrimPrefix(importPath, Module+"/")
}

// Root returns the root of the tree: the folder of the go.mod of this module.
func Root() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("ask go for the module's root: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// List runs `go list -e -json` with the given further arguments below root.
// Patterns that match nothing give no package and no error.
func List(root string, args ...string) ([]Package, error) {
	cmd := exec.Command("go", append([]string{"list", "-e",
		"-json=ImportPath,Name,Doc,Dir,Export,Standard,GoFiles,TestGoFiles,XTestGoFiles,Imports,Error"}, args...)...)
	cmd.Dir = root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	var pkgs []Package
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p Package
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return pkgs, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what go list printed: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// Tracked lists the files of the tree under version control that exist,
// relative to root with slashes. Without git, as in an unpacked archive, it
// lists every file outside hidden and dependency folders.
func Tracked(root string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		return walk(root)
	}
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list tracked files: %w (is git installed?)", err)
	}
	var files []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name == "" {
			continue
		}
		info, err := os.Lstat(filepath.Join(root, name))
		if err == nil && info.Mode().IsRegular() {
			files = append(files, name)
		}
	}
	return files, nil
}

func walk(root string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if d.Type().IsRegular() {
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	})
	return files, err
}
