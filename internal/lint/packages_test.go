package lint

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// Limits of the set of packages, of all modules together.
const (
	maxPackages     = 127 // of which drivers of nodes are one for each device, and examples one for each program
	minPackageLines = 200
)

// ownReason is the form in which the comment of a small package says why it is one.
var ownReason = regexp.MustCompile(`\ba package\s+of\s+its\s+own\s+because\s`)

// folder is what the rules ask of one folder with Go.
type folder struct {
	name  string
	doc   string
	lines int // of files that declare something, without tests
}

// folders reads Go files, given by path below the root, into their folders.
func folders(files map[string][]byte) (map[string]folder, error) {
	out := map[string]folder{}
	for file, src := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		in := out[path.Dir(file)]
		in.name = strings.TrimSuffix(f.Name.Name, "_test")
		if !strings.HasSuffix(file, "_test.go") {
			in.doc += strings.Join(strings.Fields(f.Doc.Text()), " ")
			if len(f.Decls) > 0 {
				in.lines += bytes.Count(src, []byte("\n"))
			}
		}
		out[path.Dir(file)] = in
	}
	return out, nil
}

// PackageSet checks all packages against each other: how many there are, that no two
// have one name, and that a small one says why it is apart. A program needs no reason,
// nor does a package that holds tests alone.
func PackageSet(in map[string]folder) []Finding {
	var out []Finding
	if len(in) > maxPackages {
		out = append(out, Finding{File: ".", Text: fmt.Sprintf("%d folders with Go, the most is %d: join one with its only caller", len(in), maxPackages)})
	}
	first := map[string]string{}
	for _, dir := range slices.Sorted(maps.Keys(in)) {
		f := in[dir]
		if f.name == "main" {
			continue
		}
		if other, twice := first[f.name]; twice {
			out = append(out, Finding{File: dir, Text: fmt.Sprintf("%s has the name %s as well: call one of them after what sets it apart", other, f.name)})
		}
		first[f.name] = dir
		if f.lines > 0 && f.lines < minPackageLines && !ownReason.MatchString(f.doc) {
			out = append(out, Finding{File: dir, Text: fmt.Sprintf("has %d lines: join it with its caller, or say in its comment that it is a package of its own because ...", f.lines)})
		}
	}
	return out
}

func TestPackageSet(t *testing.T) {
	tr, files := load(t), map[string][]byte{}
	for _, name := range tr.files {
		if strings.HasSuffix(name, ".go") && !strings.Contains("/"+name, "/testdata/") {
			files[name] = tr.read(t, name)
		}
	}
	report(t, PackageSet(testkit.Value(folders(files))(t)))
}

func TestPackageSetRule(t *testing.T) {
	check := func(files map[string]string, want ...string) {
		t.Helper()
		src := map[string][]byte{}
		for name, text := range files {
			src[name] = []byte(text)
		}
		one(t, PackageSet(testkit.Value(folders(src))(t)), want...)
	}
	large := "package x\n" + strings.Repeat("var _ = 1\n", minPackageLines)
	small := "package y\n\nvar _ = 1\n"
	check(map[string]string{"a/x/x.go": large, "a/x/x_test.go": "package x_test\n"})
	check(map[string]string{"a/x/x.go": large, "b/x/x.go": large}, "a/x has the name x as well")
	check(map[string]string{"a/x/x.go": large, "b/x/x_test.go": "package x_test\n"}, "a/x has the name x as well")
	check(map[string]string{"a/main.go": "package main\n\nfunc main() {}\n", "b/main.go": "package main\n\nfunc main() {}\n"})
	check(map[string]string{"y/y.go": small}, "y: has 3 lines")
	check(map[string]string{"y/y.go": "// Package y is. It is a package of\n// its own because others share it.\n" + small})
	check(map[string]string{"y/doc.go": "// Package y is tested.\npackage y\n", "y/y_test.go": small})
	many := map[string]string{}
	for i := range maxPackages + 1 {
		many[fmt.Sprintf("p%d/p.go", i)] = fmt.Sprintf("package p%d\n", i)
	}
	check(many, fmt.Sprintf("%d folders with Go", maxPackages+1))
}
