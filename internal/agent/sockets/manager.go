package sockets

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// firstPassed is the first descriptor that a service manager passes: SD_LISTEN_FDS_START.
const firstPassed = 3

// manager is the file descriptor store of systemd.
type manager struct{ socket *net.UnixConn }

// fromManager takes what the service manager kept; see sd_listen_fds(3). Commands that
// the agent runs must not believe that any of it is for them.
func (s *Set) fromManager() error {
	had := map[string]int{}
	count, err := strconv.Atoi(s.o.Env("LISTEN_FDS"))
	if err == nil && s.o.Env("LISTEN_PID") == strconv.Itoa(os.Getpid()) {
		names := strings.Split(s.o.Env("LISTEN_FDNAMES"), ":")
		for i := range count {
			unix.CloseOnExec(firstPassed + i)
			if i < len(names) && strings.HasPrefix(names[i], prefix) {
				had[names[i]] = firstPassed + i
			}
		}
	}
	to := s.o.Env("NOTIFY_SOCKET")
	for _, name := range []string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "FDSTORE"} {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: to, Net: "unixgram"}) // @ begins an abstract name for both
	if err != nil {
		return fmt.Errorf("reach the service manager: %w", err)
	}
	return s.adopt(&manager{c}, had)
}

func (m *manager) send(message string, fd int) error { return sendTo(m.socket, message, fd) }

// Close implements keeper.
func (m *manager) Close() error { return m.socket.Close() }

func sendTo(c *net.UnixConn, message string, fd int) error {
	var rights []byte
	if fd != none {
		rights = unix.UnixRights(fd)
	}
	raw, err := c.SyscallConn() // WriteMsgUnix refuses a connected socket of datagrams
	if err != nil {
		return err
	}
	werr := raw.Write(func(to uintptr) bool {
		err = unix.Sendmsg(int(to), []byte(message), rights, nil, unix.MSG_NOSIGNAL)
		return !errors.Is(err, unix.EAGAIN)
	})
	return errors.Join(werr, err)
}
