package enclave

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func supported() error { return nil }

// namespace names the process namespace of this process.
func namespace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

// Inside reports whether this process runs in an enclave.
func Inside() bool {
	stage := os.Getenv(stageEnv)
	return stage != "" && stage == namespace()
}

// Number is the number that the machine has for the first process of the enclave
// that this process runs in; 0 if it is not known.
func Number() int {
	if !Inside() {
		return 0
	}
	n, err := strconv.Atoi(os.Getenv(pidEnv))
	if err != nil {
		return 0
	}
	return n
}

// First reports whether this process is the first one of an enclave and has to
// call Supervise.
func First() bool { return os.Getenv(stageEnv) == "init" && os.Getpid() == 1 }

// Enter runs this program again with the same arguments in an enclave, passes
// signals on to it, and gives its exit code.
func Enter(ctx context.Context, stdout, stderr io.Writer) (code int, err error) {
	// The child dies with the thread that started it: keep the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0] // by which a binary of many names knows itself
	cmd.Env = append(os.Environ(), stageEnv+"=init")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL, Setpgid: true,
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("%w: this machine allows no namespaces: %w", ErrImpossible, err)
	}
	stop := context.AfterFunc(ctx, func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have just ended
	})
	defer stop()
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		return 0, err
	}
	return exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
}

func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// Supervise furnishes the namespaces, runs this program again inside of them,
// collects orphans, and ends everything with it. It gives the exit code.
func Supervise(stderr io.Writer) int {
	child, err := inhabit()
	if err != nil {
		fmt.Fprintf(stderr, "steady: furnish the world of a private engine: %v\n", err)
		return 1
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	go func() {
		for s := range signals {
			_ = child.Signal(s) // it may have just ended
		}
	}()
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

func inhabit() (*os.Process, error) {
	// This is still the machine's /proc, with the machine's numbers.
	if self, err := os.Readlink("/proc/self"); err == nil {
		if err := os.Setenv(pidEnv, self); err != nil {
			return nil, err
		}
	}
	if err := furnish(); err != nil {
		return nil, err
	}
	if err := os.Setenv(stageEnv, namespace()); err != nil {
		return nil, err
	}
	return os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
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
