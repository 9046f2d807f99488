package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

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

func (r Report) enters(line string) error {
	if r.JSON {
		return term.Line(r.Out, map[string]string{"command": line})
	}
	_, err := fmt.Fprintln(r.Out, r.Screen.Paint(term.Faint, "$ "+line))
	return err
}

func (r Report) print(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if r.JSON {
		return term.Line(r.Out, map[string]string{"found": text})
	}
	_, err := fmt.Fprintln(r.Out, text)
	return err
}

type result struct {
	OK       bool    `json:"ok"`
	Error    string  `json:"error,omitempty"`
	Releases []tally `json:"releases"`
	Seconds  float64 `json:"seconds"`

	// Of containers only. Containers are those that ran at the end, over all hosts;
	// Removed is nil while things are left running.
	Requests   *Requests `json:"requests,omitempty"`
	RepairedMS int64     `json:"repairedMilliseconds,omitempty"`
	Containers int       `json:"containers,omitempty"`
	Removed    things    `json:"removed,omitempty"`
}

// end ends the report, well or not: summary is what a good result means.
func (r Report) end(found result, took time.Duration, failed error, summary string) error {
	if r.JSON {
		found.OK, found.Seconds = failed == nil, took.Round(10*time.Millisecond).Seconds()
		if failed != nil {
			found.Error = failed.Error()
		}
		if found.Releases == nil {
			found.Releases = []tally{}
		}
		return term.Line(r.Out, found)
	}
	if failed != nil {
		return nil // the command prints the error
	}
	var rows [][]string
	for _, t := range found.Releases {
		rows = append(rows, []string{t.Release, fmt.Sprint(len(t.Granted)), fmt.Sprint(len(t.Converged)), fmt.Sprint(len(t.Reverted)), strings.Join(t.Reverted, " ")})
	}
	if _, err := fmt.Fprintln(r.Out); err != nil {
		return err
	}
	if err := term.Rows(r.Out, []string{"release", "granted", "converged", "reverted", "which went back"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.Out, "\n%s in %.1f s: %s", r.Screen.Paint(term.Good, "All as promised"), took.Seconds(), summary)
	return err
}

// kept shows how to play with what was left running; link logs a browser in, if it is not empty.
func (r Report) kept(link, playground string) error {
	if r.JSON {
		return nil // the result was the last line
	}
	where := "Everything still runs. In a browser, once and within a minute:\n  " + link + "\nIn another terminal:\n"
	if r.Inside > 0 {
		where = fmt.Sprintf("Everything still runs, in namespaces of its own. In another terminal:\n  nsenter --all -t %d\nand there:\n", r.Inside)
	}
	_, err := io.WriteString(r.Out, "\n"+where+playground+"Ctrl-C ends it and removes all of it\n")
	return err
}
