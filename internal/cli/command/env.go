// Package command holds what all commands share: their streams, how they print
// data, how they name the server, and how commands are grouped.
package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// Streams is what a command touches of its process.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	// Now is wall time; nil is that of this machine.
	Now func() time.Time
}

// Process returns the streams of this process.
func Process() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
}

// Env is one run of the command line.
type Env struct {
	Streams
	format term.Format
	remote remoteFlags
}

// New returns the environment of a run.
func New(s Streams) *Env {
	if s.Now == nil {
		s.Now = time.Now
	}
	return &Env{Streams: s}
}

// The groups of commands in the help.
const (
	GroupDeclare = "declare"
	GroupRun     = "run"
	GroupWatch   = "watch"
	GroupMore    = "more"
)

// Wall returns wall time.
func (e *Env) Wall() clock.Instant { return clock.FromTime(e.Now()) }

// PrintsData adds -o to a command that prints data.
func (e *Env) PrintsData(cmd *cobra.Command) *cobra.Command {
	e.format = term.Table
	cmd.Flags().VarP(&e.format, "output", "o", "output format: table, json or yaml")
	Complete(cmd, "output", string(term.Table), string(term.JSON), string(term.YAML))
	return cmd
}

// PrintsLines gives a command that prints things as they happen the choice
// between words for people and one JSON object per line: -o json, or --json.
func (e *Env) PrintsLines(cmd *cobra.Command) (asJSON func() bool) {
	format, short := term.LineFormat{Format: term.Table}, false
	cmd.Flags().VarP(&format, "output", "o", "output format: table, or json for one object per line")
	cmd.Flags().BoolVar(&short, "json", false, "the same as -o json")
	Complete(cmd, "output", string(term.Table), string(term.JSON))
	return func() bool { return short || format.Format == term.JSON }
}

// Print shows v in the format that was asked for; table prints it for people.
func (e *Env) Print(v any, table func() error) error {
	if e.TableOutput() {
		return table()
	}
	return term.Data(e.Out, e.format, v)
}

// TableOutput reports whether output is for people.
func (e *Env) TableOutput() bool { return e.format == term.Table }

// Runs makes a command that does something on this machine and prints what came of it.
func Runs[T any](e *Env, cmd *cobra.Command, do func(ctx context.Context) (T, error), show func(T) error) *cobra.Command {
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r, err := do(cmd.Context())
		if err != nil {
			return err
		}
		return e.Print(r, func() error { return show(r) })
	}
	return e.PrintsData(cmd)
}

// Printf prints for people.
func (e *Env) Printf(format string, args ...any) {
	_, _ = io.WriteString(e.Out, term.Shown(fmt.Sprintf(format, args...))) // as Fprintf does: nobody reads on
}

// PrintFolded is Printf for whole lines, folded where they are wider than the screen.
func (e *Env) PrintFolded(format string, args ...any) {
	width := e.Screen().Width
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		e.Printf("%s\n", strings.Join(term.Fold(strings.TrimSuffix(line, "\n"), width), "\n"))
	}
}

// Input is the content of a file, or as - so many bytes of standard input.
func (e *Env) Input(file string, most int64) ([]byte, error) {
	if file != "-" {
		return os.ReadFile(file)
	}
	data, err := io.ReadAll(io.LimitReader(e.In, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("standard input has more than %d bytes", most)
	}
	return data, err
}

// Screen is what output is shown on.
func (e *Env) Screen() term.Screen { return term.Of(e.Out, e.Getenv) }

// Table prints a table for people within the width of the screen. The last column
// is the one that says why.
func (e *Env) Table(header []string, rows [][]string) error {
	return term.Fit(e.Out, e.Screen(), header, rows)
}

// Details is Table for what is shown of one thing: its texts are whole.
func (e *Env) Details(header []string, rows [][]string) error {
	return term.Grid{Header: header, Rows: rows, Whole: true}.Print(e.Out, e.Screen())
}

// Warn prints what a person should know on stderr.
func (e *Env) Warn(format string, args ...any) {
	fmt.Fprintf(e.Err, "steady: %s\n", term.Shown(fmt.Sprintf(format, args...)))
}

// Complete offers fixed values for a flag.
func Complete(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is not defined
	}
}

// isGroup marks the commands of Group.
const isGroup = "group"

// IsGroup reports whether a command only has others: it does nothing by itself.
func IsGroup(cmd *cobra.Command) bool {
	_, is := cmd.Annotations[isGroup]
	return is
}

// Group makes a command that only holds others.
func Group(id, use, short, example string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, GroupID: id, Short: short, Example: example, Annotations: map[string]string{isGroup: ""},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return exit.Badf("%s needs a command; %s --help lists them", cmd.CommandPath(), cmd.CommandPath())
		},
	}
	cmd.AddCommand(subs...)
	return cmd
}

// NonNil makes an empty list print as [] and not as null.
func NonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Short shows the first digits of a digest, enough to tell apart.
func Short(digest string) string {
	_, hex, ok := strings.Cut(digest, ":")
	if !ok || len(hex) < 12 {
		return digest
	}
	return hex[:12]
}

// Confirm asks a yes-or-no question on a terminal; elsewhere the flag is needed.
func (e *Env) Confirm(question, otherwise, flag string) error {
	in, ok := e.In.(*os.File)
	if !ok || !e.Screen().TTY || !term.Of(in, e.Getenv).TTY {
		return exit.Badf("%s and there is no terminal to ask on; give %s", otherwise, flag)
	}
	e.Printf("%s? [y/N] ", question)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && answer == "" {
		return exit.Badf("no answer; give %s", flag)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return exit.With(exit.Failed, errors.New("nothing was done"))
}
