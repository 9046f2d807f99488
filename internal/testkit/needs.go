package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// needsFile names the file to which Needs adds a line for each component that a test needs.
const needsFile = "STEADY_NEEDS"

// need is one line of that file.
type need struct {
	Package   string // its folder below the root of the tree, with slashes
	Test      string // with the names of its parents
	Component string
	Found     bool
}

// String is the line.
func (a need) String() string {
	return fmt.Sprintf("%s\t%s\t%s\t%t\n", a.Package, a.Test, a.Component, a.Found)
}

// said are the components that each running test has said to need. A subtest has those of its parents.
var said = struct {
	sync.Mutex
	of map[string]map[string]bool // by the names of tests
}{of: map[string]map[string]bool{}}

// Needs leaves the test out where a component is missing, and reports how to install it; with CI set the test
// fails instead. It comes first: a test that has made anything before, be it a folder, a server or an agent,
// fails, whether the component is there or not. Saying it again is no fault, so that what starts a
// component says it too.
func Needs(t testing.TB, components ...Component) {
	t.Helper()
	for _, c := range components {
		news := !known(t.Name(), c.Name)
		if news {
			before(t, "needs "+c.Name)
		}
		if c.Long && testing.Short() {
			t.Skip(c.Name + " takes its time: run the test without -short")
		}
		err := c.Missing()
		if news {
			record(t, need{Package: tested(), Test: t.Name(), Component: c.Name, Found: err == nil})
		}
		switch {
		case err == nil:
		case os.Getenv("CI") != "" && c.NotInCI == "":
			t.Fatalf("left out, which CI does not allow: %v", err)
		default:
			t.Skip(err)
		}
	}
}

// Long leaves a test out with -short. It comes first, as Needs does.
func Long(t testing.TB, why string) {
	t.Helper()
	before(t, "is left out with -short")
	if testing.Short() {
		t.Skip(why + ": run it without -short")
	}
}

// Only leaves a test out that a run of this kind does not have, as one that replays a schedule does not play
// others. It comes first, as Needs does.
func Only(t testing.TB, when bool, otherwise string) {
	t.Helper()
	before(t, "is for some runs only")
	if !when {
		t.Skip(otherwise)
	}
}

// Defect leaves out a test that met a known defect of the real program that it runs with. It alone may come
// at any time, since nobody knows of the defect before.
func Defect(t testing.TB, words string) {
	t.Helper()
	t.Skip("a defect of what the test runs with: " + words)
}

// Nightly reports whether this is the long run, in which tests go through all of
// what every run goes through a slice of.
func Nightly() bool { return os.Getenv("STEADY_NIGHTLY") != "" }

// before fails a test that has something to clean up already: left out in the middle, it would end with
// work under way.
func before(t testing.TB, what string) {
	t.Helper()
	switch t.(type) {
	case *testing.T, *testing.B, *testing.F:
	default:
		return // one that a program without a test has
	}
	// The package testing tells nobody. Where the field has another name, this panics in every test.
	if n := reflect.ValueOf(t).Elem().FieldByName("cleanups").Len(); n > 0 {
		t.Fatalf("the test says that it %s after it made something (%d things are to be cleaned up): it has to say so first, with testkit.Needs, Long or Only", what, n)
	}
}

// known reports whether a test or one of its parents has said that it needs a component.
func known(test, component string) bool {
	said.Lock()
	defer said.Unlock()
	for {
		if said.of[test][component] {
			return true
		}
		i := strings.LastIndexByte(test, '/')
		if i < 0 {
			return false
		}
		test = test[:i]
	}
}

// tested is the folder of the package whose tests run: go test starts them there.
var tested = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}
	for root := dir; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil || root == filepath.Dir(root) {
			rel, err := filepath.Rel(root, dir)
			if err != nil {
				return dir
			}
			return filepath.ToSlash(rel)
		}
	}
})

func init() { tested() } // before a test changes its folder

// record notes what a test needs, in this process and in the file.
func record(t testing.TB, a need) {
	t.Helper()
	said.Lock()
	if said.of[a.Test] == nil {
		said.of[a.Test] = map[string]bool{}
	}
	said.of[a.Test][a.Component] = true
	said.Unlock()
	name := os.Getenv(needsFile)
	if name == "" {
		return
	}
	f := Value(os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644))(t)
	_, err := f.WriteString(a.String()) // in one piece, whoever else writes
	Must(t, err)
	Must(t, f.Close())
}
