// Package term writes for people: tables, colour and a view that is redrawn in
// place, the last two only on a terminal, and data as JSON or YAML for programs.
package term

import (
	"io"
	"os"
	"strconv"

	xterm "golang.org/x/term"
)

// Screen says what the writer at the other end can show.
type Screen struct {
	// TTY reports a terminal: views may be redrawn in place.
	TTY bool
	// Color reports that colour is wanted too: a terminal, and NO_COLOR unset.
	Color bool
	// Width is in columns; 0 when unknown.
	Width  int
	Height int
}

// Of looks at a writer. NO_COLOR (no-color.org) and TERM=dumb are respected; off a
// terminal, COLUMNS gives the width, and without it lines are as long as they are.
func Of(w io.Writer, getenv func(string) string) Screen {
	f, ok := w.(*os.File)
	if !ok || !xterm.IsTerminal(int(f.Fd())) || getenv("TERM") == "dumb" {
		width, _ := strconv.Atoi(getenv("COLUMNS")) // anything else than a number is no width
		return Screen{Width: max(width, 0)}
	}
	s := Screen{TTY: true, Color: getenv("NO_COLOR") == ""}
	if width, height, err := xterm.GetSize(int(f.Fd())); err == nil {
		s.Width, s.Height = width, height
	}
	return s
}

// Resized is the screen as the terminal is large now.
func (s Screen) Resized(w io.Writer) Screen {
	if f, ok := w.(*os.File); ok && s.TTY {
		if width, height, err := xterm.GetSize(int(f.Fd())); err == nil {
			s.Width, s.Height = width, height
		}
	}
	return s
}

// Color is one of the few colours that mean something.
type Color string

// Colours by meaning.
const (
	Good  Color = "\x1b[32m"
	Bad   Color = "\x1b[31m"
	Busy  Color = "\x1b[33m"
	Faint Color = "\x1b[2m"
	Bold  Color = "\x1b[1m"
)

const plain = "\x1b[0m"

// Paint colours text, or returns it unchanged where colour is not wanted.
func (s Screen) Paint(c Color, text string) string {
	if !s.Color || text == "" || c == "" {
		return text
	}
	return string(c) + text + plain
}
