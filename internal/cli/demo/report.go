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
	// Inside is the process, as the machine sees it, in whose namespaces all of it
	// runs; 0 for those of the machine.
	Inside int
}

func (r Report) step(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if r.JSON {
		return term.Line(r.Out, map[string]string{"step": text})
	}
	_, err := fmt.Fprintf(r.Out, "\n%s\n", r.Screen.Paint(term.Bold, "== "+text))
	return err
}

// types shows a command line of this program as it would be typed.
func (r Report) types(args []string) error {
	return r.enters("steady " + strings.Join(args[1:], " "))
}

// enters shows any command line.
func (r Report) enters(line string) error {
	if r.JSON {
		return term.Line(r.Out, map[string]string{"command": line})
	}
	_, err := fmt.Fprintln(r.Out, r.Screen.Paint(term.Faint, "$ "+line))
	return err
}

// say tells what was found.
func (r Report) say(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if r.JSON {
		return term.Line(r.Out, map[string]string{"found": text})
	}
	_, err := fmt.Fprintln(r.Out, text)
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
	if err := r.table(tallies); err != nil {
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

func (r Report) table(tallies []tally) error {
	var rows [][]string
	for _, t := range tallies {
		rows = append(rows, []string{t.Release, fmt.Sprint(t.Granted), fmt.Sprint(t.Converged), fmt.Sprint(t.Reverted), strings.Join(t.RevertedHosts, " ")})
	}
	if _, err := fmt.Fprintln(r.Out); err != nil {
		return err
	}
	return term.Rows(r.Out, []string{"release", "granted", "converged", "reverted", "which went back"}, rows)
}

// containers ends the report of the demonstration of containers.
func (r Report) containers(found shopResult, took time.Duration, failed error) error {
	if r.JSON {
		line := struct {
			OK    bool   `json:"ok"`
			Error string `json:"error,omitempty"`
			shopResult
			Seconds float64 `json:"seconds"`
		}{OK: failed == nil, shopResult: found, Seconds: took.Round(10 * time.Millisecond).Seconds()}
		if failed != nil {
			line.Error = failed.Error()
		}
		if line.Releases == nil {
			line.Releases = []tally{}
		}
		return term.Line(r.Out, line)
	}
	if failed != nil {
		return nil // the command prints the error
	}
	if err := r.table(found.Releases); err != nil {
		return err
	}
	removed := ""
	if found.Removed != nil {
		removed = "\nRemoved " + found.Removed.String() + "."
	}
	_, err := fmt.Fprintf(r.Out, `
%s in %.1f s: %d requests answered during the bad release and the good one, none
refused; the bad release never left its canary; what somebody removed came back.%s

Try next:
  steady demo --docker --keep   the same, left running to play with
  examples/containers           a fleet of containers to start from; the README has the way
`, r.Screen.Paint(term.Good, "All as promised"), took.Seconds(), found.Requests.Answered, removed)
	return err
}

// keptContainers says how to play with what was left running.
func (r Report) keptContainers(context, engine, program string, visitors []*visitor) error {
	if r.JSON {
		return nil // the result was the last line
	}
	var b strings.Builder
	if r.Inside > 0 {
		fmt.Fprintf(&b, "\nEverything still runs, in a world of its own. In another terminal:\n  nsenter --all -t %d\nand there:\n", r.Inside)
	} else {
		b.WriteString("\nEverything still runs. In another terminal:\n")
	}
	fmt.Fprintf(&b, "  export STEADY_CONTEXT=%s DOCKER_HOST=%s\n  %s status\n  docker ps\n", context, engine, program)
	for _, v := range visitors {
		fmt.Fprintf(&b, "  curl -H 'Host: %s' http://%s\n", shopHost, v.addr)
	}
	b.WriteString("  docker stop CONTAINER        # and see the agent start it again\nCtrl-C ends it and removes all of it\n")
	_, err := io.WriteString(r.Out, b.String())
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
