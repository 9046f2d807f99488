package system

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/disk"
)

// switcher makes a system run.
const switcher = "bin/switch-to-configuration"

// detached runs a switch so that it outlives the agent, which a switch may restart.
// The lock on descriptor 3 is held as long as the switch is waited for, and not by
// what the switch leaves running. The result is renamed into place.
// It is killed for lack of memory like any program: only the agent is spared.
const detached = `echo 0 2>/dev/null >/proc/self/oom_score_adj
{ "$1" "$2" >"$3.out" 2>&1 3>&-
echo "$4 ended $?" >"$3.tmp" && mv "$3.tmp" "$3.exit"; } &
echo "$$" >"$3.pid"`

func (m *nixes) base(name string) string { return filepath.Join(m.host.Systems, name) }

func (m *nixes) read(name string) (rec SwitchRecord, found bool, err error) {
	raw, err := os.ReadFile(m.base(name) + ".json")
	if errors.Is(err, os.ErrNotExist) {
		return rec, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &rec)
	}
	return rec, err == nil, err
}

// write is durable before it returns.
func (m *nixes) write(name string, rec SwitchRecord) error {
	raw, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(m.host.Systems, 0o700); err != nil {
		return err
	}
	return disk.Replace(m.base(name)+".json", raw, 0o600)
}

func (m *nixes) forget(name string) error {
	return removed(os.Remove(m.base(name) + ".json"))
}

// start returns once the switch runs on its own. What was written of it before is
// enough for any later agent to find it.
func (m *nixes) start(n *fleet.Nix, bundle digest.Digest, a Start) error {
	rec, begun, err := m.read(n.Name)
	if err != nil {
		return err
	}
	if !begun { // the profile pointed there already
		rec.Intact = true
		if rec.From, rec.FromPath, err = current(n.Profile); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(m.host.Systems, 0o700); err != nil {
		return err
	}
	base := m.base(n.Name)
	lock, locked, err := tryLock(base + ".lock")
	if err != nil {
		return err
	}
	if !locked {
		return fmt.Errorf("a switch of system %s runs already", n.Name)
	}
	defer lock.Close()                                      //nolint:errcheck // nothing was written
	for _, old := range []string{".exit", ".out", ".pid"} { // of another switch
		if err := removed(os.Remove(base + old)); err != nil {
			return err
		}
	}
	rec.Seq++
	rec.Path, rec.Mode, rec.Run, rec.Boot, rec.Started, rec.Why = a.Path, a.Mode, a.Run, m.host.BootID, a.At, a.Why
	rec.Intact = rec.Intact && a.Mode == ModeBoot
	if err := m.write(n.Name, rec); err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", detached, "sh", filepath.Join(a.Path, switcher), a.Mode, base, strconv.Itoa(rec.Seq))
	cmd.Dir, cmd.Env = m.host.Root, nixEnvironment(m.host, bundle)
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	m.host.Log.Info("system is switched", "system", n.Name, "path", a.Path, "mode", a.Mode)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("start the switch: %w", err)
	}
	return nil
}

// tryLock takes a lock file if nobody has it.
func tryLock(file string) (f *os.File, locked bool, err error) {
	f, err = os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, true, nil
	}
	closed := f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, false, closed
	}
	return nil, false, fmt.Errorf("lock %s: %w", file, err)
}

// state returns the state of the recorded switch.
func (m *nixes) state(name string, rec SwitchRecord) (s SwitchState, code int, out string, err error) {
	if rec.Seq == 0 {
		return SwitchNone, 0, "", nil
	}
	base := m.base(name)
	lock, locked, err := tryLock(base + ".lock")
	if err != nil {
		return s, 0, "", err
	}
	if !locked {
		return SwitchRunning, 0, "", nil
	}
	if err := lock.Close(); err != nil {
		return s, 0, "", err
	}
	raw, err := os.ReadFile(base + ".exit")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return s, 0, "", err
	}
	var seq int
	var word string
	if n, _ := fmt.Sscanf(string(raw), "%d %s %d", &seq, &word, &code); n < 3 || seq != rec.Seq {
		return SwitchLost, 0, "", nil
	}
	out, err = lastOutput(base + ".out")
	return SwitchState(word), code, out, err
}

func lastOutput(file string) (string, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if info, serr := f.Stat(); serr == nil && info.Size() > MaxTail {
		_, err = f.Seek(-MaxTail, io.SeekEnd)
	}
	raw, rerr := io.ReadAll(io.LimitReader(f, MaxTail))
	return Scrub(string(raw), MaxTail), errors.Join(err, rerr, f.Close())
}

// stop kills the group of the switch, if it still runs, and records why.
func (m *nixes) stop(name string, result SwitchState) error {
	rec, _, err := m.read(name)
	if err != nil {
		return err
	}
	base := m.base(name)
	lock, ended, err := tryLock(base + ".lock")
	if err != nil {
		return err
	}
	if ended {
		return lock.Close()
	}
	raw, err := os.ReadFile(base + ".pid")
	if err != nil {
		return err
	}
	group, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || group <= 1 {
		return fmt.Errorf("the switch of system %s runs and cannot be found: expected its process group in %s.pid", name, base)
	}
	if err := syscall.Kill(-group, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill the switch of system %s: %w", name, err)
	}
	return disk.Replace(base+".exit", fmt.Appendf(nil, "%d %s -1\n", rec.Seq, result), 0o600)
}
