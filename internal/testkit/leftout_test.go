package testkit

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMain has the program of these tests be two commands of .ci/lib as well: one reports which commands tests need
// beside Go, and whether a run without components lacks it; the other judges a run of the tests without them.
// Everything that runs passes, and every test that needs something is left out.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		if err := command(os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func command(args []string, out io.Writer) error {
	switch args[0] {
	case "commands":
		for _, c := range Components() {
			for _, command := range c.Commands {
				name, packages := Command(command)
				fmt.Fprintln(out, name, c.Hidden(), strings.Join(packages, " "))
			}
		}
		return nil
	case "run":
		if len(args) == 3 && args[1] == "--needs" {
			return without(args[2], nil, out)
		}
		return without("", args[1:], out)
	}
	return errors.New("expected commands, run --needs FILE, or run with arguments of go test")
}

// without runs the tests where the components are hidden, and judges what came of it.
func without(file string, what []string, out io.Writer) error {
	for _, c := range Components() {
		for _, command := range c.Commands {
			name, _ := Command(command)
			if path, err := exec.LookPath(name); err == nil && c.Hidden() {
				return fmt.Errorf("%s is there: this is to be run where all components are hidden, by without_components of .ci/lib", path)
			}
		}
	}
	var before []need
	if !slices.ContainsFunc(what, func(arg string) bool { return strings.HasPrefix(arg, ".") }) {
		what = append(what, "./...")
	}
	if file != "" {
		var err error
		if before, err = read(file); err != nil {
			return err
		}
		if before = slices.DeleteFunc(before, func(a need) bool { return !hidden()[a.Component] }); len(before) == 0 {
			return fmt.Errorf("%s names no test that needs a component: nothing was recorded", file)
		}
		what = selection(before)
	}
	dir, err := os.MkdirTemp("", "steady-leftout")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log := filepath.Join(dir, "needs")
	results, err := test(append([]string{"test", "-json", "-count=1"}, what...), log, out)
	if err != nil {
		return err
	}
	now, err := read(log)
	if err != nil {
		return err
	}
	left, faults := judge(before, now, results)
	for _, line := range left {
		fmt.Fprintln(out, line)
	}
	if len(faults) > 0 {
		return fmt.Errorf("without components, %d things are wrong:\n%s", len(faults), strings.Join(faults, "\n"))
	}
	return nil
}

func read(file string) ([]need, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no test needed anything
		return nil, err
	}
	return parseNeeds(string(text))
}

// hidden are the names of the components that are hidden.
func hidden() map[string]bool {
	out := map[string]bool{}
	for _, c := range Components() {
		out[c.Name] = c.Hidden()
	}
	return out
}

// selection has go test run the tests that need something, the packages in the order in which they began.
func selection(needs []need) []string {
	tests, packages := map[string]bool{}, []string(nil)
	for _, a := range needs {
		tests[top(a.Test)] = true
		if pkg := "./" + a.Package; !slices.Contains(packages, pkg) {
			packages = append(packages, pkg)
		}
	}
	return append([]string{"-run", "^(" + strings.Join(slices.Sorted(maps.Keys(tests)), "|") + ")$"}, packages...)
}

func top(test string) string {
	test, _, _ = strings.Cut(test, "/")
	return test
}

// parseNeeds reads such a file.
func parseNeeds(text string) (out []need, err error) {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 4 {
			return nil, fmt.Errorf("%q is no line of %s", line, needsFile)
		}
		out = append(out, need{Package: f[0], Test: f[1], Component: f[2], Found: f[3] == "true"})
	}
	return out, nil
}

// place is a test, or a package where Test is empty.
type place struct{ Package, Test string }

func (p place) String() string { return strings.TrimSuffix(p.Package+" "+p.Test, " ") }

// result is how a test ended: pass, skip or fail, with what it printed.
type result struct{ ended, printed string }

const module = "github.com/steadyfleet/steady/"

// test runs go test. That it ends with an error is in the results.
func test(args []string, log string, progress io.Writer) (map[place]result, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CI=") }), needsFile+"="+log)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results, err := parse(events, progress)
	return results, cmp.Or(err, ended(cmd.Wait(), results))
}

// ended is an error of go itself, and not of a test.
func ended(err error, results map[place]result) error {
	for _, r := range results {
		if r.ended == "fail" {
			return nil
		}
	}
	return err
}

// parse reads the events of go test -json, and prints each package when it has ended.
func parse(events io.Reader, progress io.Writer) (map[place]result, error) {
	out, printed := map[place]result{}, map[place]*strings.Builder{}
	in := bufio.NewScanner(events)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e struct {
			Action, Package, ImportPath, Test, Output string
			Elapsed                                   float64
		}
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("go test printed %q: %w", in.Text(), err)
		}
		at := place{strings.TrimPrefix(cmp.Or(e.Package, e.ImportPath), module), e.Test}
		if printed[at] == nil {
			printed[at] = &strings.Builder{}
		}
		switch e.Action {
		case "output", "build-output":
			printed[at].WriteString(e.Output)
		case "build-fail":
			out[at] = result{"fail", printed[at].String()}
		case "pass", "skip", "fail":
			out[at] = result{e.Action, printed[at].String()}
			if e.Test == "" && e.Action != "skip" { // one without tests
				fmt.Fprintf(progress, "%s %s %.0fs\n", e.Action, at, e.Elapsed)
			}
		}
	}
	return out, in.Err()
}

// judge reports which tests were left out for want of what, and what is wrong: a test that fails, one that needed
// a component in a run before and passes or is not run, and a component that is found.
func judge(before, now []need, results map[place]result) (left, faults []string) {
	for at, r := range results {
		if r.ended == "fail" {
			faults = append(faults, fmt.Sprintf("%s fails without components:\n%s", at, r.printed))
		}
	}
	wanting := map[string]map[place]int{} // how many tests, by the names of the outermost
	for _, a := range now {
		switch at := (place{a.Package, a.Test}); {
		case !hidden()[a.Component]:
		case a.Found:
			faults = append(faults, fmt.Sprintf("%s finds %s, which was to be hidden", at, a.Component))
		case results[at].ended != "skip":
			faults = append(faults, fmt.Sprintf("%s lacks %s and is not left out: %s", at, a.Component, cmp.Or(results[at].ended, "it did not end")))
		default:
			if wanting[a.Component] == nil {
				wanting[a.Component] = map[place]int{}
			}
			wanting[a.Component][place{a.Package, top(a.Test)}]++
		}
	}
	for _, a := range before {
		if at := (place{a.Package, a.Test}); results[at].ended == "pass" {
			faults = append(faults, fmt.Sprintf("%s needs %s where it is there, and passes without", at, a.Component))
		} else if _, ran := results[place{a.Package, top(a.Test)}]; !ran {
			faults = append(faults, fmt.Sprintf("%s needs %s where it is there, and did not run without", at, a.Component))
		}
	}
	for _, component := range slices.Sorted(maps.Keys(wanting)) {
		left = append(left, listed(component, wanting[component]))
	}
	slices.Sort(faults)
	return left, slices.Compact(faults)
}

// listed are the tests that lack a component, a line for each package.
func listed(component string, tests map[place]int) string {
	n, lines := 0, map[string][]string{}
	for at, of := range tests {
		n += of
		lines[at.Package] = append(lines[at.Package], at.Test)
	}
	out := fmt.Sprintf("%d left out for want of %s:", n, component)
	for _, pkg := range slices.Sorted(maps.Keys(lines)) {
		out += "\n  " + pkg + ": " + strings.Join(slices.Sorted(slices.Values(lines[pkg])), " ")
	}
	return out
}
