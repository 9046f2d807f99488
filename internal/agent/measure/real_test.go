package measure

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestHostOfThisMachine(t *testing.T) {
	dir := t.TempDir()
	c := New(Options{Settings: Settings{Host: true}, DiskPaths: []string{dir, "/does/not/exist"}})
	t.Cleanup(c.Close)
	var info syscall.Sysinfo_t
	testkit.Must(t, syscall.Sysinfo(&info))
	s := c.Collect(t.Context(), 1000, Input{})
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "/does/not/exist") {
		t.Errorf("problems are %q", s.Problems)
	}
	h := s.Host
	if h.CPUPermille != nil || s.IntervalMillis != nil {
		t.Error("the first sample has rates")
	}
	if *h.CPUCount < int64(runtime.NumCPU()) {
		t.Errorf("%d CPUs, this process may use %d", *h.CPUCount, runtime.NumCPU())
	}
	if total := int64(info.Totalram) * int64(info.Unit); *h.MemTotalBytes != total || *h.MemAvailableBytes <= 0 || *h.MemAvailableBytes > total {
		t.Errorf("memory is %d of %d, the kernel has %d", *h.MemAvailableBytes, *h.MemTotalBytes, total)
	}
	if d := *h.UptimeSeconds - int64(info.Uptime); d < -60 || d > 60 {
		t.Errorf("up for %d s, the kernel says %d s", *h.UptimeSeconds, info.Uptime)
	}
	if *h.SwapTotalBytes != int64(info.Totalswap)*int64(info.Unit) || *h.Load1Milli < 0 || *h.Processes < 1 {
		t.Errorf("host is %+v", h)
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err != nil || h.Kernel != strings.TrimSpace(string(b)) {
		t.Errorf("kernel is %q, %v", h.Kernel, err)
	}
	if len(h.Disks) != 1 || h.Disks[0].Path != dir || h.Disks[0].TotalBytes < h.Disks[0].FreeBytes || h.Disks[0].FreeBytes <= 0 {
		t.Errorf("disks are %+v", h.Disks)
	}
	burn()
	s = c.Collect(t.Context(), 6000, Input{})
	if s.Host.CPUPermille == nil || *s.Host.CPUPermille <= 0 || *s.Host.CPUPermille > 1000 || *s.IntervalMillis != 5000 {
		t.Errorf("the CPUs are busy to %v thousandths after work", s.Host.CPUPermille)
	}
}

// burn uses a tenth of a second of CPU time, whatever else runs.
func burn() {
	used := func() int64 {
		var r syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
		return r.Utime.Nano() + r.Stime.Nano()
	}
	for end := used() + int64(100*time.Millisecond); used() < end; {
	}
}

// Loopback and the links of containers do not count, and neither do partitions,
// loop devices and what is stacked on disks.
func TestNothingCountsTwice(t *testing.T) {
	root := tree(t, "common")
	const line = ": 100 0 0 0 0 0 0 0 10 0 0 0 0 0 0 0\n"
	var b strings.Builder
	b.WriteString("Inter-|   Receive | Transmit\n face |bytes\n")
	for _, n := range []string{"lo", "eth0", "wlan0", "bond0", "eth0.7", "br-0123456789ab", "br0", "docker0", "veth12ab", "wg0"} {
		b.WriteString(n + line)
	}
	put(t, root+"/proc/1/net/dev", b.String())
	put(t, root+"/proc/diskstats", `8 0 sda 1 0 10 0 1 0 20 0 0 0 0
8 1 sda1 1 0 10 0 1 0 20 0 0 0 0
7 0 loop0 1 0 10 0 1 0 20 0 0 0 0
253 0 dm-0 1 0 10 0 1 0 20 0 0 0 0
259 0 nvme0n1 1 0 5 0 1 0 5 0 0 0 0
259 1 nvme0c0n1 1 0 5 0 1 0 5 0 0 0 0
`)
	for _, d := range []string{"class/net/eth0", "class/net/wlan0", "block/sda", "block/nvme0n1", "block/nvme0c0n1", "block/loop0"} {
		put(t, root+"/sys/"+d+"/device", "")
	}
	c := New(Options{Settings: Settings{Host: true}, Proc: root + "/proc", Sys: root + "/sys"})
	t.Cleanup(c.Close)
	h := c.Collect(t.Context(), 1, Input{}).Host
	if *h.NetRxBytes != 200 || *h.NetTxBytes != 20 || *h.DiskReadBytes != 15*512 || *h.DiskWrittenBytes != 25*512 {
		t.Errorf("net %d %d, disk %d %d", *h.NetRxBytes, *h.NetTxBytes, *h.DiskReadBytes, *h.DiskWrittenBytes)
	}
	if got := strings.Join(h.Interfaces, " "); got != "bond0 br0 eth0 eth0.7 wg0 wlan0" {
		t.Errorf("interfaces are %s", got)
	}
	// A host that is itself a container has no hardware.
	os.RemoveAll(root + "/sys/class")
	if h := c.Collect(t.Context(), 2, Input{}).Host; *h.NetRxBytes != 200 {
		t.Errorf("without hardware %d bytes", *h.NetRxBytes)
	}
}

