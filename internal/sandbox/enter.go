package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Enter runs this program again with the same arguments and output in the world,
// passes signals on to it, and gives its exit code, 128 and the signal if one ended
// it. An error means that there can be no world on this machine.
func (w World) Enter() (code int, err error) {
	if w.First() {
		return w.supervise(), nil
	}
	// The child dies with the thread that started it: keep the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0] // by which a binary of many names knows itself
	cmd.Env = append(os.Environ(), w.Env+"="+first)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = childAttr()
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET
	signals := notifySignals()
	defer signals.release()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("this machine allows no namespaces: %w", err)
	}
	go signals.passTo(cmd.Process)
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		return 0, err
	}
	return exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
}

// signals are those that this process gets for another one.
type signals chan os.Signal

func notifySignals() signals {
	s := make(signals, 8)
	signal.Notify(s, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	return s
}

func (s signals) passTo(p *os.Process) {
	for sig := range s {
		_ = p.Signal(sig) // it may have just ended
	}
}

func (s signals) release() { signal.Stop(s); close(s) }

func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// supervise prepares the namespaces, runs this program again inside of them,
// collects orphans, and ends everything with it. It gives the exit code.
func (w World) supervise() int {
	signals := notifySignals()
	defer signals.release()
	child, err := w.start()
	if err != nil {
		fmt.Fprintf(os.Stderr, "prepare the namespaces of a private engine: %v\n", err)
		return 1
	}
	go signals.passTo(child)
	code := 1
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return code
		}
		if pid == child.Pid && (status.Exited() || status.Signaled()) {
			code = exitCode(status)
			_ = syscall.Kill(-1, syscall.SIGKILL) // whatever is left; none is fine
		}
	}
}

func (w World) start() (*os.Process, error) {
	self, err := os.Readlink("/proc/self") // still the machine's /proc, with its numbers
	if err != nil {
		return nil, err
	}
	if err := mountOwn(); err != nil {
		return nil, err
	}
	if w.Prepare != nil {
		if err := w.Prepare(); err != nil {
			return nil, err
		}
	}
	if err := os.Setenv(w.Env, namespace()+" "+self); err != nil {
		return nil, err
	}
	return os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
}

// mountOwn gives the namespaces their own /proc and /run, and a loopback device.
func mountOwn() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
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
	return nil
}
