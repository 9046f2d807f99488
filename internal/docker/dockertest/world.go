package dockertest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageEnv tells a process which part of the world it is: `init` for the first
// process of the namespaces, else the process namespace that the tests run in.
const stageEnv = "STEADY_DOCKERTEST"

// base is the folder of engines and registries. It is in memory and exists
// inside the namespaces only.
const base = "/run/dockertest"

// nameServer is an address of the machine for the engines to ask for names.
const nameServer = "10.255.255.53"

// outside is why this process is not inside namespaces of its own.
var outside = errNotCalled

var errNotCalled = errors.New("call dockertest.Main from the TestMain of this package")

// Main runs the tests inside and ends the process.
func Main(m interface{ Run() int }) { os.Exit(Run(m)) }

// Run runs the tests inside and gives the exit code. Without root or without an
// engine it runs them as they are, and those that need one are left out.
func Run(m interface{ Run() int }) int {
	switch stage := os.Getenv(stageEnv); {
	case stage == "init" && os.Getpid() == 1:
		return supervise()
	case stage != "" && stage == namespace():
		outside = nil
		return m.Run()
	case os.Geteuid() != 0:
		return m.Run() // Engine says that root is needed
	}
	if _, err := exec.LookPath("dockerd"); err != nil {
		return m.Run() // Engine says that dockerd is needed
	}
	code, err := enter()
	if err != nil {
		outside = fmt.Errorf("this machine allows no namespaces: %w", err)
		return m.Run()
	}
	return code
}

// namespace names the process namespace of this process.
func namespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

// enter starts this binary again as the first process of new namespaces and
// waits for its end.
func enter() (code int, err error) {
	// The child dies with the thread that started it: keep the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), stageEnv+"=init")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer passOn(cmd.Process.Pid)()
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		return 0, err
	}
	return exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
}

// passOn hands signals to the process until the result is called.
func passOn(pid int) (stop func()) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	go func() {
		for s := range signals {
			_ = syscall.Kill(pid, s.(syscall.Signal)) // it may have just ended
		}
	}()
	return func() { signal.Stop(signals); close(signals) }
}

func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// supervise is the first process inside: it furnishes the namespaces, runs the
// tests, collects orphans, and takes everything down.
func supervise() int {
	if err := furnish(); err != nil {
		fmt.Fprintln(os.Stderr, "dockertest:", err)
		return 1
	}
	if err := unknownNames(); err != nil {
		fmt.Fprintln(os.Stderr, "dockertest:", err)
		return 1
	}
	if err := os.Setenv(stageEnv, namespace()); err != nil {
		fmt.Fprintln(os.Stderr, "dockertest:", err)
		return 1
	}
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "dockertest:", err)
		return 1
	}
	defer passOn(child.Pid)()
	code := 1
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			break
		}
		if pid == child.Pid && (status.Exited() || status.Signaled()) {
			code = exitCode(status)
			_ = syscall.Kill(-1, syscall.SIGKILL) // all engines and containers; none left is fine
		}
	}
	sweepCgroups()
	return code
}

// furnish gives the namespaces their own /proc and /run, and a loopback device.
func furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return err
	}
	// An engine that finds forwarding off turns it on and drops what its own
	// rules do not name, which is all that private engines forward.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("let containers reach each other: %w", err)
	}
	return loopback()
}

// loopback brings up the loopback device with the address of the name server.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring up the loopback device: %w", err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("bring up the loopback device: %w", err)
	}
	second, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := second.SetInet4Addr(net.ParseIP(nameServer).To4()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFADDR, second); err != nil {
		return fmt.Errorf("give the loopback device the address %s: %w", nameServer, err)
	}
	mask, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := mask.SetInet4Addr(net.CIDRMask(32, 32)); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFNETMASK, mask); err != nil {
		return fmt.Errorf("give the loopback device the address %s: %w", nameServer, err)
	}
	return nil
}

// unknownNames answers every question of the engines for a name with "no such
// name". Without an answer a container waits for many seconds.
func unknownNames() error {
	con, err := net.ListenPacket("udp4", nameServer+":53")
	if err != nil {
		return fmt.Errorf("serve names: %w", err)
	}
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := con.ReadFrom(buf)
			if err != nil {
				return
			}
			if n < 12 {
				continue
			}
			answer := append([]byte(nil), buf[:n]...)
			copy(answer[2:], []byte{0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0}) // a response, NXDOMAIN, one question, no records
			end := 12
			for end < n && answer[end] != 0 {
				end += int(answer[end]) + 1
			}
			_, _ = con.WriteTo(answer[:min(end+5, n)], from) // it asks again
		}
	}()
	return nil
}

// sweepCgroups removes the empty control groups of containers that were killed
// with their engine. Control groups are the machine's, not the namespace's.
func sweepCgroups() {
	containers, _ := filepath.Glob(base + "/*/data/containers/*") // the pattern is right
	for _, c := range containers {
		groups, _ := filepath.Glob("/sys/fs/cgroup/*/docker/" + filepath.Base(c))
		groups = append(groups, "/sys/fs/cgroup/docker/"+filepath.Base(c))
		for _, g := range groups {
			if err := os.Remove(g); err != nil && !os.IsNotExist(err) && !strings.Contains(err.Error(), "not a directory") {
				fmt.Fprintln(os.Stderr, "dockertest: leave an empty control group behind:", err)
			}
		}
	}
}
