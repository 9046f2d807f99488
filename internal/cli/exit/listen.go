package exit

import (
	"errors"
	"net"
	"syscall"
)

// listenError finds that an address could not be listened on.
func listenError(err error) (*net.OpError, bool) {
	op, ok := errors.AsType[*net.OpError](err)
	return op, ok && op.Op == "listen"
}

// listenCode is the code of such an error: no server failed to answer.
func listenCode(op *net.OpError) int {
	switch {
	case errors.Is(op, syscall.EACCES):
		return Refused
	case errors.Is(op, syscall.EADDRNOTAVAIL):
		return BadInput
	}
	return Failed
}

// listenMessage says why an address cannot be listened on and what to do; empty
// for another error.
func listenMessage(err error) string {
	op, ok := listenError(err)
	if !ok || op.Addr == nil {
		return ""
	}
	at := op.Addr.String()
	switch {
	case errors.Is(op, syscall.EADDRINUSE):
		return "cannot listen on " + at + ": another process uses the address; stop that one (ss -ltnp shows it), or choose another address or port"
	case errors.Is(op, syscall.EADDRNOTAVAIL):
		return "cannot listen on " + at + ": this machine has no such address; give one of its own (ip address shows them), or only a port, such as :8443"
	case errors.Is(op, syscall.EACCES):
		return "cannot listen on " + at + ": this user may not; choose a port from 1024 on, or grant CAP_NET_BIND_SERVICE (AmbientCapabilities= of a unit)"
	}
	return ""
}