func TestHangingFileSystemIsNotWaitedFor(t *testing.T) {
	var d disks
	release, asked := make(chan struct{}), 0
	hang := func(string) (Disk, error) { <-release; return Disk{FreeBytes: 1}, nil }
	for range 3 {
		if _, err := d.read("/net", hang, time.Millisecond); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Fatalf("the error is %v", err)
		}
	}
	late := d.asked["/net"]
	close(release)
	late <- <-late // it answered
	got, err := d.read("/net", func(string) (Disk, error) { asked++; return Disk{FreeBytes: 2}, nil }, time.Minute)
	if err != nil || got.FreeBytes != 2 || asked != 1 || len(d.asked) != 0 {
		t.Errorf("got %+v, %v, asked %d times", got, err, asked)
	}
}

var versionOne = []string{"cpuacct", "memory", "pids", "blkio"}

// What the kernel has to let a test make.
var (
	groups1 = testkit.Component{Name: "control groups of version 1", Probe: func() error {
		for _, ctl := range versionOne {
			if err := makes("/sys/fs/cgroup/" + ctl); err != nil {
				return fmt.Errorf("%w: boot with systemd.unified_cgroup_hierarchy=0, and run the tests as root", err)
			}
		}
		return nil
	}}
	groups2 = testkit.Component{Name: "control groups of version 2", Probe: func() error {
		if err := makes(unified()); err != nil {
			return fmt.Errorf("%w: mount -t cgroup2 none /sys/fs/cgroup/unified, and run the tests as root", err)
		}
		return nil
	}}
	networks = testkit.Component{Name: "network namespaces", Probe: func() error {
		cmd := exec.Command("/bin/sh", "-c", ":")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%w: run the tests as root with CAP_SYS_ADMIN", err)
		}
		return nil
	}}
)

// makes reports why there can be no new folder in one.
func makes(dir string) error {
	made, err := os.MkdirTemp(dir, "steady-metrics-")
	if err != nil {
		return err
	}
	return os.Remove(made)
}

// unified is where control groups of version 2 are mounted.
func unified() string {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		if before, after, _ := strings.Cut(line, " - "); strings.HasPrefix(after, "cgroup2 ") {
			return strings.Fields(before)[4]
		}
	}
	return "/sys/fs/cgroup/unified"
}

// group makes control groups of version 1 for a container, as the engine does.
func group(t testing.TB, id string) (dirs map[string]string) {
	t.Helper()
	testkit.Needs(t, groups1)
	dirs = map[string]string{}
	for _, ctl := range versionOne {
		parent := testkit.Value(os.MkdirTemp("/sys/fs/cgroup/"+ctl, "steady-metrics-"))(t)
		dir := parent + "/" + id
		testkit.Must(t, os.Mkdir(dir, 0o755))
		dirs[ctl] = dir
		t.Cleanup(func() {
			if err := errors.Join(os.Remove(dir), os.Remove(parent)); err != nil {
				t.Error(err)
			}
		})
	}
	return dirs
}

// child runs a shell in the groups and a network of its own until the test ends;
// each line that is written to it is a command, answered by "done".
func child(t testing.TB, dirs map[string]string) (pid int, command func(string)) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", `while read -r line; do eval "$line"; echo done; done`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	in := testkit.Value(cmd.StdinPipe())(t)
	out := testkit.Value(cmd.StdoutPipe())(t)
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	for _, dir := range dirs {
		testkit.Must(t, os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(cmd.Process.Pid)), 0o644))
	}
	lines := bufio.NewScanner(out)
	return cmd.Process.Pid, func(line string) {
		t.Helper()
		if _, err := fmt.Fprintln(in, line); err != nil || !lines.Scan() {
			t.Fatalf("%s: %v", line, err)
		}
	}
}

