package replay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/release"
)

// WorkerVerb is the argument with which a program runs as a worker: see Work.
const WorkerVerb = "play-ahead"

// toldEvery is how often a worker says how far it is.
const toldEvery = 200 * time.Millisecond

// Job is what a worker is asked: one line of JSON, with a history behind it.
type Job struct {
	// Memory bounds the worker, in bytes.
	Memory uint64 `json:"memory"`
	// Start and Horizon are of a forecast, as Only, the rollout that counts.
	Start   clock.Instant  `json:"start,omitempty"`
	Horizon clock.Duration `json:"horizon,omitempty"`
	Only    string         `json:"only,omitempty"`
	// Release is a packed release that is pushed at the start, if there is one.
	Release []byte               `json:"release,omitempty"`
	Assumed forecast.Assumptions `json:"assumed"`
	Runs    int                  `json:"runs,omitempty"`
	Seed    uint64               `json:"seed"`
	// Otherwise, if set, has the job be a rerun of the history with that changed.
	Otherwise *Wish `json:"otherwise,omitempty"`
}

// Said is one line of a worker. The last one has what it found, or why it found nothing.
type Said struct {
	Done  int             `json:"done,omitempty"`
	Runs  int             `json:"runs,omitempty"`
	Found json.RawMessage `json:"found,omitempty"`
	Error string          `json:"error,omitempty"`
}

// Work does the job that comes in, in a process of its own, which takes what no other wants
// of the processors. The folder that it runs in is its own. Describe words events.
func Work(in io.Reader, out io.Writer, describe func([]event.Entry) []string) error {
	lines := json.NewEncoder(out)
	found, err := work(bufio.NewReaderSize(in, 1<<20), lines, describe)
	if err != nil {
		return lines.Encode(Said{Error: err.Error()})
	}
	return lines.Encode(Said{Found: found})
}

func work(in *bufio.Reader, lines *json.Encoder, describe func([]event.Entry) []string) (json.RawMessage, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read the job: %w", err)
	}
	var j Job
	if err := json.Unmarshal(line, &j); err != nil {
		return nil, fmt.Errorf("read the job: %w", err)
	}
	if err := confine(j.Memory); err != nil {
		return nil, err
	}
	h, err := ReadHistory(in, nil)
	if err != nil {
		return nil, err
	}
	var told time.Time
	var rest breaks
	progress := func(done, of int) {
		if now := time.Now(); now.Sub(told) >= toldEvery {
			told = now
			_ = lines.Encode(Said{Done: done, Runs: of}) // the last line says whether anybody listens
		}
		rest.between()
	}
	var found any
	if j.Otherwise != nil {
		found, err = j.rerun(h, progress, describe)
	} else {
		found, err = j.forecast(h, progress)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(found)
}

// confine bounds this process: the least share of the processors, and no more memory.
func confine(memory uint64) error {
	if memory == 0 {
		return errors.New("a job has a bound of memory")
	}
	debug.SetMemoryLimit(int64(memory / 4 * 3))
	debug.SetGCPercent(400) // what a run leaves behind is garbage at once
	if err := syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: memory, Max: memory}); err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	if err := yield(); err != nil {
		return fmt.Errorf("give way to other processes: %w", err)
	}
	return nil
}

// yield has all threads of the process run where no other process wants to; those that begin
// later have it from them. The lowest nice value is not enough: who wakes up waits for the turn
// of such a thread to end.
func yield() error {
	idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
	for done, again := map[int]bool{}, true; again; { // until none began meanwhile
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		again = false
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if done[id] {
				continue
			}
			if err := unix.SchedSetAttr(id, &idle, 0); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
			done[id], again = true, true
		}
	}
	return yieldSession()
}

// yieldSession has what runs in other sessions come first as well, where Linux shares processors
// out to sessions and then within each (CONFIG_SCHED_AUTOGROUP), if this process began its own.
func yieldSession() error {
	if sid, err := unix.Getsid(0); err != nil || sid != os.Getpid() {
		return err
	}
	err := os.WriteFile("/proc/self/autogroup", []byte("19"), 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EAGAIN) { // there is none, or it was set a moment ago
		return nil
	}
	return err
}

func (j *Job) forecast(h *History, progress func(done, of int)) (*forecast.Report, error) {
	p, err := unpacked(j.Release)
	if err != nil {
		return nil, err
	}
	f, err := Ahead(h, p, j.Start)
	if err != nil {
		return nil, err
	}
	f.Horizon, f.Only = j.Horizon, j.Only
	if err := f.Knows(&j.Assumed); err != nil {
		return nil, err
	}
	runs := j.Runs
	if runs == 0 {
		runs = forecast.DefaultRuns(len(f.Hosts))
	}
	progress(0, runs)
	return forecast.Run(context.Background(), f, j.Assumed, runs, j.Seed, func(done int) { progress(done, runs) })
}

// unpacked reads a packed release, if there is one.
func unpacked(packed []byte) (*release.Plans, error) {
	if packed == nil {
		return nil, nil
	}
	dir, err := os.MkdirTemp(".", "release-")
	if err != nil {
		return nil, err
	}
	if err := release.Unpack(bytes.NewReader(packed), dir, release.DefaultCaps()); err != nil {
		return nil, err
	}
	root, fsys, err := release.Open(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return release.PlansOf(fsys)
}
