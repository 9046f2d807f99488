package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is one run of the steady command.
type process struct {
	t      testing.TB
	name   string
	cmd    *exec.Cmd
	ready  chan []byte // its first line on stdout
	exited chan struct{}
	log    string

	mu    sync.Mutex
	ended bool // by the test
}

// launch starts a process. Its stderr is appended to a file of its name.
func launch(t testing.TB, logs, name string, args ...string) *process {
	t.Helper()
	self := got(os.Executable())(t)
	p := &process{t: t, name: name, cmd: exec.Command(self, args...), ready: make(chan []byte, 1),
		exited: make(chan struct{}), log: filepath.Join(logs, name+".log")}
	stderr := got(os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	defer stderr.Close()
	p.cmd.Stderr = stderr
	p.cmd.Env = append(os.Environ(), actAsSteady+"=1")
	// Whatever becomes of the test, its processes end with it.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout := got(p.cmd.StdoutPipe())(t)
	must(t, p.cmd.Start())
	go func() {
		lines := bufio.NewScanner(stdout)
		for first := true; lines.Scan(); first = false {
			if first {
				p.ready <- append([]byte(nil), lines.Bytes()...)
			}
		}
		err := p.cmd.Wait()
		p.mu.Lock()
		asked := p.ended
		p.mu.Unlock()
		if !asked {
			t.Errorf("%s ended by itself: %v\n%s", name, err, p.tail())
		}
		close(p.exited)
	}()
	return p
}

// until waits for the line that says that the process runs.
func (p *process) until(into any) {
	p.t.Helper()
	select {
	case line := <-p.ready:
		must(p.t, json.Unmarshal(line, into))
	case <-p.exited:
		p.t.Fatalf("%s ended before it was ready", p.name)
	case <-time.After(patience):
		p.t.Fatalf("%s was never ready\n%s", p.name, p.tail())
	}
}

func (p *process) end(sig os.Signal) {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	_ = p.cmd.Process.Signal(sig) // it may have ended already
	<-p.exited
}

// kill ends the process as a power cut of the process would.
func (p *process) kill() { p.end(syscall.SIGKILL) }

// stop asks the process to end.
func (p *process) stop() { p.end(syscall.SIGTERM) }

func (p *process) tail() string {
	raw, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("--- %s\n%s", p.name, raw[max(0, len(raw)-4000):])
}
