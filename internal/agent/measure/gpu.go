// This file measures GPUs by nvidia-smi, beside whoever asks: at most one run
// at a time, which is killed when it hangs, and more seldom while it fails.
package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
)

const (
	maxOutput  = 256 << 10
	maxBackoff = 10 * clock.Minute
	killGrace  = 2 * clock.Second // for an end after it was killed
	noDevices  = 6                // nvidia-smi's exit code when it finds none
)

// GPUOptions are of a gpuSampler. The zero value of each is the usual one.
type GPUOptions struct {
	Command  string         // a path or a name to look up; "nvidia-smi"
	Interval clock.Duration // least time between two runs; 15 s
	Timeout  clock.Duration // after which a run is killed; 10 s
}

// gpuSampler keeps what nvidia-smi told last. Its methods may be called from several
// goroutines.
type gpuSampler struct {
	o       GPUOptions
	ctx     context.Context
	cancel  context.CancelFunc
	workers sync.WaitGroup

	mu      sync.Mutex
	due     clock.Instant
	running bool
	since   clock.Instant
	list    []GPU
	listAt  clock.Instant
	err     error
	failed  int // in a row
}

// newGPUSampler returns a sampler, which runs nothing before it is asked. Close it.
func newGPUSampler(o GPUOptions) *gpuSampler {
	if o.Command == "" {
		o.Command = "nvidia-smi"
	}
	if o.Interval <= 0 {
		o.Interval = 15 * clock.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * clock.Second
	}
	s := &gpuSampler{o: o}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close kills a running nvidia-smi and waits a moment for its end; one that
// hangs in the driver does not end.
func (s *gpuSampler) Close() {
	s.cancel()
	done := make(chan struct{})
	go func() {
		s.workers.Wait()
		close(done)
	}()
	timer := time.NewTimer((2 * killGrace).Std())
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// Sample returns the last result unless it is stale, and what is wrong, and
// starts the next run when it is due. It does not wait. Now is on any clock that
// does not go back. A host without nvidia-smi has no GPUs, which is not wrong.
func (s *gpuSampler) Sample(now clock.Instant) ([]GPU, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		if now.Sub(s.since) > s.o.Timeout+2*killGrace {
			return nil, errors.New("nvidia-smi does not end even when killed: the GPU driver hangs; restart the host")
		}
		return s.fresh(now), s.err
	}
	if now < s.due {
		return s.fresh(now), s.err
	}
	path, err := exec.LookPath(s.o.Command)
	if err != nil { // a host without NVIDIA GPUs, or none yet
		s.list, s.err, s.failed, s.due = nil, nil, 0, now.Add(s.o.Interval)
		return nil, nil
	}
	s.running, s.since = true, now
	s.workers.Go(func() { s.refresh(path, now) })
	return s.fresh(now), s.err
}

// fresh returns the last result while it says something about now.
func (s *gpuSampler) fresh(now clock.Instant) []GPU {
	if now.Sub(s.listAt) > 3*s.o.Interval+s.o.Timeout {
		return nil
	}
	return s.list
}

func (s *gpuSampler) refresh(path string, started clock.Instant) {
	list, err := runNvidiaSMI(s.ctx, path, s.o.Timeout)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = false
	if s.ctx.Err() != nil {
		return
	}
	s.list, s.listAt, s.err = list, started, err
	if err == nil {
		s.failed, s.due = 0, started.Add(s.o.Interval)
		return
	}
	s.due = started.Add(gpuBackoff(s.o.Interval, s.failed))
	s.failed++
}

// gpuBackoff doubles the interval with every failure in a row, up to maxBackoff.
func gpuBackoff(interval clock.Duration, failed int) clock.Duration {
	d := min(2*interval, max(maxBackoff, interval))
	for range min(failed, 32) {
		d = min(2*d, max(maxBackoff, interval))
	}
	return d
}

// runNvidiaSMI runs it once, in a process group of its own that is killed
// when the time is up.
func runNvidiaSMI(ctx context.Context, path string, timeout clock.Duration) ([]GPU, error) {
	timed, cancel := context.WithTimeout(ctx, timeout.Std())
	defer cancel()
	cmd := exec.CommandContext(timed, path, "--query-gpu="+gpuFields, "--format=csv,noheader,nounits")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killGrace.Std()
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	var out, complaint boundedOutput
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // it left something behind that holds its output
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	var exit *exec.ExitError
	switch {
	case timed.Err() != nil:
		return nil, fmt.Errorf("nvidia-smi did not end within %s and was killed: run it by hand", timeout)
	case errors.As(err, &exit) && exit.ExitCode() == noDevices:
		return nil, nil
	case err != nil:
		if b := bytes.TrimSpace(append(out.b, complaint.b...)); len(b) > 0 {
			return nil, fmt.Errorf("nvidia-smi failed (%w): %s", err, Text(string(b[:min(len(b), 120)])))
		}
		return nil, fmt.Errorf("nvidia-smi failed (%w): run it by hand", err)
	case out.over:
		return nil, fmt.Errorf("nvidia-smi printed more than %d bytes: run it by hand", maxOutput)
	}
	return parseGPUs(out.b)
}

// boundedOutput keeps the first maxOutput bytes.
type boundedOutput struct {
	b    []byte
	over bool
}

func (h *boundedOutput) Write(p []byte) (int, error) {
	if room := maxOutput - len(h.b); len(p) > room {
		h.b, h.over = append(h.b, p[:room]...), true
	} else {
		h.b = append(h.b, p...)
	}
	return len(p), nil
}
