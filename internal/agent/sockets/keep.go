package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What our own holder understands besides store and remove.
const (
	keep  = "KEEP=" // and milliseconds: how long to stay without an agent
	stop  = "STOP=1"
	ended = "READY=1" // from the holder: there is no more to hand over
)

const (
	maxMessage = 4096
	maxHeld    = 256
)

// unclaimed is how long a holder waits for the agent that started it.
const unclaimed = time.Minute

// Keep keeps sockets until ctx ends, an agent tells it to stop, or none has been there for
// as long as the last one said. Agents connect to the socket that this process inherited as
// its first descriptor after stderr, one at a time.
func Keep(ctx context.Context) error {
	f := os.NewFile(firstPassed, "agents")
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("no socket to wait for agents on: %w; steady agent starts this by itself, see --keep-sockets", err)
	}
	agents, ok := l.(*net.UnixListener)
	if err := f.Close(); err != nil || !ok {
		return errors.Join(err, l.Close(), errors.New("what was inherited is no socket for agents"))
	}
	context.AfterFunc(ctx, func() { _ = agents.Close() })
	h := holder{kept: map[string]int{}, keep: unclaimed}
	for !h.stopped {
		if err := agents.SetDeadline(time.Now().Add(h.keep)); err != nil {
			return err
		}
		c, err := agents.AcceptUnix()
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		end := context.AfterFunc(ctx, func() { _ = c.Close() })
		if samePeer(c) == nil {
			h.serve(c)
		}
		end()
		_ = c.Close()
	}
	return agents.Close()
}

// holder is what is kept.
type holder struct {
	kept    map[string]int // descriptors by name
	keep    time.Duration
	stopped bool
}

// serve hands everything over to one agent and follows it until it is gone.
func (h *holder) serve(c *net.UnixConn) {
	for name, fd := range h.kept {
		if sendTo(c, store+name, fd) != nil {
			return
		}
	}
	if sendTo(c, ended, none) != nil {
		return
	}
	for {
		message, fd, err := receive(c)
		if err != nil {
			return
		}
		h.apply(message, fd)
	}
}

func (h *holder) apply(message string, fd int) {
	name, stores := strings.CutPrefix(message, store)
	if stores && fd != none && len(h.kept) < maxHeld {
		h.drop(name)
		h.kept[name] = fd
		return
	}
	if fd != none {
		_ = unix.Close(fd)
	}
	if name, removes := strings.CutPrefix(message, remove); removes {
		h.drop(name)
	}
	if ms, sets := strings.CutPrefix(message, keep); sets {
		if n, err := strconv.ParseInt(ms, 10, 64); err == nil {
			h.keep = time.Duration(n) * time.Millisecond
		}
	}
	h.stopped = h.stopped || message == stop
}

func (h *holder) drop(name string) {
	if fd, there := h.kept[name]; there {
		_ = unix.Close(fd)
		delete(h.kept, name)
	}
}

// receive reads one message, with the descriptor that came along or none.
func receive(c *net.UnixConn) (string, int, error) {
	b, oob := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := c.ReadMsgUnix(b, oob)
	if err != nil {
		return "", none, err
	}
	if oobn == 0 {
		return string(b[:n]), none, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return "", none, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return "", none, err
	}
	return string(b[:n]), fds[0], nil
}

// samePeer refuses a peer of another user: listening sockets are worth what is sent
// to their addresses.
func samePeer(c *net.UnixConn) error {
	p, err := peer(c)
	if err == nil && int(p.Uid) != os.Geteuid() {
		err = fmt.Errorf("process %d of user %d is not ours", p.Pid, p.Uid)
	}
	return err
}

// peer is the process at the other end.
func peer(c *net.UnixConn) (p *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	cerr := raw.Control(func(fd uintptr) { p, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return p, errors.Join(cerr, err)
}
