package demo

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/cli/live"
	"github.com/steadyfleet/steady/internal/cli/term"
)

// Report tells how the demonstration goes.
type Report struct {
	Out    io.Writer
	Screen term.Screen
	// JSON prints one object per line; the last one is the result.
	JSON bool
}

func (r Report) step(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if r.JSON {
		return term.Line(r.Out, map[string]string{"step": text})
	}
	_, err := fmt.Fprintf(r.Out, "\n%s\n", r.Screen.Paint(term.Bold, "== "+text))
	return err
}

// types shows a command line as it would be typed.
func (r Report) types(args []string) error {
	line := "steady " + strings.Join(args[1:], " ")
	if r.JSON {
		return term.Line(r.Out, map[string]string{"command": line})
	}
	_, err := fmt.Fprintln(r.Out, r.Screen.Paint(term.Faint, "$ "+line))
	return err
}

func (r Report) view() live.View {
	switch {
	case r.JSON:
		return live.JSON(r.Out).Only(live.Moves)
	case r.Screen.TTY:
		return live.InPlace(r.Out, r.Screen)
	}
	return live.Plain(r.Out).Only(live.Moves)
}

type result struct {
	OK       bool    `json:"ok"`
	Error    string  `json:"error,omitempty"`
	Releases []tally `json:"releases"`
	Seconds  float64 `json:"seconds"`
}

// result ends the report, well or not.
func (r Report) result(tallies []tally, took time.Duration, failed error) error {
	if r.JSON {
		res := result{OK: failed == nil, Releases: tallies, Seconds: took.Round(10 * time.Millisecond).Seconds()}
		if tallies == nil {
			res.Releases = []tally{}
		}
		if failed != nil {
			res.Error = failed.Error()
		}
		return term.Line(r.Out, res)
	}
	if failed != nil {
		return nil // the command prints the error
	}
	var rows [][]string
	for _, t := range tallies {
		rows = append(rows, []string{t.Release, fmt.Sprint(t.Granted), fmt.Sprint(t.Converged), fmt.Sprint(t.Reverted), strings.Join(t.RevertedHosts, " ")})
	}
	fmt.Fprintln(r.Out)
	if err := term.Rows(r.Out, []string{"release", "granted", "converged", "reverted", "which went back"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.Out, `
%s in %.1f s: checked in the server's log and in the files of every host. The bad
release never left its canary, and every host runs the last one.

Try next:
  steady demo --keep         the same, left running to play with
  steady init fleet          a fleet of your own, then the long way in the README
  steady help exit-codes     what each exit code means
`, r.Screen.Paint(term.Good, "All as promised"), took.Seconds())
	return err
}

// kept says how to play with what was left running.
func (r Report) kept(context, dir, program string) error {
	if r.JSON {
		return nil // the result was the last line
	}
	_, err := fmt.Fprintf(r.Out, `
Everything still runs. In another terminal:
  export STEADY_CONTEXT=%s
  %[3]s status
  %[3]s why web-1
  %[3]s events -f
  echo changed by hand > %[2]s     # and see the agent put it back
Ctrl-C ends it and removes %[4]s
`, context, filepath.Join(dir, "hosts", "web-1", "root", "www", "index.html"), program, dir)
	return err
}
