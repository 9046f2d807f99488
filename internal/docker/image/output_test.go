package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/testkit"
)

func open(t testing.TB, dir string, keep int) *Store {
	t.Helper()
	s := testkit.Value(OpenOutput(dir, keep))(t)
	return s
}

func texts(lines []Line) string {
	var out []string
	for _, l := range lines {
		out = append(out, fmt.Sprintf("%d:%s", l.Seq, l.Text))
	}
	return strings.Join(out, "|")
}

func TestFollowSeesLinesBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), 0)
		w := testkit.Value(s.OpenLog("app"))(t)
		got := make(chan string, 9)
		go func() {
			after := int64(0)
			for {
				lines, err := s.Next(t.Context(), "app", after)
				if err != nil || len(lines) == 0 {
					close(got)
					return
				}
				after = lines[len(lines)-1].Seq
				got <- texts(lines)
			}
		}()
		testkit.Value(w.Write([]byte("Step 1\nhal")))(t)
		if x := <-got; x != "1:Step 1" {
			t.Fatalf("got %s", x)
		}
		testkit.Value(w.Write([]byte("f\n")))(t)
		if x := <-got; x != "2:half" {
			t.Fatalf("got %s", x)
		}
		testkit.Value(w.Write([]byte("no end")))(t)
		testkit.Must(t, w.Close())
		if x := <-got; x != "3:no end" {
			t.Fatalf("got %s", x)
		}
		if x, open := <-got; open {
			t.Fatalf("no end, but %s", x)
		}
	})
}

func TestNextEndsWithItsContext(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	w := testkit.Value(s.OpenLog("app"))(t)
	defer w.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := s.Next(ctx, "app", 0); !errors.Is(err, gone) {
		t.Fatalf("got %v", err)
	}
}

func TestLogsSurviveARestartAndStayBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := testkit.Value(os.MkdirTemp("", "output"))(t)
		defer os.RemoveAll(dir)
		keep := rapid.IntRange(40, 400).Draw(rt, "keep")
		var all []string
		for range rapid.IntRange(1, 4).Draw(rt, "processes") {
			s := open(t, dir, keep)
			for range rapid.IntRange(0, 3).Draw(rt, "attempts") {
				w := testkit.Value(s.OpenLog("app"))(t)
				for range rapid.IntRange(0, 20).Draw(rt, "lines") {
					line := rapid.StringMatching(`[a-z ]{0,30}`).Draw(rt, "line")
					all = append(all, line)
					testkit.Value(w.Write([]byte(line + "\n")))(t)
				}
				testkit.Must(t, w.Close())
			}
			lines, err := s.Tail("app", 0)
			testkit.Must(t, err)
			size := 0
			for i, l := range lines {
				if int(l.Seq) != len(all)-len(lines)+i+1 || all[l.Seq-1] != l.Text {
					rt.Fatalf("line %d is %d %q", i, l.Seq, l.Text)
				}
				size += l.size()
			}
			if len(lines) < len(all) && size < keep || size > 2*keep+60 {
				rt.Fatalf("%d bytes of %d lines kept of %d, bound %d", size, len(lines), len(all), keep)
			}
		}
		for _, older := range []bool{true, false} {
			s := open(t, dir, keep)
			if i, err := os.Stat(s.path("app", older)); err == nil && int(i.Size()) > keep+60 {
				rt.Fatalf("a file of %d bytes, bound %d", i.Size(), keep)
			}
		}
	})
}

func TestALineCutOffByACrashIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 0)
	testkit.Must(t, os.WriteFile(s.path("app", false), []byte("1 5 one\n2 5 tw"), 0o600))
	w := testkit.Value(s.OpenLog("app"))(t)
	testkit.Value(w.Write([]byte("two\r\nslow 1%\rslow 9%\n")))(t)
	testkit.Must(t, w.Close())
	lines, err := open(t, dir, 0).Tail("app", 0)
	testkit.Must(t, err)
	if texts(lines) != "1:one|2:two|3:slow 9%" {
		t.Fatalf("got %s", texts(lines))
	}
}

// TestCollect: what is kept, what is being written and foreign files stay.
func TestCollect(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, 0)
	write := func(name string) io.WriteCloser {
		w := testkit.Value(s.OpenLog(name))(t)
		testkit.Value(w.Write([]byte("line\n")))(t)
		return w
	}
	testkit.Must(t, write("kept").Close())
	testkit.Must(t, write("gone").Close())
	busy := write("busy")
	foreign := filepath.Join(dir, "note.txt")
	testkit.Must(t, os.WriteFile(foreign, nil, 0o600))
	testkit.Must(t, s.Collect(map[string]bool{"kept": true}))
	for name, want := range map[string]int{"kept": 1, "gone": 0, "busy": 1} {
		lines, err := s.Tail(name, 0)
		if fresh, err2 := open(t, dir, 0).Tail(name, 0); err != nil || err2 != nil || len(lines) != want || len(fresh) != want {
			t.Errorf("%s has %d lines and %d on disk, expected %d: %v, %v", name, len(lines), len(fresh), want, err, err2)
		}
	}
	testkit.Must(t, busy.Close())
	testkit.Must(t, s.Collect(nil))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestALongLineIsSplit(t *testing.T) {
	s := open(t, t.TempDir(), 1<<20)
	w := testkit.Value(s.OpenLog("app"))(t)
	testkit.Value(w.Write([]byte(strings.Repeat("x", 3*MaxLine))))(t)
	testkit.Must(t, w.Close())
	lines, err := s.Tail("app", 0)
	testkit.Must(t, err)
	total := 0
	for _, l := range lines {
		total += len(l.Text)
	}
	if len(lines) != 3 || total != 3*MaxLine {
		t.Fatalf("%d lines of %d bytes", len(lines), total)
	}
}
