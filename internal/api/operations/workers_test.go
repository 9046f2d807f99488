package operations

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// shellWorkers run a line of the shell as their worker. Told gets the id of a job that is new.
func shellWorkers(t *testing.T, line string) (*workers, chan string) {
	stopping, told := make(chan struct{}), make(chan string, 100)
	w := newWorkers(stopping, func(id string) { told <- id })
	w.command = []string{"/bin/sh", "-c", line}
	t.Cleanup(func() {
		close(stopping)
		w.running.Wait()
	})
	return w, told
}

func asking(id, input string) *job {
	return &job{Forecast: operator.Forecast{ID: id}, prepare: func(context.Context) (func(io.Writer) error, error) {
		return func(w io.Writer) error { _, err := io.WriteString(w, input); return err }, nil
	}}
}

// ended waits until a job has its answer.
func (w *workers) ended(t *testing.T, told chan string, id string) operator.Forecast {
	t.Helper()
	for {
		f, known := w.get(id)
		if !known {
			t.Fatalf("%s is forgotten", id)
		}
		if f.State == operator.ForecastDone || f.State == operator.ForecastFailed {
			return f
		}
		<-told
	}
}

// TestWorkerThatDoesNotAnswer: whatever becomes of its process, a job ends and says why, and the
// next one is done.
func TestWorkerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, line, words string }{
		{"is killed", "cat >/dev/null; kill -9 $$", "signal: killed"},
		{"is killed before it read", "kill -9 $$", "signal: killed"},
		{"hangs", "cat >/dev/null; sleep 1000 & wait", "not done within"},
		{"hangs and does not read", "sleep 1000", "not done within"},
		{"says nothing", "cat >/dev/null", "said nothing"},
		{"complains", "cat >/dev/null; echo 'fatal error: out of memory' >&2; exit 2", "exit status 2): fatal error: out of memory"},
		{"speaks of something else", "echo hello", `said "hello"`},
		{"finds too much", `cat >/dev/null; head -c 100000 /dev/zero | tr '\0' 1`, "too long"},
		{"says why not", `cat >/dev/null; echo '{"error":"no rollout x"}'`, "no rollout x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, told := shellWorkers(t, c.line)
			w.time, w.found = 300*time.Millisecond, 70_000
			if !strings.Contains(c.words, "within") {
				w.time = time.Minute
			}
			testkit.Value(w.ask(asking("a", strings.Repeat("x", 1<<20))))(t)
			if f := w.ended(t, told, "a"); f.State != operator.ForecastFailed || !strings.Contains(f.Error, c.words) {
				t.Errorf("%+v", f)
			}
			w.mu.Lock()
			w.command[2] = `cat >/dev/null; echo '{"found":1}'`
			w.mu.Unlock()
			w.time = time.Minute
			testkit.Value(w.ask(asking("a", "")))(t) // it is tried again
			if f := w.ended(t, told, "a"); f.State != operator.ForecastDone || string(f.Found) != "1" {
				t.Errorf("then %+v", f)
			}
		})
	}
}

// TestWorkersTakeTurns: one job is done at a time, so many wait and no more, the same question is
// one run, and old answers are forgotten.
func TestWorkersTakeTurns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, starts := filepath.Join(dir, "go"), filepath.Join(dir, "starts")
	testkit.Must(t, syscall.Mkfifo(fifo, 0o600))
	w, told := shellWorkers(t, fmt.Sprintf(`echo x >> %s; cat >/dev/null; echo '{"done":1,"runs":3}'; read line < %s; echo '{"found":"'$line'"}'`, starts, fifo))
	w.kept = 3
	for i := range w.queue + 1 {
		if f := testkit.Value(w.ask(asking(strconv.Itoa(i), "")))(t); f.State != operator.ForecastQueued {
			t.Errorf("%+v", f)
		}
		for i == 0 { // it is running, so that all others wait
			if f, _ := w.get("0"); f.State == operator.ForecastRunning && f.Done == 1 && f.Runs == 3 {
				break
			}
			<-told
		}
	}
	if _, err := w.ask(asking("more", "")); !errors.Is(err, wire.ErrTooMuch) {
		t.Errorf("one more: %v", err)
	}
	testkit.Value(w.ask(asking("0", "")))(t)
	testkit.Value(w.ask(asking("8", "")))(t)
	for i := range w.queue + 1 {
		if f, _ := w.get(strconv.Itoa(w.queue)); i < w.queue && f.State != operator.ForecastQueued {
			t.Errorf("%d are done, and the last one is %s", i, f.State)
		}
		testkit.Must(t, os.WriteFile(fifo, []byte(strconv.Itoa(i)+"\n"), 0o600))
		if f := w.ended(t, told, strconv.Itoa(i)); string(f.Found) != strconv.Quote(strconv.Itoa(i)) {
			t.Errorf("%+v", f)
		}
	}
	testkit.Value(w.ask(asking("8", "")))(t)
	if raw := testkit.Value(os.ReadFile(starts))(t); len(raw) != 2*(w.queue+1) {
		t.Errorf("%d processes for %d questions", len(raw)/2, w.queue+1)
	}
	w.running.Wait() // the one that is through forgets
	if len(w.jobs) != w.kept {
		t.Errorf("%d answers are kept, not %d", len(w.jobs), w.kept)
	}
}
