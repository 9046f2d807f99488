package measure

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"syscall"

	"github.com/prometheus/procfs"

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
	group     *cgroup
	groups    []procfs.Cgroup // of the process, as long as they are the same
	ownNet    bool
	netDenied bool
	prevAt    clock.Instant
	prevCPU   *uint64 // microseconds
	seen      bool
}

// errGone says that a container is not there any more.
var errGone = errors.New("the container is gone")

// workspaces measures the targets that still run.
func (c *Collector) workspaces(now clock.Instant, targets []Target, stop func() bool, problem func(error)) []Workspace {
	if len(targets) > MaxWorkspaces {
		problem(fmt.Errorf("there are more than %d workspaces: the others are not measured", MaxWorkspaces))
		targets = targets[:MaxWorkspaces]
	}
	for _, k := range c.known {
		k.seen = false
	}
	c.mountsFresh, c.netDenied = false, false
	out := make([]Workspace, 0, len(targets))
	for _, t := range targets {
		if stop() {
			problem(errors.New("the collection was stopped before all workspaces were measured"))
			break
		}
		w, err := c.workspace(now, t, problem)
		if err == nil {
			out = append(out, w)
		} else if !errors.Is(err, errGone) && !errors.Is(err, errForeign) && !vanished(err) {
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
func (c *Collector) workspace(now clock.Instant, t Target, problem func(error)) (Workspace, error) {
	if t.PID <= 0 {
		return Workspace{}, errGone
	}
	k, err := c.lookUp(t)
	if err != nil {
		return Workspace{}, err
	}
	proc, err := c.proc.Proc(t.PID)
	if err != nil {
		return Workspace{}, err
	}
	w := Workspace{Name: Text(t.Name)}
	c.netDenied = c.netDenied || k.netDenied
	if k.ownNet {
		rx, tx, err := sumNet(proc)
		if err != nil {
			return Workspace{}, err
		}
		w.NetRxBytes, w.NetTxBytes = new(Count(rx)), new(Count(tx))
	}
	// Only after the network counters: the process number is still the container's.
	if err := c.verify(k, t, proc); err != nil {
		return Workspace{}, err
	}
	micros, cpuErr := k.group.cpu()
	used, limit, memErr := k.group.memory()
	read, written, ioErr := k.group.io()
	tasks, tasksErr := k.group.tasks()
	missing := false
	for _, err := range []error{cpuErr, memErr, ioErr, tasksErr} {
		if vanished(err) { // the container, or a controller that is not switched on
			missing = true
		} else if err != nil {
			problem(fmt.Errorf("workspace %s is measured in part: %w", t.Name, err))
		}
	}
	if missing && (k.group.gone() || !exists(c.path(t.PID, "cgroup"))) {
		return Workspace{}, errGone
	}
	w.CPUMicros, w.MemBytes, w.MemLimitBytes = count(micros), count(used), count(limit)
	w.IOReadBytes, w.IOWrittenBytes, w.Pids = count(read), count(written), count(tasks)
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
	return new(Count((now - before) / uint64(interval))) // µs per ms are thousandths
}

// path names a file of a process.
func (c *Collector) path(pid int, file string) string {
	return c.opts.Proc + "/" + strconv.Itoa(pid) + "/" + file
}

// lookUp returns what is known of a container, found anew for a new process.
func (c *Collector) lookUp(t Target) (*known, error) {
	if k := c.known[t.key()]; k != nil && k.pid == t.PID {
		return k, nil
	}
	net, err := os.Readlink(c.path(t.PID, "ns/net"))
	if err != nil && !errors.Is(err, os.ErrPermission) {
		return nil, err
	}
	return &known{pid: t.PID, netDenied: err != nil, ownNet: err == nil && !slices.Contains(c.hostNets(), net)}, nil
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
// folders that count for it when its control groups are new.
func (c *Collector) verify(k *known, t Target, proc procfs.Proc) error {
	groups, err := proc.Cgroups()
	if err != nil {
		return err
	}
	if k.groups != nil && reflect.DeepEqual(groups, k.groups) {
		return nil
	}
	group, err := c.mounts.find(slices.Clone(groups), t.ContainerID)
	if err == nil && group == nil && !c.mountsFresh {
		if err = c.readMounts(); err == nil {
			group, err = c.mounts.find(slices.Clone(groups), t.ContainerID)
		}
	}
	switch {
	case err != nil:
		return err
	case group == nil:
		return fmt.Errorf("no control group of process %d is mounted below %s: mount the host's /sys/fs/cgroup there", t.PID, c.opts.Sys)
	}
	k.group, k.groups = group, groups
	return nil
}

func (c *Collector) readMounts() error {
	all, err := c.proc.GetMounts()
	if err != nil {
		return err
	}
	c.mounts, c.mountsFresh = mountsUnder(all, c.opts.Sys), true
	return nil
}

// sumNet adds up the interfaces of a container, without loopback.
func sumNet(proc procfs.Proc) (rx, tx uint64, err error) {
	dev, err := proc.NetDev()
	for name, l := range dev { // order-free: it only adds
		if name != "lo" {
			rx, tx = rx+l.RxBytes, tx+l.TxBytes
		}
	}
	return rx, tx, err
}

// vanished reports that a process or control group is not there any more.
func vanished(err error) bool {
	return errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENODEV)
}

// count makes a counter fit for a sample; nil stays nil.
func count(n *uint64) *int64 {
	if n == nil {
		return nil
	}
	return new(Count(*n))
}
