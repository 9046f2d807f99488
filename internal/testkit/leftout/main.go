// Command leftout says which commands the tests need beside Go and git, and judges a run of the tests without
// them: everything that runs passes, and every test that needs something is left out.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/testkit"
)

const usage = `usage: leftout commands             prints each command with the packages of Debian that have it
       leftout run --asked FILE     runs the tests that asked for a component in a run with ` + testkit.AskedFile + `=FILE
       leftout run [ARG...]         runs go test with these arguments, or of all packages`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "leftout:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "commands":
		for _, c := range testkit.Components() {
			for _, command := range c.Commands {
				name, packages := testkit.Command(command)
				fmt.Fprintln(out, name, c.Hidden(), strings.Join(packages, " "))
			}
		}
		return nil
	case "run":
		if len(args) == 3 && args[1] == "--asked" {
			return without(args[2], nil, out)
		}
		return without("", args[1:], out)
	}
	return errors.New(usage)
}

// without runs the tests where the components are hidden, and judges what came of it.
func without(file string, what []string, out io.Writer) error {
	for _, c := range testkit.Components() {
		for _, command := range c.Commands {
			name, _ := testkit.Command(command)
			if path, err := exec.LookPath(name); err == nil && c.Hidden() {
				return fmt.Errorf("%s is there: this is to be run where all components are hidden, by without_components of .ci/lib", path)
			}
		}
	}
	var before []testkit.Asked
	if len(what) == 0 {
		what = []string{"./..."}
	}
	if file != "" {
		var err error
		if before, err = read(file); err != nil {
			return err
		}
		if before = slices.DeleteFunc(before, func(a testkit.Asked) bool { return !hidden()[a.Component] }); len(before) == 0 {
			return fmt.Errorf("%s names no test that asked for a component: nothing was recorded", file)
		}
		what = selection(before)
	}
	dir, err := os.MkdirTemp("", "leftout")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	log := filepath.Join(dir, "asked")
	results, err := test(append([]string{"test", "-json", "-count=1"}, what...), log)
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

func read(file string) ([]testkit.Asked, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return testkit.ParseAsked(string(text))
}

// hidden are the names of the components that are hidden.
func hidden() map[string]bool {
	out := map[string]bool{}
	for _, c := range testkit.Components() {
		out[c.Name] = c.Hidden()
	}
	return out
}

// selection has go test run the tests that asked for something.
func selection(asked []testkit.Asked) []string {
	tests, packages := map[string]bool{}, map[string]bool{}
	for _, a := range asked {
		tests[top(a.Test)], packages["./"+a.Package] = true, true
	}
	return append([]string{"-run", "^(" + strings.Join(slices.Sorted(maps.Keys(tests)), "|") + ")$"}, slices.Sorted(maps.Keys(packages))...)
}

func top(test string) string {
	test, _, _ = strings.Cut(test, "/")
	return test
}

// place is a test, or a package where Test is empty.
type place struct{ Package, Test string }

func (p place) String() string { return strings.TrimSuffix(p.Package+" "+p.Test, " ") }

// result is how a test ended: pass, skip or fail, with what it printed.
type result struct{ ended, printed string }

const module = "github.com/steadyfleet/steady/"

// test runs go test. That it ends with an error is in the results.
func test(args []string, log string) (map[place]result, error) {
	cmd := exec.Command("go", args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CI=") }), testkit.AskedFile+"="+log)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	results, err := parse(events)
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

// parse reads the events of go test -json.
func parse(events io.Reader) (map[place]result, error) {
	out, printed := map[place]result{}, map[place]*strings.Builder{}
	in := bufio.NewScanner(events)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e struct{ Action, Package, ImportPath, Test, Output string }
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
		}
	}
	return out, in.Err()
}

// judge says which tests were left out for want of what, and what is wrong: a test that fails, one that asked
// for a component in a run before and passes or is not run, and a component that is found.
func judge(before, now []testkit.Asked, results map[place]result) (left, faults []string) {
	for at, r := range results {
		if r.ended == "fail" {
			faults = append(faults, fmt.Sprintf("%s fails without components:\n%s", at, r.printed))
		}
	}
	wanting := map[string][]string{}
	for _, a := range now {
		switch at := (place{a.Package, a.Test}); {
		case !hidden()[a.Component]:
		case a.Found:
			faults = append(faults, fmt.Sprintf("%s finds %s, which was to be hidden", at, a.Component))
		case results[at].ended != "skip":
			faults = append(faults, fmt.Sprintf("%s lacks %s and is not left out: %s", at, a.Component, cmp.Or(results[at].ended, "it did not end")))
		default:
			wanting[a.Component] = append(wanting[a.Component], at.String())
		}
	}
	for _, a := range before {
		if at := (place{a.Package, a.Test}); results[at].ended == "pass" {
			faults = append(faults, fmt.Sprintf("%s asked for %s where it is there, and passes without", at, a.Component))
		} else if _, ran := results[place{a.Package, top(a.Test)}]; !ran {
			faults = append(faults, fmt.Sprintf("%s asked for %s where it is there, and did not run without", at, a.Component))
		}
	}
	for _, component := range slices.Sorted(maps.Keys(wanting)) {
		tests := slices.Compact(slices.Sorted(slices.Values(wanting[component])))
		left = append(left, fmt.Sprintf("%d left out for want of %s:\n  %s", len(tests), component, strings.Join(tests, "\n  ")))
	}
	slices.Sort(faults)
	return left, slices.Compact(faults)
}
