package metrics

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
	maxGPUOutput = 256 << 10
	maxBackoff   = 10 * clock.Minute
	killGrace    = 2 * clock.Second // for an end after it was killed
	noDevices    = 6                // nvidia-smi's exit code when it finds none
)

// gpus runs nvidia-smi beside the samples: at most one at a time, at most once
// per interval, more seldom while it fails.
type gpus struct {
	name              string
	interval, timeout clock.Duration
	ctx               context.Context
	cancel            context.CancelFunc
	workers           sync.WaitGroup

	mu      sync.Mutex
	due     clock.Instant
	running bool
	since   clock.Instant
	list    []GPU
	listAt  clock.Instant
	err     error
	failed  int // in a row
}

func (g *gpus) open(o Options) {
	g.name, g.interval, g.timeout = o.NvidiaSMI, o.GPUInterval, o.GPUTimeout
	g.ctx, g.cancel = context.WithCancel(context.Background())
}

// close kills a running nvidia-smi and waits a moment for its end; one that
// hangs in the driver does not end.
func (g *gpus) close() {
	g.cancel()
	done := make(chan struct{})
	go func() {
		g.workers.Wait()
		close(done)
	}()
	timer := time.NewTimer((2 * killGrace).Std())
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// sample returns the last result unless it is stale, and what is wrong, and
// starts the next run when it is due. It does not wait.
func (g *gpus) sample(now clock.Instant) ([]GPU, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running {
		if now.Sub(g.since) > g.timeout+2*killGrace {
			return nil, errors.New("nvidia-smi does not end even when killed: the GPU driver hangs; restart the host")
		}
		return g.fresh(now), g.err
	}
	if now < g.due {
		return g.fresh(now), g.err
	}
	path, err := exec.LookPath(g.name)
	if err != nil { // a host without NVIDIA GPUs, or none yet
		g.list, g.err, g.failed, g.due = nil, nil, 0, now.Add(g.interval)
		return nil, nil
	}
	g.running, g.since = true, now
	g.workers.Go(func() { g.refresh(path, now) })
	return g.fresh(now), g.err
}

// fresh returns the last result while it says something about now.
func (g *gpus) fresh(now clock.Instant) []GPU {
	if now.Sub(g.listAt) > 3*g.interval+g.timeout {
		return nil
	}
	return g.list
}

func (g *gpus) refresh(path string, started clock.Instant) {
	list, err := queryGPUs(g.ctx, path, g.timeout)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running = false
	if g.ctx.Err() != nil {
		return
	}
	g.list, g.listAt, g.err = list, started, err
	if err == nil {
		g.failed, g.due = 0, started.Add(g.interval)
		return
	}
	g.due = started.Add(backoff(g.interval, g.failed))
	g.failed++
}

// backoff doubles the interval with every failure in a row, up to maxBackoff.
func backoff(interval clock.Duration, failed int) clock.Duration {
	d := min(2*interval, max(maxBackoff, interval))
	for range min(failed, 32) {
		d = min(2*d, max(maxBackoff, interval))
	}
	return d
}

// queryGPUs runs nvidia-smi once, in a process group of its own that is killed
// when the time is up.
func queryGPUs(ctx context.Context, path string, timeout clock.Duration) ([]GPU, error) {
	timed, cancel := context.WithTimeout(ctx, timeout.Std())
	defer cancel()
	cmd := exec.CommandContext(timed, path, "--query-gpu="+gpuFields, "--format=csv,noheader,nounits")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killGrace.Std()
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	var out, complaint head
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
			return nil, fmt.Errorf("nvidia-smi failed (%w): %s", err, text(string(b[:min(len(b), 120)])))
		}
		return nil, fmt.Errorf("nvidia-smi failed (%w): run it by hand", err)
	case out.over:
		return nil, fmt.Errorf("nvidia-smi printed more than %d bytes: run it by hand", maxGPUOutput)
	}
	return parseGPUs(out.b)
}

// head keeps the first maxGPUOutput bytes.
type head struct {
	b    []byte
	over bool
}

func (h *head) Write(p []byte) (int, error) {
	if room := maxGPUOutput - len(h.b); len(p) > room {
		h.b, h.over = append(h.b, p[:room]...), true
	} else {
		h.b = append(h.b, p...)
	}
	return len(p), nil
}
