package measure

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/agent/metrics"
	"github.com/steadyfleet/steady/internal/agent/procfs"
)

// host measures the machine. Each file that cannot be read is a problem and
// leaves its values absent.
func (c *Collector) host(problem func(error)) *metrics.Host {
	h := &metrics.Host{}
	for _, part := range []func(*metrics.Host) error{c.readStat, c.readLoad, c.readMem, c.readUptime,
		c.readKernel, c.readProcesses, c.readNet, c.readBlock} {
		if err := part(h); err != nil {
			problem(err)
		}
	}
	for i, path := range c.opts.DiskPaths {
		if i == metrics.MaxDisks {
			problem(fmt.Errorf("there are more than %d disk paths: the others are not measured", metrics.MaxDisks))
			break
		}
		d, err := c.disks.read(path, readDisk, diskPatience)
		if err != nil {
			problem(err)
			continue
		}
		d.Path = metrics.Text(d.Path)
		h.Disks = append(h.Disks, d)
	}
	return h
}

func (c *Collector) readStat(h *metrics.Host) error {
	b, err := c.files.Content(c.opts.Proc + "/stat")
	if err != nil {
		return err
	}
	now, ok := parseStat(b)
	if !ok {
		return fmt.Errorf("%s/stat does not begin with the CPUs' times", c.opts.Proc)
	}
	h.CPUCount = new(now.cpus)
	if c.prevStat != nil {
		if share, ok := busyShare(*c.prevStat, now); ok {
			h.CPUPermille = &share
		}
	}
	c.prevStat = &now
	return nil
}

func (c *Collector) readLoad(h *metrics.Host) error {
	b, err := c.files.Content(c.opts.Proc + "/loadavg")
	if err != nil {
		return err
	}
	n, ok := procfs.Milli(procfs.FieldAt(b, 0))
	if !ok {
		return fmt.Errorf("%s/loadavg does not begin with a load", c.opts.Proc)
	}
	h.Load1Milli = new(metrics.Count(n))
	return nil
}

func (c *Collector) readMem(h *metrics.Host) error {
	b, err := c.files.Content(c.opts.Proc + "/meminfo")
	if err != nil {
		return err
	}
	m := parseMeminfo(b)
	h.MemTotalBytes, h.MemAvailableBytes, h.SwapTotalBytes, h.SwapFreeBytes = m.total, m.available, m.swapTotal, m.swapFree
	return nil
}

func (c *Collector) readUptime(h *metrics.Host) error {
	b, err := c.files.Content(c.opts.Proc + "/uptime")
	if err != nil {
		return err
	}
	n, ok := procfs.Milli(procfs.FieldAt(b, 0))
	if !ok {
		return fmt.Errorf("%s/uptime does not begin with a time", c.opts.Proc)
	}
	h.UptimeSeconds = new(metrics.Count(n / 1000))
	return nil
}

func (c *Collector) readKernel(h *metrics.Host) error {
	b, err := c.files.Content(c.opts.Proc + "/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	h.Kernel = metrics.Text(string(b))
	return nil
}

// readProcesses counts the folders of /proc with a number for a name.
func (c *Collector) readProcesses(h *metrics.Host) error {
	var n int64
	err := c.files.Each(c.opts.Proc, func(name []byte) {
		if name[0] >= '1' && name[0] <= '9' {
			n++
		}
	})
	if err != nil {
		return err
	}
	h.Processes = &n
	return nil
}

// readNet sums the interfaces that have hardware, or, where none has (a host
// that is itself a container), those that no other stands for.
func (c *Collector) readNet(h *metrics.Host) error {
	b, err := c.files.Content(c.opts.Proc + "/1/net/dev")
	if errors.Is(err, os.ErrPermission) || procfs.Vanished(err) {
		b, err = c.files.Content(c.opts.Proc + "/self/net/dev")
	}
	if err != nil {
		return err
	}
	var hard, soft struct {
		n      int
		rx, tx uint64
	}
	parseNetDev(b, func(l netLine) {
		name := string(l.name)
		if inner(name) {
			return
		}
		h.Interfaces = append(h.Interfaces, metrics.Text(name))
		sum := &soft
		if exists(c.opts.Sys + "/class/net/" + name + "/device") {
			sum = &hard
		} else if stacked.MatchString(name) {
			return
		}
		sum.n, sum.rx, sum.tx = sum.n+1, procfs.Add(sum.rx, l.rx), procfs.Add(sum.tx, l.tx)
	})
	if hard.n == 0 {
		hard = soft
	}
	h.NetRxBytes, h.NetTxBytes = new(metrics.Count(hard.rx)), new(metrics.Count(hard.tx))
	slices.Sort(h.Interfaces)
	if len(h.Interfaces) > metrics.MaxInterfaces {
		h.Interfaces = h.Interfaces[:metrics.MaxInterfaces]
		return fmt.Errorf("there are more than %d network interfaces: the others are not listed", metrics.MaxInterfaces)
	}
	return nil
}

// inner reports loopback, the host's end of a container's link, and the bridges
// that the engine makes: never the parent of a network that a bundle declares.
func inner(name string) bool {
	return name == "lo" || strings.HasPrefix(name, "veth") || name == "docker0" || name == "docker_gwbridge" || engineBridge.MatchString(name)
}

var (
	engineBridge = regexp.MustCompile(`^br-[0-9a-f]{12}$`)
	// What passes through these passes through another interface as well.
	stacked = regexp.MustCompile(`^(br|virbr|vmbr|bond|team|tun|tap|wg|ifb|dummy|vxlan|flannel|cali|cni|macvtap|ipvl|macvlan|sit|gre|ip6tnl|tunl)|[.]\d+$`)
	// Paths below a multipath device, which counts for them.
	nvmePath = regexp.MustCompile(`^nvme\d+c\d+n\d+$`)
)

// readBlock sums the disks: whole devices with hardware, without partitions,
// loop, RAM and stacked devices, whose traffic the disks below metrics.Count.
func (c *Collector) readBlock(h *metrics.Host) error {
	b, err := c.files.Content(c.opts.Proc + "/diskstats")
	if err != nil {
		return err
	}
	var read, written uint64
	parseDiskstats(b, func(name []byte, r, w uint64) {
		if bytes.HasPrefix(name, []byte("loop")) || bytes.HasPrefix(name, []byte("ram")) || nvmePath.Match(name) {
			return
		}
		if exists(c.opts.Sys + "/block/" + strings.ReplaceAll(string(name), "/", "!") + "/device") {
			read, written = procfs.Add(read, r), procfs.Add(written, w)
		}
	})
	h.DiskReadBytes, h.DiskWrittenBytes = new(metrics.Count(read)), new(metrics.Count(written))
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