func TestRealWorkspace(t *testing.T) {
	testkit.Needs(t, groups1, networks)
	id := strings.Repeat("5a", 32)
	dirs := group(t, id)
	const limit = 64 << 20
	testkit.Must(t, os.WriteFile(dirs["memory"]+"/memory.limit_in_bytes", []byte(strconv.Itoa(limit)), 0o644))
	pid, command := child(t, dirs)
	c := New(Options{Settings: Settings{Workspaces: true}})
	t.Cleanup(c.Close)
	in := Input{Targets: []Target{{Name: "web", PID: pid, ContainerID: id}}}
	command("true")
	first := c.Collect(t.Context(), 1000, in)
	if len(first.Workspaces) != 1 || len(first.Problems) != 0 {
		t.Fatalf("got %+v", first)
	}
	w := first.Workspaces[0]
	if w.CPUPermille != nil || w.CPUMicros == nil || *w.MemLimitBytes != limit || w.MemBytes == nil || *w.MemBytes > limit || *w.Pids != 1 {
		t.Errorf("got %+v", w)
	}
	if w.NetRxBytes == nil || *w.NetRxBytes != 0 {
		t.Errorf("got %+v", w)
	}
	file := filepath.Join(t.TempDir(), "file")
	var fs syscall.Statfs_t
	testkit.Must(t, syscall.Statfs(filepath.Dir(file), &fs))
	command("dd if=/dev/zero of=" + file + " bs=1M count=4 oflag=direct conv=fsync 2>/dev/null; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	second := c.Collect(t.Context(), 1000+clock.Instant(clock.Second), in).Workspaces[0]
	if second.CPUPermille == nil || *second.CPUPermille <= 0 || *second.CPUMicros <= *w.CPUMicros ||
		*second.CPUPermille != (*second.CPUMicros-*w.CPUMicros)/1000 {
		t.Errorf("work is not seen: %+v after %+v", second, w)
	}
	const tmpfs = 0x01021994
	if second.IOWrittenBytes == nil {
		t.Log("this kernel counts no disk traffic in version 1 without a limit")
	} else if fs.Type != tmpfs && *second.IOWrittenBytes < 4<<20 {
		t.Errorf("4 MiB were written to a disk, %d bytes are counted", *second.IOWrittenBytes)
	}
	testkit.Must(t, os.WriteFile(dirs["cpuacct"]+"/cpuacct.usage", []byte("0"), 0o644))
	if third := c.Collect(t.Context(), 3000, in).Workspaces[0]; third.CPUPermille != nil {
		t.Errorf("a counter that started again has rate %d", *third.CPUPermille)
	}
}

// The control group of version 2 is real where the kernel has it mounted beside
// version 1, with cpu.stat alone; its /proc is made up, or version 1 would count.
func TestRealVersion2(t *testing.T) {
	testkit.Needs(t, groups2, networks)
	id, mount := strings.Repeat("6b", 32), unified()
	dir := testkit.Value(os.MkdirTemp(mount, "steady-metrics-*-"+id+".scope"))(t)
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	_, command := child(t, map[string]string{"unified": dir})
	root := tree(t, "common")
	put(t, root+"/proc/self/mountinfo", "30 23 0:26 / "+mount+" rw - cgroup2 cgroup2 rw\n")
	put(t, root+"/proc/4242/cgroup", "0::/"+filepath.Base(dir)+"\n")
	c := New(Options{Settings: Settings{Workspaces: true}, Proc: root + "/proc"})
	t.Cleanup(c.Close)
	in := Input{Targets: []Target{{Name: "web", PID: 4242, ContainerID: id}}}
	first := c.Collect(t.Context(), 1000, in)
	command("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	second := c.Collect(t.Context(), 2000, in)
	if len(first.Workspaces)+len(second.Workspaces) != 2 || second.Workspaces[0].CPUPermille == nil || *second.Workspaces[0].CPUPermille == 0 {
		t.Errorf("work is not seen: %+v after %+v", second, first)
	}
}

func BenchmarkWorkspace(b *testing.B) {
	id := strings.Repeat("7c", 32)
	pid, _ := child(b, group(b, id))
	c := New(Options{Settings: Settings{Workspaces: true}})
	b.Cleanup(c.Close)
	in := Input{Targets: []Target{{Name: "web", PID: pid, ContainerID: id}}}
	now := clock.Instant(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		if s := c.Collect(b.Context(), now, in); len(s.Workspaces) != 1 || s.Workspaces[0].MemBytes == nil || s.Workspaces[0].NetRxBytes == nil {
			b.Fatalf("got %+v", s)
		}
	}
}

func BenchmarkHost(b *testing.B) {
	c := New(Options{Settings: Settings{Host: true}, DiskPaths: []string{"/"}})
	b.Cleanup(c.Close)
	now := clock.Instant(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 1000
		if s := c.Collect(b.Context(), now, Input{}); s.Host.MemTotalBytes == nil {
			b.Fatal("no memory")
		}
	}
}
