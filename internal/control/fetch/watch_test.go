package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/warning"
)

type cause string

func (c cause) Error() string { return fmt.Sprintf("%s at %s", string(c), time.Now()) } // other words each time
func (c cause) Cause() string { return string(c) }

// shelf is a source and the server in one: what it holds, and what the server
// says of it.
type shelf struct {
	mu      sync.Mutex
	holds   string // the validator
	fails   error
	verdict error
	fenced  error // another server leads
	looks   []time.Time
	fetched int
	state   *plan.State
	log     []string
}

func (s *shelf) Name() string { return "shelf" }

func (s *shelf) Fetch(_ context.Context, into, last string) (string, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks = append(s.looks, time.Now())
	if s.fails != nil {
		return "", false, s.fails
	}
	if last == s.holds {
		return last, false, nil
	}
	s.fetched++
	return s.holds, true, os.WriteFile(filepath.Join(into, "release"), []byte(s.holds), 0o600)
}

func (s *shelf) Leads(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fenced
}

func (s *shelf) AcceptRelease(_ context.Context, dir, source string) (Release, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := os.ReadFile(filepath.Join(dir, "release"))
	if err != nil || string(raw) != s.holds || source != "shelf" {
		return Release{}, fmt.Errorf("%q of %s: %w", raw, source, err)
	}
	return Release{Version: 1, Ref: s.holds}, s.verdict
}

func (s *shelf) ReportSource(_ context.Context, r warning.SourceReport) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ev := range s.state.SourceNews(r) {
		if _, err := plan.Record(s.state, "", s.now(), ev); err != nil {
			return err
		}
		switch ev := ev.(type) {
		case event.SourceFailed:
			s.log = append(s.log, "failed "+ev.Cause)
		case event.SourceRecovered:
			s.log = append(s.log, "recovered "+ev.What)
		case event.VerifyFailed:
			s.log = append(s.log, "refused "+ev.Check+" "+ev.Detail)
		}
	}
	return nil
}

func (s *shelf) now() clock.Instant { return clock.FromTime(time.Now()) }
func (s *shelf) Now() clock.Instant { return s.now() }

func (s *shelf) lookedAt() (n int) {
	s.set(func() { n = len(s.looks) })
	return n
}

func (s *shelf) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// said returns what was recorded since it was asked last.
func (s *shelf) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.log = nil }()
	return s.log
}

// watched runs a test with a watch on a shelf, on virtual time.
func watched(t *testing.T, f func(s *shelf, w *Watch)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{holds: "one", state: plan.New(nil)}
		w := NewWatch(WatchConfig{Sources: []Source{s}, DataDir: dir, Prefix: "push-", Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.Run(ctx, s); close(done) }()
		synctest.Wait()
		f(s, w)
		cancel()
		<-done
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("folders were left behind: %v %v", left, err)
		}
	})
}

func wait(d time.Duration) {
	time.Sleep(d) // in a bubble
	synctest.Wait()
}

func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

// S32: what does not verify is said once until its cause changes or is over.
func TestS32OneAlertPerCause(t *testing.T) {
	watched(t, func(s *shelf, w *Watch) {
		expect(t, "what is well", s.said(), nil)
		s.set(func() { s.holds, s.verdict = "two", &RefusedError{Check: "Rollback", Detail: "older"} })
		wait(10 * time.Minute)
		expect(t, "a refused release", s.said(), []string{"refused Rollback older"})
		s.set(func() { s.verdict = &RefusedError{Check: "Stale", Detail: "too old"} })
		wait(2 * time.Hour)
		expect(t, "another cause", s.said(), []string{"refused Stale too old"})
		if st := w.Status()[0]; st.LastError == "" || st.LastSuccess >= st.LastChecked || st.Ref != "one" {
			t.Errorf("status %+v", st)
		}
		s.set(func() { s.fails = cause("unreachable") })
		wait(10 * time.Minute)
		expect(t, "out of reach", s.said(), []string{"failed unreachable"})
		s.set(func() { s.fails = cause("refused") })
		wait(10 * time.Minute)
		expect(t, "another failure", s.said(), []string{"failed refused"})
		s.set(func() { s.fails = nil })
		wait(2 * time.Hour)
		expect(t, "reached again with the same content", s.said(), []string{"recovered fetch"})
		s.set(func() { s.fails = cause(Content) })
		wait(3 * time.Minute)
		if got := s.said(); len(got) != 1 {
			t.Errorf("no release at all: %v", got)
		}
		s.set(func() { s.holds, s.verdict, s.fails = "three", nil, nil })
		wait(2 * time.Hour)
		expect(t, "mended", s.said(), []string{"recovered verify"})
		if st := w.Status()[0]; st.LastError != "" || st.LastSuccess != st.LastChecked || st.Ref != "three" {
			t.Errorf("status %+v", st)
		}
		if len(s.state.Sources) > 0 {
			t.Errorf("the state still holds %v", s.state.Sources)
		}
	})
}

