package cli

import (
	"fmt"
	"os"
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
		if len(words) > 0 && words[0] == "steady" {
			if wrong := wrongCommand(words[1:]); wrong != "" {
				t.Errorf("%s: %q: %s", where, part, wrong)
			}
		}
	}
}

// wrongCommand reports what is wrong with the words behind steady, or is empty: no such command, a group of
// commands with a word that is none of them, or a flag that the command does not have.
func wrongCommand(words []string) string {
	root := (&app{command.New(command.Process())}).root()
	cmd, rest, err := root.Find(words)
	switch {
	case err != nil:
		return err.Error()
	case cmd == root && len(words) > 0 && !strings.HasPrefix(words[0], "-"):
		return "there is no command " + words[0]
	case command.IsGroup(cmd) && len(rest) > 0 && regexp.MustCompile("^[a-z][a-z-]+$").MatchString(rest[0]):
		return cmd.CommandPath() + " has no command " + rest[0]
	}
	cmd.InitDefaultHelpFlag()
	for _, w := range rest {
		if w == "--" {
			break // what follows is another command
		}
		name, _, _ := strings.Cut(strings.TrimLeft(w, "-"), "=")
		switch {
		case strings.HasPrefix(w, "--"):
			if cmd.Flag(name) == nil {
				return cmd.CommandPath() + " has no flag " + w
			}
		case strings.HasPrefix(w, "-") && len(w) > 1:
			for _, letter := range name {
				if cmd.Flags().ShorthandLookup(string(letter)) == nil {
					return fmt.Sprintf("%s has no flag -%c", cmd.CommandPath(), letter)
				}
			}
		}
	}
	return ""
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
