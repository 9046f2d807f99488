package measure

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/procfs"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Settings say what is measured. They may change at any time.
type Settings struct {
	Host       bool `json:"host"`
	GPU        bool `json:"gpu"`
	Workspaces bool `json:"workspaces"`
}

// Options of a Collector. The zero value of each is the usual one.
type Options struct {
	Settings  Settings
	Proc, Sys string   // where /proc and /sys are found
	DiskPaths []string // whose file systems are measured; at most metrics.MaxDisks

	GPUs GPUOptions

	// Report hears each problem once when it begins; for the log. It must not
	// call the collector.
	Report func(problem string)
}

// Input is what a sample carries beside what is measured.
type Input struct {
	Targets  []Target
	Runtimes []string
	Engine   *Engine
}

// Collector measures. It remembers the sample before, for rates. Its methods
// may be called from several goroutines.
type Collector struct {
	mu          sync.Mutex
	opts        Options
	proc        procfs.FS
	disks       disks
	gpus        *gpuSampler
	mounts      cgroupMounts
	mountsFresh bool
	netDenied   bool
	known       map[string]*known
	prevAt      clock.Instant
	prevStat    *cpuTimes
	reported    map[string]bool
}

// New returns a collector. Close it.
func New(o Options) *Collector {
	if o.Proc == "" {
		o.Proc = "/proc"
	}
	if o.Sys == "" {
		o.Sys = "/sys"
	}
	return &Collector{opts: o, gpus: newGPUSampler(o.GPUs), known: map[string]*known{}, reported: map[string]bool{}}
}

// Set changes what is measured from the next sample on.
func (c *Collector) Set(s Settings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.Settings = s
}

// Close ends a running nvidia-smi. The collector is not used after it.
func (c *Collector) Close() { c.gpus.Close() }

// Collect takes a sample. Now is the time of the sample, not zero, on any clock
// that does not go back; rates refer to the sample before and are absent in the first.
// GPUs are measured beside: a sample holds the result that was ready. It does
// not fail; see Sample.Problems. When ctx ends it returns what it has.
func (c *Collector) Collect(ctx context.Context, now clock.Instant, in Input) Sample {
	c.mu.Lock()
	defer c.mu.Unlock()
	var s Sample
	problem := func(err error) { s.Problems = append(s.Problems, Text(err.Error())) }
	if c.prevAt != 0 && now > c.prevAt {
		s.IntervalMillis = new(int64(min(now.Sub(c.prevAt), MaxInteger)))
	}
	c.prevAt = now
	for i, r := range in.Runtimes {
		if i == MaxRuntimes {
			problem(fmt.Errorf("there are more than %d runtimes: the others are not listed", MaxRuntimes))
			break
		}
		s.Runtimes = append(s.Runtimes, Text(r))
	}
	if e := in.Engine; e != nil {
		s.Engine = &Engine{Version: Text(e.Version), APIVersion: Text(e.APIVersion),
			StorageDriver: Text(e.StorageDriver), CgroupVersion: Text(e.CgroupVersion)}
	}
	var err error
	if c.proc, err = procfs.NewFS(c.opts.Proc); err != nil {
		problem(err)
	} else if c.opts.Settings.Host {
		s.Host = c.host(problem)
	}
	if s.Host == nil {
		c.prevStat = nil
	}
	if c.opts.Settings.GPU {
		list, failed := c.gpus.Sample(now)
		s.GPUs = list
		if failed != nil {
			problem(failed)
		}
	}
	if err == nil && c.opts.Settings.Workspaces {
		s.Workspaces = c.workspaces(now, in.Targets, func() bool { return ctx.Err() != nil }, problem)
	} else {
		clear(c.known)
	}
	c.report(&s)
	return s
}

// report bounds the problems and tells of those that are new.
func (c *Collector) report(s *Sample) {
	lasting := map[string]bool{}
	for _, p := range s.Problems {
		if !lasting[p] && !c.reported[p] && c.opts.Report != nil {
			c.opts.Report(p)
		}
		lasting[p] = true
	}
	c.reported = lasting
	if n := len(s.Problems); n > MaxProblems {
		s.Problems = append(s.Problems[:MaxProblems-1], fmt.Sprintf("and %d more problems: see the agent's log", n-MaxProblems+1))
	}
}
