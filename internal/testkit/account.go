package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
)

// accountID is a user that no machine has.
const accountID = 64999

// Account is an unprivileged user of one test, with a folder of its own. Root gets one that
// only the programs see which it starts; everybody else is themselves.
type Account struct {
	Name, Dir string
	root      bool
}

// Unprivileged makes one. Its folder has a short path, for sockets.
func Unprivileged(t testing.TB) *Account {
	t.Helper()
	a := &Account{Dir: Value(os.MkdirTemp("", "st"))(t), root: os.Geteuid() == 0}
	t.Cleanup(func() { _ = os.RemoveAll(a.Dir) })
	if !a.root {
		a.Name = Value(user.Current())(t).Username
		return a
	}
	a.Name = "steadytest"
	Must(t, os.WriteFile(filepath.Join(a.Dir, "passwd"), fmt.Appendf(nil, "root:x:0:0:root:/root:/bin/sh\n%s:*:%d:%[2]d::%s:/bin/sh\n", a.Name, accountID, a.Dir), 0o644))
	Must(t, os.Chown(a.Dir, accountID, accountID))
	return a
}

// Write makes a file of the account, by its name in the folder, and returns its path.
func (a *Account) Write(t testing.TB, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(a.Dir, name)
	Must(t, os.WriteFile(path, []byte(text), mode))
	Must(t, os.Chmod(path, mode))
	if a.root {
		Must(t, os.Chown(path, accountID, accountID))
	}
	return path
}

// Command is a program that runs as the account. Root starts it in a mount namespace with a
// list of users that has it.
func (a *Account) Command(name string, args ...string) *exec.Cmd {
	if a.root {
		id := strconv.Itoa(accountID)
		args = append([]string{"--mount", "sh", "-c", `mount --bind "$1" /etc/passwd && shift && exec setpriv --pdeathsig=KILL --reuid=` + id + ` --regid=` + id + ` --clear-groups "$@"`,
			"sh", filepath.Join(a.Dir, "passwd"), name}, args...)
		name = "unshare"
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = a.Dir
	cmd.Env = append(os.Environ(), "HOME="+a.Dir, "USER="+a.Name)
	return cmd
}
