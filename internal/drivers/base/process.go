package base

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of the times of processes in /proc, on every architecture of Linux.
const tick = 10 * time.Millisecond

// Process is one of this machine.
type Process struct {
	PID  int
	Args []string // its command line
	// Began is when it began, two ticks late at most: a program reads its files later than that.
	Began time.Time
}

// Processes lists those that run a program, by its name of at most 15 bytes. In a container they are
// those of the container.
func Processes(program string) (out []Process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, runs := ProcessOf(pid, program); runs {
				out = append(out, p)
			}
		}
	}
	return out
}

// ProcessOf is the process of a number, if it runs a program of that name.
func ProcessOf(pid int, program string) (p Process, runs bool) {
	read := func(name string) []byte {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)) // one that ended has nothing
		return raw
	}
	if string(bytes.TrimSpace(read("comm"))) != program {
		return p, false
	}
	p = Process{PID: pid, Args: strings.Split(string(bytes.TrimRight(read("cmdline"), "\x00")), "\x00")}
	_, rest, _ := bytes.Cut(read("stat"), []byte(") "))
	fields := strings.Fields(string(rest))
	up, _ := os.ReadFile("/proc/uptime")
	since := strings.Fields(string(up))
	const startTime = 19                                                                  // of the fields behind the name
	if len(fields) <= startTime || len(since) == 0 || strings.Contains("ZX", fields[0]) { // one that ended has no arguments either
		return p, false
	}
	ticks, err := strconv.ParseInt(fields[startTime], 10, 64)
	if err != nil {
		return p, false
	}
	running, err := strconv.ParseFloat(since[0], 64)
	if err != nil {
		return p, false
	}
	boot := time.Now().Add(-time.Duration(running * float64(time.Second)))
	p.Began = boot.Add(time.Duration(ticks)*tick + 2*tick)
	return p, true
}
