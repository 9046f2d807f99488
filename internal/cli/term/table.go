package term

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// MaxCell is how many columns of a text a table shows: a message of pages would hide the rows beside it.
// What shows one thing, and -o json, has the whole.
const MaxCell = 120

// Grid is a table for people. Its last column reports why: where the screen is too narrow for it, it is folded
// under its row.
type Grid struct {
	Header []string
	Rows   [][]string
	// Whole shows cells longer than MaxCell.
	Whole bool
	// Paint colours a cell; nil colours none.
	Paint func(row, column int) Color
}

const (
	columnGap = "  "
	foldedBy  = "    "
	// shortColumn is a last column that is no sentence: it keeps its place.
	shortColumn = 16
	// leastColumn is how far a column is shortened.
	leastColumn = 8
)

// Rows prints a table whose lines are as long as they are.
func Rows(w io.Writer, header []string, rows [][]string) error {
	return Fit(w, Screen{}, header, rows)
}

// Fit prints a table within the width of a screen.
func Fit(w io.Writer, s Screen, header []string, rows [][]string) error {
	return Grid{Header: header, Rows: rows}.Print(w, s)
}

// Print prints the table within the width of a screen.
func (t Grid) Print(w io.Writer, s Screen) error {
	for _, line := range t.Lines(s) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// layout is a table while it is made to fit.
type layout struct {
	screen  Screen
	cells   [][]string // the header first
	columns []int      // of the table, those that are shown
	widths  []int      // by shown column
	fold    bool       // the last column is under its row
	paint   func(row, column int) Color
}

// Lines is the table as lines within the width of a screen; 0 is any width. Empty
// cells show as "-". Columns without anything in them go first where room is short,
// then the last column is folded, then the widest others are shortened.
func (t Grid) Lines(s Screen) []string {
	g := &layout{screen: s, paint: t.Paint}
	head := make([]string, len(t.Header))
	for i, h := range t.Header {
		head[i] = strings.ToUpper(h)
	}
	g.cells = append(g.cells, head)
	for _, row := range t.Rows {
		cells := make([]string, len(t.Header))
		for i := range cells {
			if cells[i] = "-"; i < len(row) && row[i] != "" {
				cells[i] = Printable(row[i])
			}
			if !t.Whole {
				cells[i] = Cut(cells[i], MaxCell)
			}
		}
		g.cells = append(g.cells, cells)
	}
	for i := range t.Header {
		g.columns = append(g.columns, i)
	}
	g.measure()
	g.narrow()
	var lines []string
	for i := range g.cells {
		lines = append(lines, g.line(i)...)
	}
	return lines
}

func (g *layout) measure() {
	g.widths = g.widths[:0]
	for _, c := range g.columns {
		width := 0
		for _, row := range g.cells {
			width = max(width, columnsOf(row[c]))
		}
		g.widths = append(g.widths, width)
	}
}

func (g *layout) fits() bool {
	if g.screen.Width <= 0 {
		return true
	}
	sum := 0
	for i, w := range g.widths {
		if sum > 0 {
			sum += len(columnGap)
		}
		if !g.fold || i < len(g.widths)-1 {
			sum += w
		}
	}
	return sum <= g.screen.Width
}

func (g *layout) narrow() {
	if g.fits() {
		return
	}
	g.columns = slices.DeleteFunc(g.columns, func(c int) bool {
		return c > 0 && len(g.cells) > 1 && !slices.ContainsFunc(g.cells[1:], func(row []string) bool { return row[c] != "-" })
	})
	g.measure()
	if g.fits() {
		return
	}
	last := len(g.columns) - 1
	g.fold = last > 0 && g.widths[last] > shortColumn
	for !g.fits() {
		widest := -1
		for i, w := range g.widths {
			if i > 0 && i != last && w > leastColumn && (widest < 0 || w > g.widths[widest]) {
				widest = i
			}
		}
		switch {
		case widest >= 0:
			g.widths[widest]--
		case !g.fold && last > 0:
			g.fold = true
		default:
			return
		}
	}
}

// line is one row: a line, and more where its last cell is folded.
func (g *layout) line(row int) []string {
	var b strings.Builder
	last := len(g.columns) - 1
	pad := 0
	for i, c := range g.columns {
		if g.fold && i == last {
			break
		}
		if i > 0 {
			b.WriteString(strings.Repeat(" ", pad) + columnGap)
		}
		cell := g.cells[row][c]
		if g.screen.Width > 0 {
			cell = Cut(cell, g.widths[i])
		}
		pad = g.widths[i] - columnsOf(cell)
		if row > 0 && g.paint != nil {
			cell = g.screen.Paint(g.paint(row-1, c), cell)
		}
		b.WriteString(cell)
	}
	lines := []string{Cut(b.String(), g.screen.Width)}
	if cell := g.cells[row][g.columns[last]]; g.fold && row > 0 && cell != "-" {
		for _, part := range Wrap(cell, g.screen.Width-len(foldedBy)) {
			lines = append(lines, foldedBy+part)
		}
	}
	return lines
}

// Wrap breaks a text into lines of at most width columns, between words where it
// can. A width of 0 or less leaves it whole.
func Wrap(text string, width int) []string {
	if width <= 0 {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && columnsOf(line)+1+columnsOf(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " " + word
			continue
		}
		runes := []rune(word)
		for ; len(runes) > width; runes = runes[width:] {
			lines = append(lines, string(runes[:width]))
		}
		line = string(runes)
	}
	if line != "" || len(lines) == 0 {
		lines = append(lines, line)
	}
	return lines
}

// Fold breaks a line that is wider than width between words; what follows is
// indented by more than the line. A width of 0 or less leaves it whole.
func Fold(line string, width int) []string {
	indent := strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " "))) + foldedBy
	var lines []string
	for width > 2*len(indent) && columnsOf(line) > width {
		at := -1
		for i := len(indent); i < len(line); i++ {
			if line[i] != ' ' {
				continue
			}
			if at >= 0 && columnsOf(line[:i]) > width {
				break
			}
			at = i
		}
		if at < 0 {
			break
		}
		lines, line = append(lines, strings.TrimRight(line[:at], " ")), indent+strings.TrimLeft(line[at:], " ")
	}
	return append(lines, line)
}
