package agentcmd

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
)

var rewrite = flag.Bool("rewrite", false, "write the unit in examples again")

const exampleUnit = "../../../examples/systemd/steady-agent.service"

// TestExampleUnitIsTheOneThatIsInstalled holds the example equal to what an
// installation of host web-1 writes.
func TestExampleUnitIsTheOneThatIsInstalled(t *testing.T) {
	is := testkit.Value(layout{Root: "/", Program: "steady-agent", Host: "web-1", Fleet: "acme"}.unit())(t)
	if *rewrite {
		testkit.Must(t, os.WriteFile(exampleUnit, []byte(is), 0o644))
	}
	was := testkit.Value(os.ReadFile(exampleUnit))(t)
	if string(was) != is {
		t.Errorf("%s is not what steady agent install writes; run this test with -rewrite", exampleUnit)
	}
}

// TestUnitIsTakenBySystemd has systemd itself read units, with flags that need quotes.
func TestUnitIsTakenBySystemd(t *testing.T) {
	testkit.Needs(t, testkit.Systemd)
	dir := t.TempDir()
	l := layout{Root: dir, Program: "steady", Host: "web-1", Fleet: "acme", Args: []string{"--http", ":80", "--reboot-command", `/bin/sh -c "exit $CODE" 100%`}}
	for _, f := range []string{l.Binary(), filepath.Join(dir, "sbin/x")} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(f), 0o755))
		testkit.Must(t, os.WriteFile(f, []byte("#!/bin/true\n"), 0o755))
	}
	text := testkit.Value(l.unit())(t)
	path := filepath.Join(dir, unitName)
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), unitName) {
		t.Errorf("systemd does not take the unit: %v\n%s\n%s", err, out, text)
	}
	if got := hostOf(text); got != "web-1 of fleet acme" {
		t.Errorf("the unit is for %q", got)
	}
}

// TestExecStartKeepsEveryWord reads a quoted line as systemd.service(5) describes it.
func TestExecStartKeepsEveryWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := layout{Root: "/", Program: "steady-agent", Args: rapid.SliceOfN(rapid.StringMatching(`[a-z$%"'\\ :;-]{0,9}`), 0, 4).Draw(t, "args")}
		var words []string
		word, quoted, within := "", false, false
		line := l.ExecStart() + " "
		for i := 0; i < len(line); i++ {
			switch c := line[i]; {
			case c == '"':
				quoted, within = !quoted, true
			case c == '\\':
				i++
				word, within = word+string(line[i]), true
			case c == '$' || c == '%':
				i++
				if line[i] != c {
					t.Fatalf("%q has a single %c", line, c)
				}
				word, within = word+string(c), true
			case c == ' ' && !quoted:
				if within {
					words = append(words, word)
				}
				word, within = "", false
			default:
				word, within = word+string(c), true
			}
		}
		if !slices.Equal(words, l.Command()) {
			t.Fatalf("%q reads as %q, expected %q", line, words, l.Command())
		}
	})
}
