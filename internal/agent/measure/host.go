package measure

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"
)

// host measures the machine. Each file that cannot be read is a problem and
// leaves its values absent.
func (c *Collector) host(problem func(error)) *Host {
	h := &Host{}
	for _, part := range []func(*Host) error{c.readStat, c.readLoad, c.readMem, c.readUptime,
		c.readKernel, c.readProcesses, c.readNet, c.readBlock} {
		if err := part(h); err != nil {
			problem(err)
		}
	}
	for i, path := range c.opts.DiskPaths {
		if i == MaxDisks {
			problem(fmt.Errorf("there are more than %d disk paths: the others are not measured", MaxDisks))
			break
		}
		d, err := c.disks.read(path, readDisk, diskPatience)
		if err != nil {
			problem(err)
			continue
		}
		d.Path = Text(d.Path)
		h.Disks = append(h.Disks, d)
	}
	return h
}

// cpuTimes are what all CPUs spent since boot, in seconds. Guest time is part of
// user time and is not added again; waiting for a disk is not work.
type cpuTimes struct{ busy, total float64 }

func (c *Collector) readStat(h *Host) error {
	st, err := c.proc.Stat()
	if err != nil {
		return err
	}
	if len(st.CPU) == 0 {
		return fmt.Errorf("%s/stat does not list the CPUs", c.opts.Proc)
	}
	t := st.CPUTotal
	now := cpuTimes{busy: t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal}
	now.total = now.busy + t.Idle + t.Iowait
	h.CPUCount = new(int64(len(st.CPU)))
	if c.prevStat != nil {
		h.CPUPermille = busyShare(*c.prevStat, now)
	}
	c.prevStat = &now
	return nil
}

// busyShare returns how busy the CPUs were between two readings, in thousandths.
// It is nil when no time passed or a counter went back: the host, or a CPU, came anew.
func busyShare(before, now cpuTimes) *int64 {
	if now.total <= before.total {
		return nil
	}
	busy := max(0, now.busy-before.busy) // idle time may have been estimated too low before
	return new(int64(min(1000, 1000*busy/(now.total-before.total)+0.5)))
}

func (c *Collector) readLoad(h *Host) error {
	l, err := c.proc.LoadAvg()
	if err != nil {
		return err
	}
	h.Load1Milli = new(Count(uint64(l.Load1*1000 + 0.5)))
	return nil
}

func (c *Collector) readMem(h *Host) error {
	m, err := c.proc.Meminfo()
	if err != nil {
		return err
	}
	h.MemTotalBytes, h.MemAvailableBytes = count(m.MemTotalBytes), count(m.MemAvailableBytes)
	h.SwapTotalBytes, h.SwapFreeBytes = count(m.SwapTotalBytes), count(m.SwapFreeBytes)
	return nil
}

func (c *Collector) readUptime(h *Host) error {
	b, err := os.ReadFile(c.opts.Proc + "/uptime")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(b), " ")
	n, err := strconv.ParseFloat(first, 64)
	if err != nil || !(n >= 0 && n < MaxInteger) {
		return fmt.Errorf("%s/uptime does not begin with a time", c.opts.Proc)
	}
	h.UptimeSeconds = new(int64(n))
	return nil
}

func (c *Collector) readKernel(h *Host) error {
	b, err := os.ReadFile(c.opts.Proc + "/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	h.Kernel = Text(string(b))
	return nil
}

func (c *Collector) readProcesses(h *Host) error {
	all, err := c.proc.AllProcs()
	if err != nil {
		return err
	}
	h.Processes = new(int64(len(all)))
	return nil
}

// netDev reads the counters of the interfaces that a process sees.
func (c *Collector) netDev(pid string) (procfs.NetDev, error) {
	fs, err := procfs.NewFS(c.opts.Proc + "/" + pid)
	if err != nil {
		return nil, err
	}
	return fs.NetDev()
}

// readNet sums the interfaces that have hardware, or, where none has (a host
// that is itself a container), those that no other stands for.
func (c *Collector) readNet(h *Host) error {
	dev, err := c.netDev("1")
	if errors.Is(err, os.ErrPermission) || vanished(err) {
		dev, err = c.netDev("self")
	}
	if err != nil {
		return err
	}
	var hard, soft struct {
		n      int
		rx, tx uint64
	}
	for name, l := range dev { // order-free: the sums are, and the names are sorted below
		if inner(name) {
			continue
		}
		h.Interfaces = append(h.Interfaces, Text(name))
		sum := &soft
		if exists(c.opts.Sys + "/class/net/" + name + "/device") {
			sum = &hard
		} else if stacked.MatchString(name) {
			continue
		}
		sum.n, sum.rx, sum.tx = sum.n+1, sum.rx+l.RxBytes, sum.tx+l.TxBytes
	}
	if hard.n == 0 {
		hard = soft
	}
	h.NetRxBytes, h.NetTxBytes = new(Count(hard.rx)), new(Count(hard.tx))
	slices.Sort(h.Interfaces)
	if len(h.Interfaces) > MaxInterfaces {
		h.Interfaces = h.Interfaces[:MaxInterfaces]
		return fmt.Errorf("there are more than %d network interfaces: the others are not listed", MaxInterfaces)
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

// sector is what the kernel counts disks in, whatever the device's own, in bytes.
const sector = 512

// readBlock sums the disks: whole devices with hardware, without partitions,
// loop, RAM and stacked devices, whose traffic the disks below count.
func (c *Collector) readBlock(h *Host) error {
	fs, err := blockdevice.NewFS(c.opts.Proc, c.opts.Sys)
	if err != nil {
		return err
	}
	stats, err := fs.ProcDiskstats()
	if err != nil {
		return err
	}
	var read, written uint64
	for _, d := range stats {
		if strings.HasPrefix(d.DeviceName, "loop") || strings.HasPrefix(d.DeviceName, "ram") || nvmePath.MatchString(d.DeviceName) {
			continue
		}
		if exists(c.opts.Sys + "/block/" + strings.ReplaceAll(d.DeviceName, "/", "!") + "/device") {
			read, written = read+d.ReadSectors*sector, written+d.WriteSectors*sector
		}
	}
	h.DiskReadBytes, h.DiskWrittenBytes = new(Count(read)), new(Count(written))
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
