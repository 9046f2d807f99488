// Package sockets keeps the addresses of a host's routes open while its agent restarts.
// The agent binds them, and gives a copy of each listening socket to a keeper that outlives
// it: the service manager's file descriptor store where there is one, else a small process
// of the agent's own program (Keep). The next agent gets them back. Until it accepts,
// connections wait in the kernel's queue, and nobody is refused. The keeper accepts nothing
// and has no key.
package sockets

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Options of Open.
type Options struct {
	// Dir is the agent's state folder, which this process has locked.
	Dir string
	// Addresses are all that Listen is going to be asked for, each once. What an earlier agent left
	// for others is closed.
	Addresses []string
	// Keep is how long a process of our own keeps them without an agent; zero is
	// no such process. A service manager has rules of its own.
	Keep time.Duration
	// Command is the program with arguments that calls Keep.
	Command []string
	// Env looks up the environment of this process; the default is os.Getenv.
	Env func(string) string
	Log *slog.Logger
}

// Set is the sockets of this process. It may be used from any goroutine.
type Set struct {
	o Options

	mu     sync.Mutex
	copies map[string]int // descriptors by name, of what the keeper has
	keeper keeper         // nil: nobody
	closed chan struct{}
}

// keeper has copies of descriptors. Its messages are those of sd_notify(3).
type keeper interface {
	// send sends a message, with a descriptor unless it is none.
	send(message string, fd int) error
	Close() error
}

const none = -1

// Messages, each for the descriptor of a name.
const (
	store  = "FDSTORE=1\nFDNAME="
	remove = "FDSTOREREMOVE=1\nFDNAME="
)

// Open gets what an earlier agent left, and closes what nobody asks for any more. With
// an error the set is good, but nothing is kept when this process ends.
func Open(ctx context.Context, o Options) (*Set, error) {
	if o.Env == nil {
		o.Env = os.Getenv
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Set{o: o, copies: map[string]int{}, closed: make(chan struct{})}
	var err error
	if managed(o.Env) {
		err = s.fromManager()
	} else {
		err = s.fromHolder(ctx)
	}
	if err != nil {
		return s, fmt.Errorf("the addresses of routes are not kept open when this agent restarts: %w", err)
	}
	return s, nil
}

// managed reports whether the service manager keeps descriptors for this process. It sets
// FDSTORE since systemd 254; earlier ones do not say whether they do.
func managed(env func(string) string) bool {
	most, err := strconv.Atoi(env("FDSTORE"))
	return err == nil && most > 0 && env("NOTIFY_SOCKET") != ""
}

// Names begin with this; a service manager may hand over others.
const prefix = "routes."

// nameOf is the name of an address, without what FDNAME refuses.
func nameOf(address string) string { return prefix + url.QueryEscape(address) }

// adopt takes over the descriptors that a keeper had.
func (s *Set) adopt(k keeper, had map[string]int) error {
	s.keeper = k
	wanted := map[string]bool{}
	for _, a := range s.o.Addresses {
		wanted[nameOf(a)] = true
	}
	var errs []error
	for name, fd := range had {
		if wanted[name] && listens(fd) {
			s.copies[name] = fd
			continue
		}
		errs = append(errs, k.send(remove+name, none), unix.Close(fd))
	}
	return errors.Join(errs...)
}

// listens reports whether connections can be accepted on fd.
func listens(fd int) bool {
	on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	return err == nil && on != 0
}

// duplicate copies a descriptor. What is only kept is no os.File: the runtime would wake
// up for each connection that somebody else accepts.
func duplicate(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

// Listen returns the listener of an address: the one that an earlier agent had, or a new
// one, which is kept. To close it leaves the address open.
func (s *Set) Listen(ctx context.Context, address string) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := nameOf(address)
	if fd, kept := s.copies[name]; kept {
		fd, err := duplicate(fd)
		if err != nil {
			return nil, err
		}
		f := os.NewFile(uintptr(fd), address)
		l, err := net.FileListener(f)
		return l, errors.Join(err, f.Close())
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil || s.keeper == nil {
		return l, err
	}
	if err := s.keep(name, l); err != nil {
		s.o.Log.Warn("an address of routes is not kept open when this agent restarts", "address", address, "error", err)
	}
	return l, nil
}

// keep gives a copy of a listener to the keeper, and keeps one.
func (s *Set) keep(name string, l net.Listener) error {
	raw, err := l.(*net.TCPListener).SyscallConn()
	if err != nil {
		return err
	}
	copied := none
	cerr := raw.Control(func(fd uintptr) { copied, err = duplicate(int(fd)) })
	if err := errors.Join(cerr, err); err != nil {
		return err
	}
	s.copies[name] = copied
	return s.keeper.send(store+name, copied)
}

// Close lets go of the sockets of this process; it may be called once. With end nobody is to accept on
// them any more: the keeper closes them too.
func (s *Set) Close(end bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.closed)
	var errs []error
	for name, fd := range s.copies {
		if end && s.keeper != nil {
			errs = append(errs, s.keeper.send(remove+name, none))
		}
		errs = append(errs, unix.Close(fd))
	}
	clear(s.copies)
	if s.keeper == nil {
		return errors.Join(errs...)
	}
	if _, own := s.keeper.(*link); own && end {
		errs = append(errs, s.keeper.send(stop, none))
	}
	return errors.Join(append(errs, s.keeper.Close())...)
}
