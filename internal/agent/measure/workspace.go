package measure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/agent/cgroup"
	"github.com/steadyfleet/steady/internal/agent/metrics"
	"github.com/steadyfleet/steady/internal/agent/procfs"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// Target is a running container to measure. PID is its first process as the
// host sees it. ContainerID, in full, keeps a process that got the same number since from
// being taken for it; without one the process's own control group counts.
type Target struct {
	Name        string
	PID         int
	ContainerID string
}

func (t Target) key() string {
	if t.ContainerID == "" {
		return "name:" + t.Name
	}
	return t.ContainerID
}

// known is what is remembered of a container between samples.
type known struct {
	pid       int
	group     *cgroup.Group
	groups    []byte // of /proc/PID/cgroup, as long as it says the same
	procGroup string
	procNet   string
	ownNet    bool
	netDenied bool
	prevAt    clock.Instant
	prevCPU   *uint64 // microseconds
	seen      bool
}

// errGone says that a container is not there any more.
var errGone = errors.New("the container is gone")

// workspaces measures the targets that still run.
func (c *Collector) workspaces(now clock.Instant, targets []Target, stop func() bool, problem func(error)) []metrics.Workspace {
	if len(targets) > metrics.MaxWorkspaces {
		problem(fmt.Errorf("there are more than %d workspaces: the others are not measured", metrics.MaxWorkspaces))
		targets = targets[:metrics.MaxWorkspaces]
	}
	for _, k := range c.known {
		k.seen = false
	}
	c.mountsFresh, c.netDenied = false, false
	out := make([]metrics.Workspace, 0, len(targets))
	for _, t := range targets {
		if stop() {
			problem(errors.New("the collection was stopped before all workspaces were measured"))
			break
		}
		w, err := c.workspace(now, t, problem)
		if err == nil {
			out = append(out, w)
		} else if !errors.Is(err, errGone) && !errors.Is(err, cgroup.ErrForeign) && !procfs.Vanished(err) {
			problem(fmt.Errorf("workspace %s is not measured: %w", t.Name, err))
		}
	}
	if c.netDenied {
		problem(errors.New("the network of workspaces is not measured: run the agent as root or with CAP_SYS_PTRACE"))
	}
	for key, k := range c.known {
		if !k.seen {
			delete(c.known, key)
		}
	}
	return out
}

// workspace measures one container. What its kernel does not count is absent.
func (c *Collector) workspace(now clock.Instant, t Target, problem func(error)) (metrics.Workspace, error) {
	if t.PID <= 0 {
		return metrics.Workspace{}, errGone
	}
	k, err := c.lookUp(t)
	if err != nil {
		return metrics.Workspace{}, err
	}
	w := metrics.Workspace{Name: metrics.Text(t.Name)}
	c.netDenied = c.netDenied || k.netDenied
	if k.ownNet {
		b, err := c.files.Content(k.procNet)
		if err != nil {
			return metrics.Workspace{}, err
		}
		rx, tx := sumNet(b)
		w.NetRxBytes, w.NetTxBytes = new(metrics.Count(rx)), new(metrics.Count(tx))
	}
	// Only after the network counters: the process number is still the container's.
	if err := c.verify(k, t); err != nil {
		return metrics.Workspace{}, err
	}
	micros, cpuErr := k.group.CPU(&c.files)
	used, limit, memErr := k.group.Memory(&c.files)
	read, written, ioErr := k.group.IO(&c.files)
	tasks, tasksErr := k.group.Tasks(&c.files)
	missing := false
	for _, err := range []error{cpuErr, memErr, ioErr, tasksErr} {
		if procfs.Vanished(err) { // the container, or a controller that is not switched on
			missing = true
		} else if err != nil {
			problem(fmt.Errorf("workspace %s is measured in part: %w", t.Name, err))
		}
	}
	if missing && c.gone(k) {
		return metrics.Workspace{}, errGone
	}
	w.CPUMicros, w.MemBytes, w.MemLimitBytes = counted(micros), counted(used), counted(limit)
	w.IOReadBytes, w.IOWrittenBytes, w.Pids = counted(read), counted(written), counted(tasks)
	if micros != nil && k.prevCPU != nil {
		w.CPUPermille = rate(*k.prevCPU, *micros, now.Sub(k.prevAt))
	}
	k.prevCPU, k.prevAt, k.seen = micros, now, true
	c.known[t.key()] = k // only now: it is the container's
	return w, nil
}

// rate returns microseconds of CPU per interval in thousandths of one CPU. It
// is absent when no time passed or the counter started again.
func rate(before, now uint64, interval clock.Duration) *int64 {
	if interval <= 0 || now < before {
		return nil
	}
	return new(metrics.Count((now - before) / uint64(interval))) // µs per ms are thousandths
}

// lookUp returns what is known of a container, found anew for a new process.
func (c *Collector) lookUp(t Target) (*known, error) {
	if k := c.known[t.key()]; k != nil && k.pid == t.PID {
		return k, nil
	}
	dir := c.opts.Proc + "/" + strconv.Itoa(t.PID)
	net, err := os.Readlink(dir + "/ns/net")
	if err != nil && !errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	k := &known{pid: t.PID, procGroup: dir + "/cgroup", procNet: dir + "/net/dev",
		netDenied: err != nil, ownNet: err == nil && !slices.Contains(c.hostNets(), net)}
	return k, nil
}

// hostNets names the host's network and the agent's own: what runs in them has
// no counters of its own.
func (c *Collector) hostNets() []string {
	var out []string
	for _, p := range []string{"/1/ns/net", "/self/ns/net"} {
		if net, err := os.Readlink(c.opts.Proc + p); err == nil {
			out = append(out, net)
		}
	}
	return out
}

// verify checks that the process still belongs to the container, and finds the
// files that count for it when its control groups are new.
func (c *Collector) verify(k *known, t Target) error {
	b, err := c.files.Content(k.procGroup)
	if err != nil {
		return err
	}
	if k.groups != nil && bytes.Equal(b, k.groups) {
		return nil
	}
	raw := bytes.Clone(b)
	group, err := c.mounts.Find(raw, t.ContainerID)
	if err == nil && group == nil && !c.mountsFresh {
		if err = c.readMounts(); err == nil {
			group, err = c.mounts.Find(raw, t.ContainerID)
		}
	}
	switch {
	case err != nil:
		return err
	case group == nil:
		return fmt.Errorf("no control group of process %d is mounted below %s: mount the host's /sys/fs/cgroup there", t.PID, c.opts.Sys)
	}
	k.group, k.groups = group, raw
	return nil
}

func (c *Collector) readMounts() error {
	b, err := c.files.Content(c.opts.Proc + "/self/mountinfo")
	if err != nil {
		return err
	}
	c.mounts, c.mountsFresh = cgroup.ParseMounts(b, c.opts.Sys), true
	return nil
}

// sumNet adds up the interfaces of a container, without loopback.
func sumNet(b []byte) (rx, tx uint64) {
	parseNetDev(b, func(l netLine) {
		if string(l.name) != "lo" {
			rx, tx = procfs.Add(rx, l.rx), procfs.Add(tx, l.tx)
		}
	})
	return rx, tx
}

// gone reports that the container's process or one of its control groups is not
// there any more.
func (c *Collector) gone(k *known) bool { return !exists(k.procGroup) || k.group.Gone() }

// counted makes a counter fit for a sample.
func counted(n *uint64) *int64 {
	if n == nil {
		return nil
	}
	return new(metrics.Count(*n))
}
