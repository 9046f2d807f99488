// Package term writes for people: tables, colour and a view that is redrawn in
// place, the last two only on a terminal, and data as JSON or YAML for programs.
package term

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

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
	return Screen{TTY: true, Color: getenv("NO_COLOR") == ""}.Resized(w)
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

// Frame redraws a few lines in place. It is for terminals only and for one
// goroutine.
type Frame struct {
	w      io.Writer
	screen Screen
	drawn  []int // columns of each line on the terminal
	last   string
}

// NewFrame returns a frame with nothing drawn.
func NewFrame(w io.Writer, s Screen) *Frame { return &Frame{w: w, screen: s} }

// Draw replaces what was drawn before. Lines are cut to the width, and to the
// height from below, because what scrolled away cannot be redrawn.
func (f *Frame) Draw(lines []string) error {
	f.resize()
	if limit := f.screen.Height - 1; limit > 0 && len(lines) > limit {
		lines = append(lines[:limit-1:limit-1], f.screen.Paint(Faint, fmt.Sprintf("… %d more lines", len(lines)-limit+1)))
	}
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("\x1b[K" + Cut(line, f.screen.Width) + "\n")
	}
	if b.String() == f.last {
		return nil
	}
	f.last = b.String()
	up := ""
	if n := f.rows(); n > 0 {
		up = fmt.Sprintf("\x1b[%dA", n)
	}
	f.drawn = f.drawn[:0]
	for _, line := range lines {
		f.drawn = append(f.drawn, columnsOf(Cut(line, f.screen.Width)))
	}
	_, err := io.WriteString(f.w, up+f.last+"\x1b[J")
	return err
}

// resize looks at how large the terminal is now.
func (f *Frame) resize() {
	now := f.screen.Resized(f.w)
	if now != f.screen {
		f.screen, f.last = now, ""
	}
}

// rows is how many rows of the terminal hold what was drawn: where it became
// narrower, it broke the lines.
func (f *Frame) rows() int {
	n := 0
	for _, columns := range f.drawn {
		n++
		if w := f.screen.Width; w > 0 && columns > w {
			n += (columns - 1) / w
		}
	}
	return n
}

// Leave keeps what is drawn and continues below it.
func (f *Frame) Leave() { f.drawn, f.last = nil, "" }

// Cut shortens a line to a number of columns, not counting escape sequences; 0
// leaves it whole. A cut line ends plain.
func Cut(line string, width int) string {
	if width <= 0 {
		return line
	}
	columns, painted := 0, false
	for i := 0; i < len(line); {
		if line[i] == '\x1b' {
			end := strings.IndexByte(line[i:], 'm')
			if end < 0 {
				return line[:i]
			}
			painted, i = true, i+end+1
			continue
		}
		if columns == width-1 && columnsOf(line[i:]) > 1 {
			if painted {
				return line[:i] + "…" + plain
			}
			return line[:i] + "…"
		}
		_, size := utf8.DecodeRuneInString(line[i:])
		columns, i = columns+1, i+size
	}
	return line
}

// columnsOf counts the runes outside escape sequences.
func columnsOf(s string) int {
	n := 0
	for i := 0; i < len(s); {
		if s[i] == '\x1b' {
			end := strings.IndexByte(s[i:], 'm')
			if end < 0 {
				return n
			}
			i += end + 1
			continue
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		n, i = n+1, i+size
	}
	return n
}

// Bar draws progress: done and busy out of total, in width columns.
func (s Screen) Bar(done, busy, total, width int) string {
	if total <= 0 {
		return s.Paint(Faint, strings.Repeat("·", width))
	}
	d := done * width / total
	b := (done+busy)*width/total - d
	return s.Paint(Good, strings.Repeat("█", d)) + s.Paint(Busy, strings.Repeat("▒", b)) +
		s.Paint(Faint, strings.Repeat("·", width-d-b))
}
