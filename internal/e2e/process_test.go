package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/sandbox"
	"github.com/steadyfleet/steady/internal/testkit"
)

// process is one run of the steady command.
type process struct {
	*sandbox.Process
	t      testing.TB
	name   string
	cmd    *exec.Cmd
	exited chan struct{} // closed once an end that the test did not ask for is reported
	asked  atomic.Bool   // to end, by the test
}

// launch starts a process of this tree. Its output is appended to a file of its name.
func launch(t testing.TB, logs, name string, args ...string) *process {
	t.Helper()
	return launchOf(t, testkit.Value(os.Executable())(t), logs, name, args...)
}

// launchOf starts a process of another program.
func launchOf(t testing.TB, program, logs, name string, args ...string) *process {
	t.Helper()
	return launchCommand(t, logs, name, func(cmd *exec.Cmd) { cmd.Env = append(os.Environ(), actAsSteady+"=1") }, program, args...)
}

// launchCommand starts a process whose folder and environment edit sets.
func launchCommand(t testing.TB, logs, name string, edit func(*exec.Cmd), program string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(program, args...), exited: make(chan struct{})}
	edit(p.cmd)
	p.Process = testkit.Value(sandbox.Start(name, filepath.Join(logs, name+".log"), p.cmd))(t)
	go func() {
		defer close(p.exited)
		<-p.Exited
		if !p.asked.Load() {
			t.Error(p.Failure("ended by itself"))
		}
	}()
	return p
}

// until waits for the line that says that the process runs.
func (p *process) until(into any) {
	p.t.Helper()
	line := testkit.Value(p.WaitReady(p.t.Context(), patience))(p.t)
	testkit.Must(p.t, json.Unmarshal([]byte(line), into))
}

func (p *process) end(s syscall.Signal) {
	p.asked.Store(true)
	p.End(s, patience)
	<-p.exited
}

// kill ends the process as a power cut of the process would.
func (p *process) kill() { p.end(syscall.SIGKILL) }

// stop asks the process to end.
func (p *process) stop() { p.end(syscall.SIGTERM) }
