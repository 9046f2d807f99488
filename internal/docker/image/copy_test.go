package image

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
)

// idle says that nothing is about to write.
func idle() (bool, error) { return false, nil }

func copied(t *testing.T, s *Store, q Query, underWay func() (bool, error)) (text, notes string, last int64) {
	t.Helper()
	var w, n strings.Builder
	last = testkit.Value(s.Copy(t.Context(), "app", q, underWay, &w, &n))(t)
	return w.String(), n.String(), last
}

func attempt(t *testing.T, s *Store, text string) {
	t.Helper()
	w := testkit.Value(s.OpenLog("app"))(t)
	testkit.Value(w.Write([]byte(text)))(t)
	testkit.Must(t, w.Close())
}

// TestFollowWaitsForWhatIsUnderWay follows a build whose log is not open yet: all
// of its output is seen, however late it begins and however fast it ends.
func TestFollowWaitsForWhatIsUnderWay(t *testing.T) {
	for _, late := range []time.Duration{0, time.Millisecond, pollInterval, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, t.TempDir(), 0)
			attempt(t, s, "an earlier one\n")
			var acting atomic.Bool
			acting.Store(true)
			go func() {
				time.Sleep(late)
				attempt(t, s, "Step 1\nfailed: it will not do\n")
				acting.Store(false)
			}()
			text, _, last := copied(t, s, Query{Follow: true, After: 1}, func() (bool, error) { return acting.Load(), nil })
			if text != "Step 1\nfailed: it will not do\n" || last != 3 {
				t.Errorf("begun after %s: got %q, last line %d", late, text, last)
			}
		})
	}
}

// TestFollowSeesWhatEndedWhileItAsked has the whole of a build happen between the
// look at the log and the question whether one is under way.
func TestFollowSeesWhatEndedWhileItAsked(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	begun := false
	text, _, last := copied(t, s, Query{Follow: true}, func() (bool, error) {
		if !begun {
			begun = true
			attempt(t, s, "quick\n")
		}
		return false, nil
	})
	if text != "quick\n" || last != 1 {
		t.Errorf("got %q, last line %d", text, last)
	}
}

// TestCopyGoesOnAfterALine reads a log in pieces: each line once, whatever is
// kept of it.
func TestCopyGoesOnAfterALine(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	attempt(t, s, "a\nb\n")
	if text, _, last := copied(t, s, Query{After: 1}, idle); text != "b\n" || last != 2 {
		t.Errorf("after 1: %q, %d", text, last)
	}
	attempt(t, s, "c\n")
	if text, _, last := copied(t, s, Query{After: 2, Follow: true}, idle); text != "c\n" || last != 3 {
		t.Errorf("after 2: %q, %d", text, last)
	}
	if text, notes, last := copied(t, s, Query{After: 1 << 50}, idle); text+notes != "" || last != 3 {
		t.Errorf("after the end: %q %q, %d", text, notes, last)
	}
	if text, notes, _ := copied(t, s, Query{Tail: 1}, idle); text != "c\n" || notes != "" {
		t.Errorf("the last line: %q %q", text, notes)
	}
}

// TestCopySaysWhatIsGone writes more than is kept: nothing is left out in silence,
// neither before the first line nor while following.
func TestCopySaysWhatIsGone(t *testing.T) {
	s := open(t, t.TempDir(), 1000)
	var all strings.Builder
	for i := range 500 {
		fmt.Fprintf(&all, "line %d\n", i+1)
	}
	attempt(t, s, all.String())
	text, notes, last := copied(t, s, Query{Follow: true}, idle)
	shown := strings.Count(text, "\n")
	if last != 500 || shown == 0 || shown == 500 || notes != fmt.Sprintf("(%d lines before this are kept no longer)\n", 500-shown) {
		t.Errorf("%d lines shown, the last is %d, told: %q", shown, last, notes)
	}
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), 1000)
		w := testkit.Value(s.OpenLog("app"))(t)
		testkit.Value(w.Write([]byte("first\n")))(t)
		slow := make(taking)
		var notes strings.Builder
		done := make(chan error)
		go func() {
			_, err := s.Copy(t.Context(), "app", Query{Follow: true}, idle, slow, &notes)
			done <- err
		}()
		synctest.Wait() // it holds the first line, which nobody takes
		testkit.Value(w.Write([]byte(all.String())))(t)
		testkit.Must(t, w.Close())
		shown := 0
		for ended := false; !ended; {
			select {
			case <-slow:
				shown++
			case err := <-done:
				testkit.Must(t, err)
				ended = true
			}
		}
		if shown == 501 || notes.String() != fmt.Sprintf("(%d lines before this are kept no longer)\n", 501-shown) {
			t.Errorf("%d of 501 lines shown, told: %q", shown, notes.String())
		}
	})
}

// taking is a writer whose every write is taken by a receive.
type taking chan string

func (t taking) Write(b []byte) (int, error) {
	t <- string(b)
	return len(b), nil
}

// TestFollowEndsWithItsContext checks that waiting for a build ends with the one
// who waits.
func TestFollowEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var w strings.Builder
		_, err := s.Copy(ctx, "app", Query{Follow: true}, func() (bool, error) { return true, nil }, &w, &w)
		if err == nil || w.String() != "" {
			t.Errorf("ended with %v after %q", err, w.String())
		}
	})
}
