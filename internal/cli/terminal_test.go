package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/testkit"
)

// terminal is a pseudo-terminal: the end that a person has, and the one that a
// command has.
type terminal struct{ person, command *os.File }

func newTerminal(rows, cols uint16) (*terminal, error) {
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	fd := int(person.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	command, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t := &terminal{person, command}
	return t, t.resize(rows, cols)
}

func (t *terminal) resize(rows, cols uint16) error {
	return unix.IoctlSetWinsize(int(t.person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
}

// screen is what the terminal has shown.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// pass looks for words after the first from bytes, and returns where they end.
func (s *screen) pass(from int, words string) (end int, ok bool) {
	i := strings.Index(s.String()[from:], words)
	return from + i + len(words), i >= 0
}

// typed runs a command at a terminal and types the lines of a file, each when the
// terminal shows what stands before its "|", after what the line before waited
// for: typed CODE FILE COMMAND [ARG...]. A line "resize ROWSxCOLS" gives the
// terminal another size, ^C is typed as such. What the terminal showed is the
// output.
func typed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: typed CODE FILE COMMAND [ARG...]")
	}
	pty, err := newTerminal(24, 80)
	ts.Check(err)
	defer pty.person.Close()
	cmd := exec.Command(args[2], args[3:]...)
	cmd.Env = append(os.Environ(), "STEADY_CONTEXT="+ts.Getenv("STEADY_CONTEXT"), "HOME="+ts.Getenv("HOME"), "TERM=xterm", "EDITOR="+ts.Getenv("EDITOR"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pty.command, pty.command, pty.command
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	ts.Check(cmd.Start())
	ts.Check(pty.command.Close())
	shown := new(screen)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := pty.person.Read(buf)
			_, _ = shown.Write(buf[:n])
			if err != nil {
				return // the last one at the other end is gone
			}
		}
	}()
	at := 0
	for _, line := range strings.Split(strings.TrimSpace(ts.ReadFile(args[1])), "\n") {
		before, keys, ok := strings.Cut(line, "|")
		if !ok {
			ts.Fatalf("%s: %q: expected WHAT IS SHOWN|WHAT IS TYPED", args[1], line)
		}
		eventually(ts, func() string {
			return fmt.Sprintf("%q on the terminal, which shows %q after %q", before, shown.String()[at:], shown.String()[:at])
		}, func() bool {
			end, ok := shown.pass(at, before)
			if ok {
				at = end
			}
			return ok
		})
		var rows, cols uint16
		if n, _ := fmt.Sscanf(keys, "resize %dx%d", &rows, &cols); n == 2 {
			ts.Check(pty.resize(rows, cols))
			continue
		}
		if keys == "^C" {
			keys = "\x03"
		} else {
			keys += "\r"
		}
		_, err := pty.person.WriteString(keys)
		ts.Check(err)
	}
	late := time.AfterFunc(testkit.Patience, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	late.Stop()
	fmt.Fprint(ts.Stdout(), strings.ReplaceAll(shown.String(), "\r", ""))
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("%v ended with code %s (%v), expected %s; the terminal shows:\n%s", args[2:], got, err, args[0], shown)
	}
}
