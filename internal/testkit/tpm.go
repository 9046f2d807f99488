package testkit

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TPM starts a software TPM 2.0 of its own for the test and returns its name, as
// steady server --ca-key takes it. Stop ends it as a power cut would; start goes
// on with what it keeps.
func TPM(t testing.TB) (name string, stop, start func()) {
	t.Helper()
	Needs(t, Swtpm)
	dir, err := os.MkdirTemp("", "tpm") // a socket's path has room for some 100 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	var cmd *exec.Cmd
	stop = func() {
		if cmd != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			cmd = nil
		}
	}
	start = func() {
		t.Helper()
		_ = os.Remove(socket) // of a run before
		cmd = exec.Command("swtpm", "socket", "--tpm2", "--tpmstate", "dir="+dir, "--server", "type=unixio,path="+socket, "--flags", "not-need-init,startup-clear")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tick, limit := time.NewTicker(5*time.Millisecond), time.NewTimer(3*time.Minute)
		defer tick.Stop()
		defer limit.Stop()
		for {
			if conn, err := net.Dial("unix", socket); err == nil {
				_ = conn.Close()
				return
			}
			select {
			case <-tick.C:
			case <-limit.C:
				t.Fatal("the software TPM did not open its socket")
			}
		}
	}
	start()
	t.Cleanup(stop)
	return "tpm:unix:" + socket, stop, start
}