// What is the same is not handed in again; what was refused is, less and less
// often, because the server may have learnt a newer root meanwhile.
func TestUnchangedIsNotTakenAgain(t *testing.T) {
	watched(t, func(s *shelf, _ *Watch) {
		wait(time.Hour)
		if s.fetched != 1 || len(s.looks) < 50 {
			t.Errorf("fetched %d times in %d looks", s.fetched, len(s.looks))
		}
		s.set(func() { s.holds, s.verdict = "two", &RefusedError{Check: "RootInvalid", Detail: "x"} })
		wait(24 * time.Hour)
		if s.fetched < 20 || s.fetched > 100 {
			t.Errorf("a refused release was handed in %d times in a day", s.fetched)
		}
		s.said()
		s.set(func() { s.verdict = nil })
		wait(time.Hour)
		expect(t, "the server learnt", s.said(), []string{"recovered verify"})
	})
}

func TestLooksAreSpread(t *testing.T) {
	watched(t, func(s *shelf, _ *Watch) {
		wait(time.Hour)
		different := map[time.Duration]bool{}
		for i := 1; i < len(s.looks); i++ {
			gap := s.looks[i].Sub(s.looks[i-1])
			if gap < time.Minute || gap > 67*time.Second {
				t.Errorf("a gap of %s", gap)
			}
			different[gap] = true
		}
		if len(different) < 10 {
			t.Errorf("only %d different gaps: sources would be asked in step", len(different))
		}
	})
}

func TestNudgesAreOneLook(t *testing.T) {
	watched(t, func(s *shelf, w *Watch) {
		wait(20 * time.Second)
		before := s.lookedAt()
		for range 100 {
			w.CheckNow()
		}
		synctest.Wait()
		if got := s.lookedAt() - before; got < 1 || got > 2 {
			t.Errorf("a hundred nudges were %d looks", got)
		}
		for range 30 { // one a second
			w.CheckNow()
			wait(time.Second)
		}
		if got := s.lookedAt() - before; got > 9 {
			t.Errorf("%d looks within 30 s", got)
		}
	})
}

// A folder that somebody writes is looked at again soon, and only one that never
// rests is said to fail.
func TestUnsettledIsAwaited(t *testing.T) {
	watched(t, func(s *shelf, _ *Watch) {
		s.set(func() { s.holds, s.fails = "two", cause("unsettled") })
		wait(70 * time.Second)
		expect(t, "somebody writes", s.said(), nil)
		s.set(func() { s.fails = nil })
		wait(3 * time.Second)
		if s.fetched != 2 {
			t.Errorf("fetched %d times", s.fetched)
		}
		s.set(func() { s.fails = cause("unsettled") })
		wait(10 * time.Minute)
		expect(t, "somebody never stops", s.said(), []string{"failed unsettled"})
	})
}

// A server that cannot commit takes the release when it can again.
func TestServerThatCannot(t *testing.T) {
	watched(t, func(s *shelf, w *Watch) {
		s.set(func() { s.holds, s.verdict = "two", errors.New("the disk is full") })
		wait(10 * time.Minute)
		expect(t, "no fault of the source", s.said(), nil)
		if st := w.Status()[0]; st.LastError != "the disk is full" {
			t.Errorf("status %+v", st)
		}
		s.set(func() { s.verdict = nil })
		wait(2 * time.Minute)
		if st := w.Status()[0]; st.LastError != "" || st.Ref != "two" {
			t.Errorf("status %+v", st)
		}
	})
}

// A server that another one has replaced looks no more.
func TestReplacedServerDoesNotLook(t *testing.T) {
	watched(t, func(s *shelf, w *Watch) {
		before := s.lookedAt()
		s.set(func() { s.holds, s.fenced = "two", errors.New("another server leads") })
		w.CheckNow()
		wait(time.Hour)
		if n := s.lookedAt(); n != before || s.fetched != 1 {
			t.Errorf("%d looks, %d before it was replaced; fetched %d times", n, before, s.fetched)
		}
		if st := w.Status()[0]; st.LastError != "another server leads" {
			t.Errorf("status %+v", st)
		}
	})
}
