package measure

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/steadyfleet/steady/internal/system"
)

// Bounds of a sample. Check refuses what is above them, and nothing above them is measured.
const (
	MaxInteger    = 1<<53 - 1 // survives JSON in every reader
	MaxText       = 256       // bytes of one string
	MaxWorkspaces = 1024
	MaxGPUs       = 64
	MaxDisks      = 16
	MaxInterfaces = 64
	MaxRuntimes   = 32
	MaxProblems   = 16

	MinTemperature = -273 // degrees Celsius; nothing else is below zero
)

// Sample is one collection. Every number is an integer with its unit in its
// name; counters without a rate count since the start of the host or container
// and may start again at zero. A nil pointer means "not known".
type Sample struct {
	IntervalMillis *int64      `json:"intervalMillis,omitempty"` // since the sample before, which rates refer to
	Host           *Host       `json:"host,omitempty"`
	GPUs           []GPU       `json:"gpus,omitempty"`
	Workspaces     []Workspace `json:"workspaces,omitempty"`
	Runtimes       []string    `json:"runtimes,omitempty"`
	Engine         *Engine     `json:"engine,omitempty"`
	Problems       []string    `json:"problems,omitempty"` // what could not be read, while it lasts
}

// Host is the machine. Network counters are of its outermost interfaces only
// and disk counters of whole devices only, so that nothing counts twice.
type Host struct {
	CPUCount          *int64   `json:"cpuCount,omitempty"`
	CPUPermille       *int64   `json:"cpuPermille,omitempty"` // of all CPUs together: 1000 is every one busy
	Load1Milli        *int64   `json:"load1Milli,omitempty"`
	MemTotalBytes     *int64   `json:"memTotalBytes,omitempty"`
	MemAvailableBytes *int64   `json:"memAvailableBytes,omitempty"`
	SwapTotalBytes    *int64   `json:"swapTotalBytes,omitempty"`
	SwapFreeBytes     *int64   `json:"swapFreeBytes,omitempty"`
	Disks             []Disk   `json:"disks,omitempty"`
	DiskReadBytes     *int64   `json:"diskReadBytes,omitempty"`
	DiskWrittenBytes  *int64   `json:"diskWrittenBytes,omitempty"`
	NetRxBytes        *int64   `json:"netRxBytes,omitempty"`
	NetTxBytes        *int64   `json:"netTxBytes,omitempty"`
	Processes         *int64   `json:"processes,omitempty"`
	UptimeSeconds     *int64   `json:"uptimeSeconds,omitempty"`
	Kernel            string   `json:"kernel,omitempty"`
	Interfaces        []string `json:"interfaces,omitempty"` // without loopback, ends of containers and the engine's bridges
}

// Disk is the file system that holds a path. Free is what programs without
// privileges may still take.
type Disk struct {
	Path        string `json:"path"`
	TotalBytes  int64  `json:"totalBytes"`
	FreeBytes   int64  `json:"freeBytes"`
	TotalInodes int64  `json:"totalInodes"` // 0 where the file system does not count them
	FreeInodes  int64  `json:"freeInodes"`
}

// GPU is one device as nvidia-smi tells it; what the device does not support is absent.
type GPU struct {
	UUID           string `json:"uuid"`
	Name           string `json:"name,omitempty"`
	UtilPermille   *int64 `json:"utilPermille,omitempty"`
	MemTotalBytes  *int64 `json:"memTotalBytes,omitempty"`
	MemFreeBytes   *int64 `json:"memFreeBytes,omitempty"`
	MemUsedBytes   *int64 `json:"memUsedBytes,omitempty"`
	TemperatureC   *int64 `json:"temperatureC,omitempty"`
	PowerMilliwatt *int64 `json:"powerMilliwatt,omitempty"`
	Driver         string `json:"driver,omitempty"`
}

// Workspace is one running container.
type Workspace struct {
	Name           string `json:"name"`
	CPUPermille    *int64 `json:"cpuPermille,omitempty"`    // since the last sample, of one CPU: 2000 is two busy
	CPUMicros      *int64 `json:"cpuMicros,omitempty"`      // CPU time since the container started
	MemBytes       *int64 `json:"memBytes,omitempty"`       // without page cache that can be dropped at once
	MemLimitBytes  *int64 `json:"memLimitBytes,omitempty"`  // absent: no limit
	Pids           *int64 `json:"pids,omitempty"`           // processes and threads
	IOReadBytes    *int64 `json:"ioReadBytes,omitempty"`    // from block devices
	IOWrittenBytes *int64 `json:"ioWrittenBytes,omitempty"` // to block devices
	NetRxBytes     *int64 `json:"netRxBytes,omitempty"`     // absent on the host's own network
	NetTxBytes     *int64 `json:"netTxBytes,omitempty"`
}

// Engine says which engine runs the workspaces.
type Engine struct {
	Version       string `json:"version"`
	APIVersion    string `json:"apiVersion"`
	StorageDriver string `json:"storageDriver,omitempty"`
	CgroupVersion string `json:"cgroupVersion,omitempty"`
}

// Check reports the first thing in a received sample that is out of bounds.
func (s Sample) Check() error {
	hostDisks, hostInterfaces := 0, 0
	if s.Host != nil {
		hostDisks, hostInterfaces = len(s.Host.Disks), len(s.Host.Interfaces)
	}
	for _, l := range []struct {
		name      string
		have, max int
	}{
		{"workspaces", len(s.Workspaces), MaxWorkspaces}, {"gpus", len(s.GPUs), MaxGPUs},
		{"disks", hostDisks, MaxDisks}, {"interfaces", hostInterfaces, MaxInterfaces},
		{"runtimes", len(s.Runtimes), MaxRuntimes}, {"problems", len(s.Problems), MaxProblems},
	} {
		if l.have > l.max {
			return fmt.Errorf("a metrics sample has %d %s: expected at most %d", l.have, l.name, l.max)
		}
	}
	return checkValue("sample", reflect.ValueOf(s))
}

func checkValue(name string, v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return checkValue(name, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := checkValue(name+"."+v.Type().Field(i).Name, v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := checkValue(fmt.Sprintf("%s[%d]", name, i), v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.String:
		if s := v.String(); len(s) > MaxText || !utf8.ValidString(s) {
			return fmt.Errorf("%s is not valid text of at most %d bytes", name, MaxText)
		}
	case reflect.Int64:
		if n := v.Int(); n > MaxInteger || n < MinTemperature || n < 0 && !strings.HasSuffix(name, ".TemperatureC") {
			return fmt.Errorf("%s is %d, which is out of bounds", name, n)
		}
	default:
		return fmt.Errorf("%s is a %s, which a sample does not contain", name, v.Kind())
	}
	return nil
}

// Text makes foreign text fit for a sample.
func Text(s string) string {
	s = system.Scrub(s, 3*len(s)) // room for what replaces invalid bytes
	for len(s) > MaxText || !utf8.ValidString(s) {
		s = s[:min(len(s)-1, MaxText)]
	}
	return s
}

// Count makes a counter fit for a sample.
func Count(v uint64) int64 { return int64(min(v, MaxInteger)) }
