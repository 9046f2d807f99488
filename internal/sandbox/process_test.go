package sandbox_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/sandbox"
	"github.com/steadyfleet/steady/internal/testkit"
)

// within bounds what happens at once on any machine.
const within = time.Minute

// run starts a shell script.
func run(t *testing.T, script string) (p *sandbox.Process, log string) {
	t.Helper()
	log = filepath.Join(t.TempDir(), "log")
	p = testkit.Value(sandbox.Start("the script", log, exec.Command("sh", "-c", script)))(t)
	t.Cleanup(func() { p.Stop(within) })
	return p, log
}

func TestReadyLineIsTheFirstObject(t *testing.T) {
	p, log := run(t, `echo hello; echo '{"a":1}'; echo '{"a":2}'; echo bye >&2`)
	line, err := p.WaitReady(t.Context(), within)
	if err != nil || line != "{\"a\":1}\n" {
		t.Errorf("%q %v", line, err)
	}
	<-p.Exited
	raw, err := os.ReadFile(log)
	testkit.Must(t, err)
	for _, want := range []string{"hello\n", "{\"a\":1}\n", "{\"a\":2}\n", "bye\n"} {
		if !strings.Contains(string(raw), want) {
			t.Errorf("no %q in the log %q", want, raw)
		}
	}
}

func TestWaitReadyGivesTheReason(t *testing.T) {
	for _, c := range []struct {
		name, script string
		within       time.Duration
		want         []string
		not          string
	}{
		{"ended", "seq 20; exit 3", within, []string{"the script ended before it was ready (exit status 3)", "  9\n", "  20"}, "  8\n"},
		{"late", "sleep 1000", time.Millisecond, []string{"the script was not ready within 1ms"}, "exit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, _ := run(t, c.script)
			_, err := p.WaitReady(t.Context(), c.within)
			if err == nil {
				t.Fatal("it is ready")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), c.not) {
				t.Errorf("%q in: %v", c.not, err)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, _ := run(t, "sleep 1000")
	if _, err := p.WaitReady(ctx, within); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestStartOfWhatIsNotThere(t *testing.T) {
	_, err := sandbox.Start("the ghost", filepath.Join(t.TempDir(), "log"), exec.Command("/nowhere"))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "start the ghost") {
		t.Errorf("%v", err)
	}
}

// TestStopEndsTheGroup has a child that starts another one: both ignore SIGTERM and
// hold the output open, so that the end of it is the end of both.
func TestStopEndsTheGroup(t *testing.T) {
	p, _ := run(t, `trap '' TERM; sleep 1000 & echo "{}"; wait`)
	testkit.Value(p.WaitReady(t.Context(), within))(t)
	go p.Stop(time.Millisecond)
	select {
	case <-p.Exited:
	case <-time.After(within):
		t.Error("a process of the group lives on")
	}
}

func TestEndIsOfTheChildAlone(t *testing.T) {
	p, _ := run(t, `sleep 1000 >/dev/null & echo "{$!"; wait`)
	line := testkit.Value(p.WaitReady(t.Context(), within))(t)
	p.End(syscall.SIGKILL, within)
	other := testkit.Value(strconv.Atoi(strings.TrimSpace(line[1:])))(t)
	if err := syscall.Kill(other, syscall.SIGKILL); err != nil {
		t.Errorf("process %d ended with the child: %v", other, err)
	}
}
