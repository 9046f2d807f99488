package operations

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/wire"
)

// bounds are those of workers and of what they found.
type bounds struct {
	queue  int           // jobs that wait
	time   time.Duration // of one process
	memory uint64        // of one, in bytes
	found  int           // bytes of one answer
	kept   int           // answers, and
	bytes  int           // bytes of all together
}

var defaultBounds = bounds{queue: 8, time: 5 * time.Minute, memory: 1 << 30, found: 8 << 20, kept: 64, bytes: 32 << 20}

// workers plays jobs ahead, each in a process of its own and one at a time, and keeps what they
// found until it is too much, or the server ends.
type workers struct {
	bounds
	command  []string // of a worker
	stopping <-chan struct{}
	told     func(id string) // something about a job is new

	running sync.WaitGroup // what does the jobs, while there are some
	mu      sync.Mutex
	busy    bool
	jobs    []*job // the one that was asked last at the end
}

// job is a question with its answer. Only what the workers' lock guards changes.
type job struct {
	operator.Forecast
	// prepare returns what writes the worker's input, which may take a while.
	prepare func(ctx context.Context) (func(io.Writer) error, error)
}

func newWorkers(stopping <-chan struct{}, told func(id string)) *workers {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return &workers{bounds: defaultBounds, command: []string{self, replay.WorkerVerb}, stopping: stopping, told: told}
}

// ask has a job done, unless the same one is, or was. One that failed is tried again.
func (w *workers) ask(j *job) (operator.Forecast, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := 0
	for i, old := range w.jobs {
		switch {
		case old.ID == j.ID && old.State != operator.ForecastFailed:
			return old.Forecast, nil
		case old.ID == j.ID:
			w.jobs = slices.Delete(w.jobs, i, i+1)
			return w.enqueue(j)
		case old.State == operator.ForecastQueued:
			waiting++
		}
	}
	if waiting >= w.queue {
		return operator.Forecast{}, &wire.Refusal{Kind: wire.ErrTooMuch, Message: fmt.Sprintf("%d forecasts wait already; try again in a while", waiting), After: 10 * clock.Second}
	}
	return w.enqueue(j)
}

// enqueue queues a job. The caller has mu.
func (w *workers) enqueue(j *job) (operator.Forecast, error) {
	j.State = operator.ForecastQueued
	w.jobs = append(w.jobs, j)
	if !w.busy {
		w.busy = true
		w.running.Go(w.run)
	}
	return j.Forecast, nil
}

// get is where a job stands.
func (w *workers) get(id string) (operator.Forecast, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.jobs {
		if j.ID == id {
			return j.Forecast, true
		}
	}
	return operator.Forecast{}, false
}

// run does the jobs that wait, until none does.
func (w *workers) run() {
	runtime.LockOSThread() // a worker dies with the thread that started it
	defer runtime.UnlockOSThread()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		select {
		case <-w.stopping:
			stop()
		case <-ctx.Done():
		}
	}()
	defer stop()
	for j := w.next(); j != nil; j = w.next() {
		found, err := w.play(ctx, j)
		w.set(j, func(f *operator.Forecast) {
			f.State, f.Found = operator.ForecastDone, found
			if err != nil {
				f.State, f.Error = operator.ForecastFailed, err.Error()
			}
		})
	}
}

// next takes the job that waits the longest.
func (w *workers) next() *job {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
	for _, j := range w.jobs {
		if j.State == operator.ForecastQueued {
			j.State = operator.ForecastRunning
			return j
		}
	}
	w.busy = false
	return nil
}

// forget drops the answers that were asked for first, as long as they are too many. The caller
// has mu.
func (w *workers) forget() {
	n, size := 0, 0
	for i := len(w.jobs) - 1; i >= 0; i-- {
		j := w.jobs[i]
		if j.State != operator.ForecastDone && j.State != operator.ForecastFailed {
			continue
		}
		n++
		if size += len(j.Found); n > w.kept || size > w.bytes {
			w.jobs = slices.Delete(w.jobs, i, i+1)
		}
	}
}

func (w *workers) set(j *job, change func(*operator.Forecast)) {
	w.mu.Lock()
	change(&j.Forecast)
	w.mu.Unlock()
	w.told(j.ID)
}

// play has a process do a job.
func (w *workers) play(ctx context.Context, j *job) (json.RawMessage, error) {
	write, err := j.prepare(ctx)
	j.prepare = nil // it may hold a release
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "steady-worker-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // of the machine's temporary files
	timed, cancel := context.WithTimeout(ctx, w.time)
	defer cancel()
	cmd := exec.CommandContext(timed, w.command[0], w.command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var complaint lastWords
	cmd.Stderr = &complaint
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	wrote := make(chan error, 1)
	go func() { wrote <- errors.Join(write(in), in.Close()) }()
	said, heard := w.listen(j, out)
	if heard != nil {
		cancel()
	}
	failed := <-wrote
	ended := cmd.Wait()
	switch {
	case said.Found != nil:
		return said.Found, nil
	case said.Error != "":
		return nil, errors.New(said.Error)
	case ctx.Err() != nil:
		return nil, errors.New("the server stopped meanwhile")
	case timed.Err() == context.DeadlineExceeded:
		return nil, fmt.Errorf("it was not done within %s; ask for fewer runs", w.time)
	case heard != nil:
		return nil, heard
	case ended != nil:
		return nil, fmt.Errorf("the process that played it ended (%w)%s; it may have %d MiB of memory: ask for fewer runs", ended, complaint.words(), w.memory>>20)
	}
	return nil, cmp.Or(failed, errors.New("the process that played it said nothing"))
}

// listen takes what a worker says until it ends. The last line counts.
func (w *workers) listen(j *job, out io.Reader) (last replay.Said, err error) {
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 64<<10), w.found)
	for lines.Scan() {
		last = replay.Said{}
		if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			return last, fmt.Errorf("the process that played it said %.80q", lines.Text())
		}
		if last.Runs > 0 {
			w.set(j, func(f *operator.Forecast) { f.Done, f.Runs = last.Done, last.Runs })
		}
	}
	if err := lines.Err(); err != nil {
		return replay.Said{}, fmt.Errorf("read what the worker found: %w", err)
	}
	return last, nil
}

// lastWords keeps the first line of what a process complains of.
type lastWords struct{ b bytes.Buffer }

func (l *lastWords) Write(p []byte) (int, error) {
	l.b.Write(p[:min(len(p), max(0, 1000-l.b.Len()))])
	return len(p), nil
}

func (l *lastWords) words() string {
	line, _, _ := strings.Cut(strings.TrimSpace(l.b.String()), "\n")
	if line == "" {
		return ""
	}
	return ": " + line
}
