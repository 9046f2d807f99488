package settle

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/term"
)

// Silent shows nothing.
func Silent(context.Context, []Outcome, *Outcome) error { return nil }

// Plain prints a line whenever something moved.
func Plain(w io.Writer) View {
	last := map[string]string{}
	return func(_ context.Context, _ []Outcome, o *Outcome) error {
		if o == nil {
			return nil
		}
		line := Line(term.Screen{}, o)
		if last[o.Words()] == line {
			return nil
		}
		last[o.Words()] = line
		_, err := fmt.Fprintln(w, line)
		return err
	}
}

// InPlace redraws all of it on a terminal.
func InPlace(w io.Writer, s term.Screen) View {
	frame := term.NewFrame(w, s)
	return func(_ context.Context, all []Outcome, _ *Outcome) error {
		lines := make([]string, 0, len(all))
		for i := range all {
			lines = append(lines, Line(s, &all[i]))
		}
		return frame.Draw(lines)
	}
}

// Line is one target as a line.
func Line(s term.Screen, o *Outcome) string {
	line := "  " + o.Words() + ": " + s.Paint(Color(o.State), cmp.Or(o.State, "waits for the host"))
	if o.Detail != "" {
		line += ": " + term.Printable(o.Detail)
	}
	return line
}

// Color is that of a state.
func Color(state string) term.Color {
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
func For(e *command.Env, table bool) View {
	screen := term.Of(e.Out, e.Getenv)
	switch {
	case !table:
		return Silent
	case screen.TTY:
		return InPlace(e.Out, screen)
	}
	return Plain(e.Out)
}
