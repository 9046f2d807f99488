package agentcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// installer puts an agent onto a host, or takes it away. Each step says what it
// did; one that finds its work done says so and changes nothing.
type installer struct {
	layout
	use     string // how the command is called, for what to run next
	given   bool   // flags of the agent were given, if only none
	print   bool   // say what would be done
	out     io.Writer
	json    bool // print the result as data, at the end
	ground  ground
	expires clock.Instant // of the token
	result  outcome
	undo    []func(context.Context) error // what was done, the last one last
}

type step struct {
	What   string `json:"what"`
	On     string `json:"on"`
	Result string `json:"result,omitempty"`
}

// outcome is what install and uninstall print with -o json.
type outcome struct {
	Host   string   `json:"host,omitempty"`
	Fleet  string   `json:"fleet,omitempty"`
	DryRun bool     `json:"dryRun,omitempty"`
	Flags  flags    `json:"flags"` // of the agent
	Steps  []step   `json:"steps"`
	Notes  []string `json:"notes"` // what there is to know and to do next
}

// flags are what becomes of those that the agent was started with.
type flags struct {
	Kept    []string `json:"kept,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
}

// verb is how the agent's command is called.
func (i *installer) verb() string {
	if i.Program == "steady" {
		return "steady " + i.use
	}
	return i.Program
}

func (i *installer) services() *services { return i.ground.services }

func (i *installer) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&i.Root, "root", "/", "folder that is the host's /")
	cmd.Flags().BoolVar(&i.print, "print", false, "show what would be done, and change nothing")
	cmd.Flags().VarP((*asJSON)(&i.json), "output", "o", "output format: table or json")
	i.Program = "steady"
	if i.use == serviceName {
		i.Program = i.use
	}
}

// asJSON is the value of -o, of which the agent alone knows two formats.
type asJSON bool

func (f *asJSON) String() string {
	if *f {
		return "json"
	}
	return "table"
}

// Set implements pflag.Value.
func (f *asJSON) Set(s string) error {
	if s != "table" && s != "json" {
		return errors.New("expected table or json")
	}
	*f = s == "json"
	return nil
}

// Type implements pflag.Value.
func (*asJSON) Type() string { return "string" }

// did says that a step was taken, or would be.
func (i *installer) did(what, on, format string, args ...any) {
	result := fmt.Sprintf(format, args...)
	i.result.Steps = append(i.result.Steps, step{what, on, result})
	if result != "" {
		on += ": " + result
	}
	i.printf("  %-9s %s", what, on)
}

func (i *installer) note(format string, args ...any) {
	i.result.Notes = append(i.result.Notes, fmt.Sprintf(format, args...))
	i.printf(format, args...)
}

func (i *installer) printf(format string, args ...any) {
	if !i.json {
		fmt.Fprintf(i.out, format+"\n", args...)
	}
}

// end prints the outcome as data where that was asked for.
func (i *installer) end(err error) error {
	if err != nil || !i.json {
		return err
	}
	i.result.DryRun = i.print
	i.result.Host, i.result.Fleet = i.Host, i.Fleet
	if host, fleet, ok := strings.Cut(i.Host, " of fleet "); ok { // as the service names it
		i.result.Host, i.result.Fleet = host, fleet
	}
	e := json.NewEncoder(i.out)
	e.SetIndent("", "  ")
	return e.Encode(i.result)
}

// prepare resolves the root folder, looks at the machine, and refuses whoever may not change it.
func (i *installer) prepare() error {
	root, err := filepath.Abs(i.Root)
	if err != nil {
		return exit.Badf("--root: %w", err)
	}
	i.Root = root
	i.ground = survey(i.layout)
	if i.Whole() && !i.print && os.Geteuid() != 0 {
		return exit.With(exit.Refused, fmt.Errorf("the agent is a service of the whole machine: run this as root, with sudo; or give --root DIR, or --print to see what would be done"))
	}
	return nil
}

// folder makes a folder with those above it, and returns what removes those that it made and that are
// still empty.
func (i *installer) folder(path string, mode fs.FileMode) (func(context.Context) error, error) {
	var missing []string
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		missing = append(missing, at)
	}
	return func(context.Context) error {
		for _, at := range missing {
			if entries, err := os.ReadDir(at); err != nil || len(entries) > 0 {
				return nil
			}
			if err := os.Remove(at); err != nil {
				return err
			}
		}
		return nil
	}, os.MkdirAll(path, mode)
}

// takeBack undoes what was done, the last first, so that an installation that failed leaves nothing.
func (i *installer) takeBack(ctx context.Context, why error) error {
	if len(i.undo) > 0 {
		i.note("What was written is removed again, and what was there before is back.")
	}
	for _, f := range slices.Backward(i.undo) {
		why = errors.Join(why, f(ctx))
	}
	i.undo = nil
	return why
}

// run runs commands that manage services.
func (i *installer) run(ctx context.Context, commands ...[]string) error {
	for _, c := range commands {
		line := strings.Join(c, " ")
		if i.print {
			i.did("service", "would run", "%s", line)
			continue
		}
		out, err := exec.CommandContext(ctx, c[0], c[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s; see %s", line, err, bytes.TrimSpace(out), i.services().Log)
		}
		i.did("service", line, "")
	}
	return nil
}

func (i *installer) remove(path string) error {
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		i.did("absent", path, "")
		return nil
	case err != nil:
		return err
	case i.print:
		i.did("removed", path, "would be")
		return nil
	}
	i.did("removed", path, "")
	return os.RemoveAll(path)
}
