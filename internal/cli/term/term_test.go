package term

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestCutFits draws lines with colour and cuts them: what is left fits, keeps
// its escape sequences whole, and ends plain.
func TestCutFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 6).Draw(t, "parts") {
			text := rapid.StringMatching(`[a-zä█ ]{0,8}`).Draw(t, "text")
			if rapid.Bool().Draw(t, "painted") {
				text = Screen{Color: true}.Paint(Bad, text)
			}
			b.WriteString(text)
		}
		width := rapid.IntRange(1, 30).Draw(t, "width")
		got := Cut(b.String(), width)
		if n := columnsOf(got); n > width {
			t.Fatalf("%q has %d columns, not %d", got, n, width)
		}
		if columnsOf(b.String()) <= width && got != b.String() {
			t.Fatalf("%q fits %d columns but became %q", b.String(), width, got)
		}
		if !utf8.ValidString(got) {
			t.Fatalf("%q is cut within a rune", got)
		}
		if i := strings.LastIndex(got, "\x1b["); i >= 0 && !strings.HasPrefix(got[i:], plain) {
			t.Fatalf("%q does not end plain", got)
		}
	})
}

func TestFrameRedrawsInPlace(t *testing.T) {
	var out bytes.Buffer
	f := NewFrame(&out, Screen{TTY: true, Width: 10, Height: 4})
	for _, lines := range [][]string{{"one", "two"}, {"one", "two"}, {"one"}, {"1", "2", "3", "4", "5"}} {
		testkit.Must(t, f.Draw(lines))
	}
	want := "\x1b[Kone\n\x1b[Ktwo\n\x1b[J" + // the second, equal one draws nothing
		"\x1b[2A\x1b[Kone\n\x1b[J" +
		"\x1b[1A\x1b[K1\n\x1b[K2\n\x1b[K… 3 more …\n\x1b[J"
	if out.String() != want {
		t.Fatalf("drew %q\nexpected %q", out.String(), want)
	}
}

func TestBarFillsItsWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(0, 50).Draw(t, "total")
		done := rapid.IntRange(0, total).Draw(t, "done")
		busy := rapid.IntRange(0, total-done).Draw(t, "busy")
		if n := columnsOf(Screen{Color: true}.Bar(done, busy, total, 24)); n != 24 {
			t.Fatalf("a bar of %d and %d of %d has %d columns", done, busy, total, n)
		}
	})
}

func TestDataIsTheSameInBothFormats(t *testing.T) {
	v := struct {
		Big  int64    `json:"big"`
		List []string `json:"list"`
	}{1795314977308, []string{"<a>", "yes"}}
	var js, ym bytes.Buffer
	testkit.Must(t, Data(&js, JSON, v))
	testkit.Must(t, Data(&ym, YAML, v))
	if want := "{\n  \"big\": 1795314977308,\n  \"list\": [\n    \"<a>\",\n    \"yes\"\n  ]\n}\n"; js.String() != want {
		t.Errorf("JSON is %s", js.String())
	}
	if !strings.Contains(ym.String(), "big: 1795314977308\n") || !strings.Contains(ym.String(), "- <a>\n") {
		t.Errorf("YAML is %s", ym.String())
	}
}

func TestNothingIsPaintedWithoutColor(t *testing.T) {
	if got := (Screen{TTY: true}).Paint(Good, "x"); got != "x" {
		t.Errorf("painted %q", got)
	}
	s := Of(&bytes.Buffer{}, func(string) string { return "" })
	if s != (Screen{}) {
		t.Errorf("a buffer is %+v, no terminal", s)
	}
}

// TestPrintable is T18: no text from elsewhere moves the cursor, changes colours,
// begins a line or turns the direction of writing.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ä█ and 日本":   "plain, ä█ and 日本",
		"a\nb\rc\td":         "a ⏎ b c d",
		"\x1b[2J\x1b[31mred": " [2J [31mred",
		"\x1b]0;title\a":     " ]0;title ",
		"\u009b31mred":       " 31mred",
		"\b\x7f\x00":         "   ",
		"a\u2028b\u2029c":    "a b c",
		"\u202egnp.exe":      " gnp.exe",
		"a\u2066b\u2069c":    "a b c",
		"\u200e\u200f\u061c": "   ",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q shows as %q, expected %q", in, got, want)
		}
	}
}

