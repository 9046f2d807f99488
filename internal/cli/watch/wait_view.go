package watch

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/term"
)

// Silent shows nothing.
func SilentOutcomes(context.Context, []Outcome, *Outcome) error { return nil }

// Plain prints a line whenever something moved.
func PlainOutcomes(w io.Writer) OutcomeView {
	last := map[string]string{}
	return func(_ context.Context, _ []Outcome, o *Outcome) error {
		if o == nil {
			return nil
		}
		line := OutcomeLine(term.Screen{}, o)
		if last[o.String()] == line {
			return nil
		}
		last[o.String()] = line
		_, err := fmt.Fprintln(w, line)
		return err
	}
}

// InPlace redraws all of it on a terminal.
func OutcomesInPlace(w io.Writer, s term.Screen) OutcomeView {
	frame := term.NewFrame(w, s)
	return func(_ context.Context, all []Outcome, _ *Outcome) error {
		lines := make([]string, 0, len(all))
		for i := range all {
			lines = append(lines, OutcomeLine(s, &all[i]))
		}
		return frame.Draw(lines)
	}
}

// Line is one target as a line.
func OutcomeLine(s term.Screen, o *Outcome) string {
	line := "  " + o.String() + ": " + s.Paint(StateColor(o.State), cmp.Or(o.State, "waits for the host"))
	if o.Detail != "" {
		line += ": " + term.Printable(o.Detail)
	}
	return line
}

// Color is that of a state.
func StateColor(state string) term.Color {
	switch ended, good := Ended(state); {
	case good:
		return term.Good
	case ended:
		return term.Bad
	case state == "":
		return term.Faint
	}
	return term.Busy
}

// For is the view that fits the output of a command: lines that move on a
// terminal, lines elsewhere, and nothing beside data.
func OutcomesFor(e *command.Env, table bool) OutcomeView {
	screen := term.Of(e.Out, e.Getenv)
	switch {
	case !table:
		return SilentOutcomes
	case screen.TTY:
		return OutcomesInPlace(e.Out, screen)
	}
	return PlainOutcomes(e.Out)
}
