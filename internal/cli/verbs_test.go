package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/testkit"
)

// walk visits every command that this package makes.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, sub := range cmd.Commands() {
		if n := sub.Name(); n != "help" && n != "completion" {
			walk(sub, visit)
		}
	}
}

func TestEveryVerbIsDocumented(t *testing.T) {
	seen := 0
	walk((&app{command.New(command.Process())}).root(), func(cmd *cobra.Command) {
		if !cmd.Runnable() {
			return // a help topic
		}
		seen++
		path := cmd.CommandPath()
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: its short help is %q; expected a phrase without a full stop", path, cmd.Short)
		}
		if !strings.Contains(cmd.Example, "steady ") {
			t.Errorf("%s has no example", path)
		}
		if cmd.Args == nil {
			t.Errorf("%s takes any arguments in silence", path)
		}
		for _, line := range strings.Split(cmd.Long, "\n") {
			if len(line) > 100 {
				t.Errorf("%s: a line of its help has %d columns: %q", path, len(line), line)
			}
		}
	})
	if seen < 60 {
		t.Errorf("only %d commands found", seen)
	}
}

// TestExamplesAreReal resolves the commands and flags of every example.
func TestExamplesAreReal(t *testing.T) {
	root := (&app{command.New(command.Process())}).root()
	walk(root, func(cmd *cobra.Command) {
		for _, line := range strings.Split(cmd.Example, "\n") {
			checkLine(t, cmd.CommandPath(), line)
		}
	})
}

// checkLine checks each steady command of a shell line as far as it goes without
// running it: that the command and its flags exist.
func checkLine(t *testing.T, where, line string) {
	t.Helper()
	for _, part := range strings.Split(line, "&&") {
		words := strings.Fields(strings.SplitN(part, "#", 2)[0])
		for len(words) > 0 && strings.Contains(words[0], "=") {
			words = words[1:]
		}
		if len(words) == 0 || words[0] != "steady" {
			continue
		}
		root := (&app{command.New(command.Process())}).root()
		cmd, rest, err := root.Find(words[1:])
		if err != nil || (cmd == root && len(words) > 1) {
			t.Errorf("%s: %q is no command: %v", where, part, err)
			continue
		}
		for _, w := range rest {
			if w == "--" {
				break // what follows is another command
			}
			name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
			switch {
			case strings.HasPrefix(w, "--"):
				if cmd.Flag(name) == nil {
					t.Errorf("%s: %q: %s has no flag %s", where, part, cmd.CommandPath(), w)
				}
			case strings.HasPrefix(w, "-") && len(w) > 1:
				for _, letter := range name {
					if cmd.Flags().ShorthandLookup(string(letter)) == nil {
						t.Errorf("%s: %q: %s has no flag -%c", where, part, cmd.CommandPath(), letter)
					}
				}
			}
		}
	}
}

// TestReadmeCommandsAreReal does the same for the commands of the README and of
// the operator's guides.
func TestReadmeCommandsAreReal(t *testing.T) {
	for page, least := range map[string]int{"README.md": 10, "docs/operating.md": 3, "docs/rollouts.md": 12} {
		raw := testkit.Value(os.ReadFile("../../" + page))(t)
		found, shell := 0, false
		for i, line := range strings.Split(string(raw), "\n") {
			if strings.HasPrefix(line, "```") {
				shell = line == "```sh"
				continue
			}
			if shell && strings.Contains(line, "steady ") {
				found++
				checkLine(t, fmt.Sprintf("%s:%d", page, i+1), line)
			}
		}
		if found < least {
			t.Errorf("only %d commands found in %s", found, page)
		}
	}
}

// TestPageCommandsAreReal does the same for what the web UI prints; what it fills in is
// no flag.
func TestPageCommandsAreReal(t *testing.T) {
	const sources = "../web/ui/src"
	found := 0
	testkit.Must(t, filepath.WalkDir(sources, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".tsx" {
			return err
		}
		for _, m := range regexp.MustCompile("[`\"](steady [^`\"]+)").FindAllStringSubmatch(string(testkit.Value(os.ReadFile(path))(t)), -1) {
			found++
			line := strings.NewReplacer("${kind}", "flow", "${verb}", "rm", `${is ? `, "edit").Replace(m[1]) // the page of each kind has the same
			checkLine(t, path, regexp.MustCompile(`\$\{[^}]*\}?|'.*`).ReplaceAllString(line, " X"))
		}
		return nil
	}))
	if found < 20 {
		t.Errorf("only %d commands found in %s", found, sources)
	}
}

// TestReadmeNeedsNineCommands counts what leads to the first application on two
// hosts, as the README numbers it.
func TestReadmeNeedsNineCommands(t *testing.T) {
	raw := testkit.Value(os.ReadFile("../../README.md"))(t)
	_, section, _ := strings.Cut(string(raw), "\n## The first application on two hosts\n")
	section, _, _ = strings.Cut(section, "steady release publish --watch")
	count, shell := 1, false // the last one is cut away
	for _, line := range strings.Split(section, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			shell = line == "```sh"
		case shell && strings.TrimSpace(line) != "":
			if number := fmt.Sprintf("# %d", count); !strings.Contains(line, number) {
				t.Errorf("%q is not marked %q", line, number)
			}
			count++
		}
	}
	if count != 9 {
		t.Errorf("the first application on two hosts takes %d commands, not 9", count)
	}
}