// TestTablesFit is that a table fits its screen, keeps every row, and shows the whole
// of the first column and of what the last one says, in as many lines as that takes.
func TestTablesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		header := []string{"host", "state", "empty", "rollout", "reason"}
		g := Grid{Whole: true}
		g.Header = header
		for range rapid.IntRange(0, 6).Draw(t, "rows") {
			g.Rows = append(g.Rows, []string{
				rapid.StringMatching(`[a-z]{1,12}`).Draw(t, "host"), rapid.StringMatching(`[a-z]{0,30}`).Draw(t, "state"), "",
				rapid.StringMatching(`[a-z@0-9]{0,24}`).Draw(t, "rollout"), rapid.StringMatching(`([a-zä:]{1,9} ){0,30}[a-z]{0,90}`).Draw(t, "reason"),
			})
		}
		s := Screen{Width: rapid.IntRange(48, 160).Draw(t, "width"), Color: rapid.Bool().Draw(t, "color")}
		g.Paint = func(row, column int) Color { return Bad }
		lines := g.Lines(s)
		shown := strings.NewReplacer(string(Bad), "", plain, "").Replace(strings.Join(lines, " "))
		for _, line := range lines {
			if n := columnsOf(line); n > s.Width {
				t.Fatalf("%q has %d columns, not %d", line, n, s.Width)
			}
		}
		for _, row := range g.Rows {
			if !strings.Contains(shown, row[0]) {
				t.Fatalf("%q does not name %q", shown, row[0])
			}
			for _, word := range strings.Fields(row[4]) {
				if columnsOf(word) < s.Width-len(foldedBy) && !strings.Contains(shown, word) {
					t.Fatalf("%q lost %q of %q", shown, word, row[4])
				}
			}
		}
	})
}

func TestTableFoldsItsReason(t *testing.T) {
	g := Grid{Header: []string{"host", "state", "failed", "reason"}, Rows: [][]string{
		{"web-1", "online", "", "its health check fails: the server answered 503 where 200 was expected"},
		{"web-2", "silent", "", ""},
	}}
	for width, want := range map[int]string{
		0:  "HOST   STATE   FAILED  REASON\nweb-1  online  -       its health check fails: the server answered 503 where 200 was expected\nweb-2  silent  -       -",
		40: "HOST   STATE\nweb-1  online\n    its health check fails: the server\n    answered 503 where 200 was expected\nweb-2  silent",
		86: "HOST   STATE   REASON\nweb-1  online  its health check fails: the server answered 503 where 200 was expected\nweb-2  silent  -",
	} {
		if got := strings.Join(g.Lines(Screen{Width: width}), "\n"); got != want {
			t.Errorf("at %d columns:\n%s\nexpected:\n%s", width, got, want)
		}
	}
}

// TestFrameOfANarrowedTerminal goes up by the rows that the terminal made of what
// was drawn when it was wider.
func TestFrameOfANarrowedTerminal(t *testing.T) {
	var out bytes.Buffer
	f := NewFrame(&out, Screen{TTY: true, Width: 20, Height: 9})
	testkit.Must(t, f.Draw([]string{"0123456789abcde", "two"}))
	out.Reset()
	f.screen.Width = 6
	testkit.Must(t, f.Draw([]string{"one"}))
	if want := "\x1b[4A\x1b[Kone\n\x1b[J"; out.String() != want {
		t.Errorf("drew %q, expected %q", out.String(), want)
	}
}

// TestFoldKeepsTheWords is that folding loses nothing and keeps to the width.
func TestFoldKeepsTheWords(t *testing.T) {
	line := "  cleared by: the hosts of wave canary as they converge, or an operator: steady rollout promote stable@v2"
	for width := 30; width < 120; width++ {
		lines := Fold(line, width)
		for _, l := range lines {
			if len(l) > width {
				t.Errorf("at %d: %q", width, l)
			}
		}
		if got := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); got != strings.TrimSpace(line) {
			t.Errorf("at %d: %q", width, got)
		}
	}
	if long := strings.Repeat("x", 90); len(Fold(long, 80)) != 1 || len(Fold(line, 0)) != 1 {
		t.Error("a word without a break, or without a width, was broken")
	}
}

// TestTablesKeepToTheScreen: whatever is in a table, no cell is longer than MaxCell, what is cut ends in an
// ellipsis, and no line is wider than a terminal of 80 columns; a table of details has all of it.
func TestTablesKeepToTheScreen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.IntRange(1, 7).Draw(t, "columns")
		word := rapid.StringMatching(`([a-z]{1,12} ){0,40}`)
		header := make([]string, columns)
		for i := range header {
			header[i] = "column"
		}
		rows := rapid.SliceOfN(rapid.SliceOfN(word, columns, columns), 1, 4).Draw(t, "rows")
		for _, line := range (Grid{Header: header, Rows: rows}).Lines(Screen{Width: 80}) {
			if n := columnsOf(line); n > 80 {
				t.Fatalf("a line has %d columns: %q", n, line)
			}
		}
		cut := strings.Join((Grid{Header: header, Rows: rows}).Lines(Screen{}), "\n")
		whole := strings.Join((Grid{Header: header, Rows: rows, Whole: true}).Lines(Screen{}), "\n")
		for _, row := range rows {
			for _, cell := range row {
				long := columnsOf(cell) > MaxCell
				if long == strings.Contains(cut, cell) && cell != "" {
					t.Errorf("a cell of %d columns is cut: %t", columnsOf(cell), long)
				}
				if long && !strings.Contains(cut, "…") || !strings.Contains(whole, cell) {
					t.Errorf("%q is in neither:\n%s\n%s", cell, cut, whole)
				}
			}
		}
	})
}
