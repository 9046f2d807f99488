package lint

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxLinked is the most direct requirements that commands link; those that tests
// alone link have a section of their own on the page and are not counted.
const maxLinked = 30

const testsSection = "## In tests only"

// Requirement is one line of a go.mod file.
type Requirement struct {
	Path     string
	Version  string
	Indirect bool
}

// Modules reads the requirements and tools of the go.mod at path.
func Modules(root, path string) (reqs []Requirement, tools []string, err error) {
	cmd := exec.Command("go", "mod", "edit", "-json", path)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	var mod struct {
		Require []Requirement
		Tool    []struct{ Path string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	for _, t := range mod.Tool {
		tools = append(tools, t.Path)
	}
	return mod.Require, tools, nil
}

// npmPackages reads the direct requirements of a package.json.
func npmPackages(raw []byte) (reqs []Requirement, err error) {
	var p struct{ Dependencies, DevDependencies map[string]string }
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("read package.json: %w", err)
	}
	maps.Copy(p.Dependencies, p.DevDependencies)
	for _, path := range slices.Sorted(maps.Keys(p.Dependencies)) {
		reqs = append(reqs, Requirement{Path: path, Version: p.Dependencies[path]})
	}
	return reqs, nil
}

var depRow = regexp.MustCompile("(?m)^\\|\\s*`([^`]+)`\\s*\\|(.*)\\|\\s*$")

// Dependencies checks the direct requirements against their page.
func Dependencies(reqs []Requirement, tools []string, page string) []Finding {
	const mod, doc = "go.mod", "docs/dependencies.md"
	var direct, rows []string
	for _, r := range reqs {
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	var out []Finding
	linked, _, _ := strings.Cut(page, testsSection)
	n := 0
	for _, row := range depRow.FindAllStringSubmatch(linked, -1) {
		if slices.Contains(direct, row[1]) {
			n++
		}
	}
	if n > maxLinked {
		out = append(out, Finding{File: mod, Text: fmt.Sprintf("%d direct requirements that commands link, the most is %d: "+
			"drop one, or write the few lines that it would save", n, maxLinked)})
	}
	for _, row := range depRow.FindAllStringSubmatch(page, -1) {
		rows = append(rows, row[1])
		cells := strings.Split(row[2], "|")
		for _, cell := range cells {
			if strings.TrimSpace(cell) == "" {
				out = append(out, Finding{File: doc, Text: "the row of " + row[1] + " has an empty cell: say what for, why this one, licence and cost"})
			}
		}
		isTool := slices.ContainsFunc(tools, func(t string) bool { return t == row[1] || strings.HasPrefix(t, row[1]+"/") })
		if !slices.Contains(direct, row[1]) && !isTool {
			out = append(out, Finding{File: doc, Text: "has a row for " + row[1] + ", which is no direct requirement: delete the row"})
		}
	}
	for _, path := range direct {
		if !slices.Contains(rows, path) {
			out = append(out, Finding{File: mod, Text: path + " has no row in " + doc + ": write what for, why this one, licence and cost"})
		}
	}
	return out
}

// Libc checks that the module's libc is the very version that its SQLite was
// made with: the two are one translation of C and fail together in silence.
func Libc(root string, reqs []Requirement) ([]Finding, error) {
	const driver, libc = "modernc.org/sqlite", "modernc.org/libc"
	version := func(reqs []Requirement, path string) string {
		for _, r := range reqs {
			if r.Path == path {
				return r.Version
			}
		}
		return ""
	}
	ours := version(reqs, libc)
	cmd := exec.Command("go", "list", "-m", "-f", "{{.GoMod}}", driver)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("find the go.mod of %s: %w", driver, err)
	}
	gomod := strings.TrimSpace(string(out))
	if _, err := os.Stat(gomod); err != nil {
		return nil, fmt.Errorf("find the go.mod of %s: %w", driver, err)
	}
	theirs, _, err := Modules(filepath.Dir(gomod), gomod)
	if err != nil {
		return nil, err
	}
	if want := version(theirs, libc); ours == "" || ours != want {
		return []Finding{{File: "go.mod", Text: fmt.Sprintf("requires %s %s, but %s %s was made with %s: require exactly that one",
			libc, ours, driver, version(reqs, driver), want)}}, nil
	}
	return nil, nil
}
