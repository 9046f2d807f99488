package testkit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var absent = Component{Name: "what no machine has", Probe: func() error { return errors.New("make one") }}

// late is a made-up test in each of the ways in which one can be wrong or right; this program runs one of them
// once more.
var late = map[string]struct {
	test  func(t *testing.T)
	ends  string // PASS, SKIP or FAIL, on a user's machine
	inCI  string
	words string
}{
	"first":               {func(t *testing.T) { Needs(t, absent); t.TempDir() }, "SKIP", "FAIL", "make one"},
	"after a folder":      {func(t *testing.T) { t.TempDir(); Needs(t, absent) }, "FAIL", "FAIL", "after it made something"},
	"after a program":     {func(t *testing.T) { Start(t, exec.Command("sh", "-c", "read line")); Needs(t, absent) }, "FAIL", "FAIL", "after it made something"},
	"what is there, late": {func(t *testing.T) { t.Setenv("X", "y"); Needs(t, Component{Name: "air"}) }, "FAIL", "FAIL", "after it made something"},
	"once more, late":     {func(t *testing.T) { Needs(t, Component{Name: "air"}); t.TempDir(); Needs(t, Component{Name: "air"}) }, "PASS", "PASS", ""},
	"in a subtest of one that said": {func(t *testing.T) {
		Needs(t, Component{Name: "air"})
		t.Run("sub", func(t *testing.T) { t.TempDir(); Needs(t, Component{Name: "air"}) })
	}, "PASS", "PASS", ""},
	"in a subtest, late": {func(t *testing.T) {
		t.Run("sub", func(t *testing.T) { t.TempDir(); Needs(t, absent) })
	}, "FAIL", "FAIL", "after it made something"},
	"in a subtest of one that made something": {func(t *testing.T) {
		t.TempDir()
		t.Run("sub", func(t *testing.T) { Needs(t, absent) })
	}, "PASS", "FAIL", "make one"},
	"a mode, late": {func(t *testing.T) { t.TempDir(); Only(t, true, "never") }, "FAIL", "FAIL", "after it made something"},
	"another mode": {func(t *testing.T) { Only(t, false, "give -seed") }, "SKIP", "SKIP", "give -seed"},
	"short, late":  {func(t *testing.T) { t.TempDir(); Long(t, "takes long") }, "FAIL", "FAIL", "after it made something"},
	"CI has it not": {func(t *testing.T) {
		Needs(t, Component{Name: "x", Commands: []string{"no-such-command:"}, NotInCI: "why"})
	}, "SKIP", "SKIP", "no-such-command not installed: put it on PATH"},
	"how to install": {func(t *testing.T) { Needs(t, Component{Name: "x", Commands: []string{"no-such:a", "nor-such"}}) }, "SKIP", "FAIL", "no-such, nor-such not installed: apt-get install -y --no-install-recommends a nor-such"},
}

const lateTest = "STEADY_TESTKIT_LATE"

// TestLate is one of late, in a program of its own.
func TestLate(t *testing.T) {
	Only(t, os.Getenv(lateTest) != "", "TestNeedsComesFirst runs it")
	t.Run("it", late[os.Getenv(lateTest)].test)
}

func TestNeedsComesFirst(t *testing.T) {
	for name, c := range late {
		t.Run(name, func(t *testing.T) {
			for ci, want := range map[string]string{"": c.ends, "true": c.inCI} {
				file := filepath.Join(t.TempDir(), "needs")
				cmd := exec.Command(Value(os.Executable())(t), "-test.run=^TestLate$", "-test.v", "-test.count=2")
				cmd.Env = append(os.Environ(), lateTest+"="+name, "CI="+ci, needsFile+"="+file)
				out, _ := cmd.CombinedOutput()
				if strings.Count(string(out), "--- "+want+": TestLate/it ") != 2 || !strings.Contains(string(out), c.words) && want != "PASS" {
					t.Errorf("with CI=%q, expected %s with %q:\n%s", ci, want, c.words, out)
				}
				text, _ := os.ReadFile(file) // a test that fails before it is heard has none
				said, err := parseNeeds(string(text))
				if err != nil || want == "SKIP" && c.words != "give -seed" && (len(said) != 1 || said[0].Package != "internal/testkit" || said[0].Test != "TestLate/it" || said[0].Found) {
					t.Errorf("recorded is %q, %v", text, err)
				}
			}
		})
	}
}
