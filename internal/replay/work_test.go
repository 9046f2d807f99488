package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == WorkerVerb {
		if err := Work(os.Stdin, os.Stdout, func([]event.Entry) []string { return nil }); err != nil {
			panic(err)
		}
		return
	}
	os.Exit(m.Run())
}

// worker starts this binary as a worker in a group of its own.
func worker(t *testing.T) (cmd *exec.Cmd, in io.WriteCloser, out, complaint *bytes.Buffer) {
	t.Helper()
	cmd, out, complaint = exec.Command(testkit.Value(os.Executable())(t), WorkerVerb), new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, complaint
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in = testkit.Value(cmd.StdinPipe())(t)
	testkit.Must(t, cmd.Start())
	return cmd, in, out, complaint
}

// TestWorkerIsBound: a worker that would need more memory than it may have ends, and the one that
// works gives way to every other process.
func TestWorkerIsBound(t *testing.T) {
	cmd, in, out, complaint := worker(t)
	job := testkit.Value(json.Marshal(Job{Memory: 128 << 20}))(t)
	_, err := in.Write(append(job, `
{"format":"`+HistoryFormat+`"}
{"blob":"`...))
	looked := 0
	more := bytes.Repeat([]byte("AAAA"), 1<<18)
	for n := 0; err == nil && n < 1<<10; n++ { // until nobody reads it
		if n == 1 {
			looked++
			for _, thread := range testkit.Value(os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid)))(t) {
				a, failed := unix.SchedGetAttr(testkit.Value(strconv.Atoi(thread.Name()))(t), 0)
				if failed != nil || a.Policy != unix.SCHED_IDLE {
					t.Errorf("a thread of the worker is scheduled by %+v (%v)", a, failed)
				}
			}
		}
		_, err = in.Write(more)
	}
	if err == nil || looked == 0 {
		t.Errorf("it ended with %v, looked at %d times", err, looked)
	}
	_ = in.Close() // it is gone
	// Go's runtime ends it, mostly with words of memory; its collector does not check every allocation
	// and may fault instead. The server names the bound in either case.
	err = cmd.Wait()
	why := complaint.String()
	if cmd.ProcessState.ExitCode() != 2 || out.Len() > 0 || !strings.Contains(why, "memory") && !strings.Contains(why, "SIGSEGV: segmentation violation") {
		t.Errorf("%v, %q, %.200s", err, out, complaint)
	}

	cmd, in, out, _ = worker(t)
	testkit.Value(in.Write(append(job, "\nno history\n"...)))(t)
	testkit.Must(t, in.Close())
	testkit.Must(t, cmd.Wait())
	var said Said
	testkit.Must(t, json.Unmarshal(out.Bytes(), &said))
	if !strings.Contains(said.Error, "line 1 of the history") {
		t.Errorf("%+v", said)
	}
}
