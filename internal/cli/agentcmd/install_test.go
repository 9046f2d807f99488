package agentcmd

import (
	"flag"
	"fmt"
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

const (
	exampleUnit   = "../../../examples/systemd/steady-agent.service"
	exampleModule = "../../../examples/nix/module.nix"
)

// TestExamplesAreWhatIsInstalled holds the examples equal to what an installation of host web-1 writes, and
// to the module that it prints.
func TestExamplesAreWhatIsInstalled(t *testing.T) {
	is := testkit.Value(systemd.declare(layout{Root: "/", Program: "steady-agent", Host: "web-1", Fleet: "acme"}))(t)
	for file, is := range map[string]string{exampleUnit: is, exampleModule: nixModule} {
		if *rewrite {
			testkit.Must(t, os.WriteFile(file, []byte(is), 0o644))
		}
		if was := testkit.Value(os.ReadFile(file))(t); string(was) != is {
			t.Errorf("%s is not what steady agent install writes; run this test with -rewrite", file)
		}
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
	text := testkit.Value(systemd.declare(l))(t)
	path := filepath.Join(dir, unitName)
	// It looks whether the program is there, as this process reaches it.
	testkit.Must(t, os.WriteFile(path, []byte(strings.Replace(text, l.binary(), l.Binary(), 1)), 0o644))
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), unitName) {
		t.Errorf("systemd does not take the unit: %v\n%s\n%s", err, out, text)
	}
	if got := hostOf(text); got != "web-1 of fleet acme" {
		t.Errorf("the unit is for %q", got)
	}
}

// TestDeclaredCommandsAreReadBack is what keeping flags rests on.
func TestDeclaredCommandsAreReadBack(t *testing.T) {
	for _, s := range []*services{&systemd, &openrc} {
		t.Run(s.Name, rapid.MakeCheck(func(t *rapid.T) {
			dir := testkit.Value(os.MkdirTemp("", "declared"))(t)
			defer os.RemoveAll(dir)
			l := layout{Root: dir, Program: rapid.SampledFrom([]string{"steady", "steady-agent"}).Draw(t, "program"), Host: "web-1", Fleet: "acme",
				Args: rapid.SliceOfN(rapid.StringMatching(`[a-z$%"'\\ ;:#~&é-]{0,9}`), 0, 4).Draw(t, "args")}
			if s == &openrc {
				for i := range l.Args { // as two blanks in a row are refused
					l.Args[i] = strings.Join(strings.Fields(l.Args[i]), " ")
				}
			}
			text := testkit.Value(s.declare(l))(t)
			testkit.Must(t, os.MkdirAll(filepath.Dir(l.at(s.Declared)), 0o755))
			testkit.Must(t, os.WriteFile(l.at(s.Declared), []byte(text), 0o644))
			d := testkit.Value(s.before(l))(t)
			want := l.Command()[1:]
			if l.Program == "steady" {
				want = want[1:]
			}
			if d.Program != l.binary() || !slices.Equal(d.Args, want) || d.Host != "web-1 of fleet acme" {
				t.Fatalf("%s\nreads as %+v, expected %q", text, d, want)
			}
			if lost := s.lost(text, text); len(lost) > 0 {
				t.Fatalf("a text lacks %q of itself", lost)
			}
		}))
	}
}

// TestScriptStartsTheCommand has a shell evaluate the script of OpenRC as OpenRC does: command_args are cut at
// blanks, and then read as a line.
func TestScriptStartsTheCommand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := rapid.SliceOfN(rapid.StringMatching(`[a-z$%"'\\;:#~&=é-]{0,6}( [a-z$"'])?`), 1, 4).Draw(t, "args")
		l := layout{Root: "/", Program: "steady-agent", Host: "web-1", Fleet: "acme", Args: args}
		lines, err := shellCommand(l.Command())
		if err != nil {
			t.Fatal(err)
		}
		out := testkit.Value(exec.Command("sh", "-c", lines+`
eval printf "'%s\n'" $command $command_args`).Output())(t)
		if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); !slices.Equal(got, l.Command()) {
			t.Fatalf("%s\nstarts %q, expected %q", lines, got, l.Command())
		}
	})
}

// TestCommandsOfPeopleAreRead has lines that no installation wrote.
func TestCommandsOfPeopleAreRead(t *testing.T) {
	for _, c := range []struct {
		lines, want string
		read        func([]string) ([]string, error)
	}{
		{"ExecStart=/usr/local/bin/steady-agent --http :80 \\\n  --https :443", "/usr/local/bin/steady-agent|--http|:80|--https|:443", readExecStart},
		{"ExecStart=\nExecStart=-/bin/a 'b c' \\x41\\s", "/bin/a|b c|A ", readExecStart},
		{"ExecStart=/bin/a $OPTIONS", "a variable or specifier is expanded there", readExecStart},
		{"ExecStart=/bin/a %i", "a variable or specifier is expanded there", readExecStart},
		{"ExecStart=/bin/a \"b", "is not closed", readExecStart},
		{"ExecStart=/bin/a\nExecStart=/bin/b", "several lines begin with ExecStart=", readExecStart},
		{"command=\"/bin/a\"\ncommand_args=\"--http :80 --engine 'none'\"", "/bin/a|--http|:80|--engine|none", readShellCommand},
		{"command=/bin/a\ncommand_args=\"--http $ADDRESS\"", "a variable or specifier is expanded there", readShellCommand},
		{"command=/bin/a\ncommand_args=$(cat flags)", "a variable or specifier is expanded there", readShellCommand},
		{"command=/bin/a", "/bin/a", readShellCommand},
	} {
		got, err := c.read(joined(c.lines))
		if err != nil && strings.Contains(err.Error(), c.want) {
			continue
		}
		if err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("%s: %q, %v; expected %s", c.lines, got, err, c.want)
		}
	}
}

// TestBothServicesAreOne: the script for OpenRC has the settings of the unit.
func TestBothServicesAreOne(t *testing.T) {
	l := layout{Root: "/", Program: "steady-agent", Host: "web-1", Fleet: "acme"}
	unit := joined(testkit.Value(systemd.declare(l))(t))
	script := joined(testkit.Value(openrc.declare(l))(t))
	for key, line := range map[string]string{
		"UMask=": "umask=%s", "RestartSec=": "respawn_delay=%s", "TimeoutStopSec=": `retry="SIGTERM/%s/SIGKILL/5"`, "OOMScoreAdjust=": "export SSD_OOM_SCORE_ADJ=%s",
		"StateDirectoryMode=": "checkpath --directory --mode %s /var/lib/steady", "StartLimitIntervalSec=": "respawn_max=%s",
	} {
		value := testkit.Value(value(unit, key))(t)
		if want := fmt.Sprintf(line, value); value == "" || !slices.Contains(script, want) {
			t.Errorf("the unit has %s%s, and the script has no line %s", key, value, want)
		}
	}
}
