package bench

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// gauge is what the kernel has counted until an instant.
type gauge struct {
	at       time.Time
	server   time.Duration // CPU time of the server's process
	agents   time.Duration // CPU time of this process
	machine  time.Duration // CPU time of everything
	requests int64
	sent     int64 // bytes on the agents' connections, of TLS too
	received int64
}

// read takes a gauge.
func (b *bench) read() (g gauge, err error) {
	g, err = readGauge(b.server.PID(), os.Getpid(), b.crowd.requests.Load())
	g.sent, g.received = b.crowd.traffic.sent.Load(), b.crowd.traffic.received.Load()
	return g, err
}

// readGauge takes the kernel's part of a gauge.
func readGauge(server, agents int, requests int64) (g gauge, err error) {
	g = gauge{at: time.Now(), requests: requests}
	if g.server, err = cpuOf(server); err != nil {
		return g, err
	}
	if g.agents, err = cpuOf(agents); err != nil {
		return g, err
	}
	g.machine, err = cpuOfAll()
	return g, err
}

// cpuOf returns the CPU time of a process, in user and in kernel mode.
func cpuOf(pid int) (time.Duration, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	st, err := p.Stat()
	return seconds(st.CPUTime()), err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// cpuOfAll returns the CPU time that the machine has spent on anything.
func cpuOfAll() (time.Duration, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	st, err := fs.Stat()
	c := st.CPUTotal
	return seconds(c.User + c.Nice + c.System + c.IRQ + c.SoftIRQ), err
}

// memory is what a process occupies, in bytes.
type memory struct{ rss, pss int64 }

func memoryOf(pid int) (memory, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return memory{}, err
	}
	st, err := p.NewStatus()
	if err != nil {
		return memory{}, err
	}
	maps, err := p.ProcSMapsRollup()
	return memory{int64(st.VmRSS), int64(maps.Pss)}, err
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
