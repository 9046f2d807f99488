package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of CPU time in /proc on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// gauge is what the kernel has counted until an instant.
type gauge struct {
	at       time.Time
	server   time.Duration // CPU time of the server's process
	agents   time.Duration // CPU time of this process
	machine  time.Duration // CPU time of everything
	requests int64
}

// read takes a gauge.
func (b *bench) read() (g gauge, err error) {
	g = gauge{at: time.Now(), requests: b.crowd.requests.Load()}
	if g.server, err = cpuOf(b.server.pid()); err != nil {
		return g, err
	}
	if g.agents, err = cpuOf(os.Getpid()); err != nil {
		return g, err
	}
	g.machine, err = cpuOfAll()
	return g, err
}

// cpuOf returns the CPU time of a process, in user and in kernel mode.
func cpuOf(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return parseStat(raw)
}

// parseStat reads utime and stime. The name before them may hold anything.
func parseStat(raw []byte) (time.Duration, error) {
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat has %d fields after the name", len(fields))
	}
	return ticks(fields[11:13])
}

func ticks(fields []string) (sum time.Duration, err error) {
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// cpuOfAll returns the CPU time that the machine has spent on anything.
func cpuOfAll() (time.Duration, error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	// user, nice, system; then, after idle and iowait, irq and softirq
	return ticks(append(fields[1:4:4], fields[6:8]...))
}

// memory is what a process holds, in bytes.
type memory struct{ rss, pss int64 }

func memoryOf(pid int) (m memory, err error) {
	if m.rss, err = kilobytes(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:"); err != nil {
		return m, err
	}
	m.pss, err = kilobytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
	return m, err
}

// kilobytes reads one field of a file of /proc, and returns bytes.
func kilobytes(file, field string) (int64, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("%s has no field %s", file, field)
}

// sparedFiles is how many descriptors a process needs besides its connections.
const sparedFiles = 256

// files makes room for a connection per host in this process and, because
// children inherit it, in the server's.
func files(hosts int) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("the limit of open files: %w", err)
	}
	need := uint64(hosts + enrolAtOnce + sparedFiles)
	if l.Cur >= need {
		return nil
	}
	if l.Max < need {
		return fmt.Errorf("%d hosts need %d open files in each of two processes, and the limit here is %d; run `ulimit -n %d` as root first, or use fewer hosts", hosts, need, l.Max, need)
	}
	l.Cur = need
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("raise the limit of open files to %d: %w", need, err)
	}
	return nil
}
