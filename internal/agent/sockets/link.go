package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// link is the connection to our own holder.
type link struct{ *net.UnixConn }

func (k *link) send(message string, fd int) error { return sendTo(k.UnixConn, message, fd) }

// fromHolder takes over from the holder that an earlier agent started, or starts one.
func (s *Set) fromHolder(ctx context.Context) error {
	had, k, err := connect(ctx, s.o.Dir)
	if err != nil || k == nil {
		if !s.keeps() {
			return err
		}
		if k, err = s.begin(ctx); err != nil {
			return err
		}
	}
	if err := s.adopt(k, had); err != nil {
		return err
	}
	if !s.keeps() {
		// What this process has stays open: only nobody keeps it any more.
		s.keeper = nil
		return errors.Join(k.send(stop, none), k.Close())
	}
	if err := k.send(s.howLong(), none); err != nil {
		return err
	}
	go s.watch(k)
	return nil
}

// keeps reports whether there is anything for a holder to do.
func (s *Set) keeps() bool { return s.o.Keep > 0 && len(s.o.Addresses) > 0 }

func (s *Set) howLong() string { return keep + strconv.FormatInt(s.o.Keep.Milliseconds(), 10) }

// Stop ends the holder of a state folder, if it has one, once no agent is there.
func Stop(ctx context.Context, dir string) error {
	had, k, err := connect(ctx, dir)
	if err != nil || k == nil {
		return err
	}
	for _, fd := range had {
		err = errors.Join(err, unix.Close(fd))
	}
	return errors.Join(err, k.send(stop, none), k.Close())
}

// handover bounds the wait for a holder, which answers at once unless it still serves
// an agent.
const handover = 10 * time.Second

// connect reaches the holder of a state folder and takes what it has; nil is none.
func connect(ctx context.Context, dir string) (map[string]int, *link, error) {
	at, done, err := place(dir, false)
	if err != nil || at == "" {
		return nil, nil, err
	}
	defer done()
	c, err := (&net.Dialer{Timeout: handover}).DialContext(ctx, "unixpacket", at)
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ENOENT) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reach the process that keeps sockets: %w", err)
	}
	k := &link{c.(*net.UnixConn)}
	had, err := k.take()
	if err != nil { // it ends just now, or is not ours
		for _, fd := range had {
			_ = unix.Close(fd)
		}
		return nil, nil, k.Close()
	}
	return had, k, nil
}

// take receives what the holder has.
func (k *link) take() (map[string]int, error) {
	had := map[string]int{}
	if err := samePeer(k.UnixConn); err != nil {
		return had, err
	}
	if err := k.SetReadDeadline(time.Now().Add(handover)); err != nil {
		return had, err
	}
	for {
		message, fd, err := receive(k.UnixConn)
		if err != nil || message == ended {
			return had, errors.Join(err, k.SetReadDeadline(time.Time{}))
		}
		if name, ok := strings.CutPrefix(message, store); ok && fd != none {
			had[name] = fd
		}
	}
}

// begin starts a holder. It has a session of its own and no terminal: it goes on
// when this process ends, whatever ends it.
func (s *Set) begin(ctx context.Context) (*link, error) {
	at, done, err := place(s.o.Dir, true)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := os.Remove(at); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: at, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	cmd := exec.Command(s.o.Command[0], s.o.Command[1:]...)
	cmd.ExtraFiles, cmd.Dir, cmd.SysProcAttr = []*os.File{f}, "/", &syscall.SysProcAttr{Setsid: true}
	if err := errors.Join(cmd.Start(), f.Close(), l.Close()); err != nil {
		return nil, fmt.Errorf("start a process that keeps sockets: %w", err)
	}
	go func() { _ = cmd.Wait() }() // watch notices its end
	_, k, err := connect(ctx, s.o.Dir)
	if err == nil && k == nil {
		err = errors.New("the process that keeps sockets ended at once")
	}
	return k, err
}

// place is the path of the holder's socket in a state folder, short however long the
// folder's is, until done; empty if there is no folder for it and none is to be made.
func place(dir string, create bool) (path string, done func(), err error) {
	at := filepath.Join(dir, "sockets")
	if create {
		if err := os.MkdirAll(at, 0o700); err != nil {
			return "", nil, err
		}
		if err := os.Chmod(at, 0o700); err != nil { // whatever it was before: only we may come here
			return "", nil, err
		}
	}
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", at, err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/holder", fd), func() { _ = unix.Close(fd) }, nil
}

// Pauses between tries to start a holder again.
const (
	firstPause = 100 * time.Millisecond
	mostPause  = time.Minute
)

// watch starts another holder when this one has ended, and gives it everything.
func (s *Set) watch(k *link) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		if k != nil {
			for err := error(nil); err == nil; {
				_, _, err = receive(k.UnixConn)
			}
		}
		select {
		case <-s.closed:
			return
		case <-time.After(pause):
		}
		next, err := s.replace()
		switch k = next; {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.o.Log.Warn("no process keeps the addresses of routes open when this agent restarts; trying again", "error", err)
		default:
			s.o.Log.Warn("the process that keeps the addresses of routes open had ended; there is another one")
			pause = firstPause
		}
	}
}

// replace starts a holder and gives it everything.
func (s *Set) replace() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return nil, net.ErrClosed
	default:
	}
	k, err := s.begin(context.Background())
	if err != nil {
		return nil, err
	}
	err = k.send(s.howLong(), none)
	for name, fd := range s.copies {
		err = errors.Join(err, k.send(store+name, fd))
	}
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	_ = s.keeper.Close() // the other end is gone
	s.keeper = k
	return k, nil
}
