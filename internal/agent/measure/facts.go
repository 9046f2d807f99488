package measure

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Facts reads what a machine is below its root folder: all but its engine and its disk. A
// GPU that cannot be read is left out, and what is beyond the bounds of an event too.
func Facts(root fs.FS) (f event.HostFacts, err error) {
	f.Arch = runtime.GOARCH
	if f.CPUs, err = countCPUs(root); err != nil {
		return f, err
	}
	if f.Memory, err = totalMemory(root); err != nil {
		return f, err
	}
	f.Kernel = firstLine(root, "proc/sys/kernel/osrelease")
	f.OS = release(root)
	f.GPUs = gpus(root)
	f.NeedsReboot = RebootNames(rebootRequired(root))
	return f, nil
}

// rebootRequired is what Debian and its kin say: a file where a reboot is needed, and another one
// with the packages that want it.
func rebootRequired(root fs.FS) (out []string) {
	if _, err := fs.Stat(root, "run/reboot-required"); err != nil {
		return nil
	}
	b, err := fs.ReadFile(root, "run/reboot-required.pkgs")
	if err != nil {
		return []string{"system"}
	}
	for line := range strings.Lines(string(b)) {
		out = append(out, line)
	}
	if len(out) == 0 {
		return []string{"system"}
	}
	return out
}

// RebootNames are names of what needs a reboot within the bounds of an event: sorted, each once.
func RebootNames(names []string) []string {
	var out []string
	for _, n := range names {
		if n = fact(n); n != "" {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), event.MaxReboot)]
}

var oneCPU = regexp.MustCompile(`(?m)^cpu\d+ `)

func countCPUs(root fs.FS) (int64, error) {
	b, err := fs.ReadFile(root, "proc/stat")
	if err != nil {
		return 0, err
	}
	n := len(oneCPU.FindAllIndex(b, -1))
	if n == 0 {
		return 0, errors.New("/proc/stat does not list the CPUs")
	}
	return int64(n), nil
}

var memTotal = regexp.MustCompile(`(?m)^MemTotal:\s+(\d+) kB$`)

func totalMemory(root fs.FS) (int64, error) {
	b, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, err
	}
	m := memTotal.FindSubmatch(b)
	if m == nil {
		return 0, errors.New("/proc/meminfo does not say how much memory there is")
	}
	n, err := strconv.ParseUint(string(m[1]), 10, 50)
	if err != nil {
		return 0, fmt.Errorf("/proc/meminfo: %w", err)
	}
	return Count(n << 10), nil
}

// release is how the distribution calls itself, as os-release(5) has it.
func release(root fs.FS) string {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		b, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
				return fact(strings.Trim(v, `"'`))
			}
		}
	}
	return ""
}

const (
	devices = "sys/bus/pci/devices"
	display = "0x03" // the class of display controllers
)

// vendors are by the numbers that the PCI SIG gave them.
var vendors = map[string]string{"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}

// gpus lists the display controllers by their addresses.
func gpus(root fs.FS) (out []event.GPU) {
	entries, err := fs.ReadDir(root, devices)
	if err != nil {
		return nil // no such bus
	}
	for _, e := range entries {
		at := path.Join(devices, e.Name())
		vendor, device := firstLine(root, path.Join(at, "vendor")), firstLine(root, path.Join(at, "device"))
		if len(out) == event.MaxGPUs || vendor == "" || device == "" || !strings.HasPrefix(firstLine(root, path.Join(at, "class")), display) {
			continue
		}
		g := event.GPU{Vendor: vendor, Model: device}
		if name := vendors[vendor]; name != "" {
			g.Vendor = name
		}
		if name := modelOf(root, at, e.Name()); name != "" {
			g.Model = name
		}
		if n, err := strconv.ParseUint(firstLine(root, path.Join(at, "mem_info_vram_total")), 10, 64); err == nil { // amdgpu has it
			g.Memory = Count(n)
		}
		out = append(out, g)
	}
	return out
}

// modelOf is how a driver calls a device: amdgpu for what has its name on the board, and
// that of NVIDIA.
func modelOf(root fs.FS, at, address string) string {
	if name := firstLine(root, path.Join(at, "product_name")); name != "" {
		return name
	}
	b, err := fs.ReadFile(root, path.Join("proc/driver/nvidia/gpus", address, "information"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Model:"); ok {
			return fact(v)
		}
	}
	return ""
}

// firstLine is empty where a file cannot be read.
func firstLine(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return fact(string(line))
}

// fact is a text within the bound of an event's.
func fact(s string) string {
	s = strings.TrimSpace(prose.Line(strings.TrimSpace(s)))
	for len(s) > event.MaxFactText || !utf8.ValidString(s) {
		s = s[:min(len(s)-1, event.MaxFactText)]
	}
	return s
}

// DiskSize is the size of the file system that holds a path.
func (c *Collector) DiskSize(path string) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, err := c.disks.read(path, readDisk, diskPatience)
	return d.TotalBytes, err
}
