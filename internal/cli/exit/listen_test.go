package exit_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestListen: an address that cannot be listened on is no server that does not
// answer; the cause and the next step are named.
func TestListen(t *testing.T) {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	_, used := net.Listen("tcp", l.Addr().String())
	_, foreign := net.Listen("tcp", "192.0.2.1:0") // of no machine
	private := &net.OpError{Op: "listen", Net: "tcp", Addr: l.Addr(), Err: syscall.EACCES}
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{used, exit.Failed, "steady: cannot listen on " + l.Addr().String() + ": another process uses the address; stop that one"},
		{foreign, exit.BadInput, "steady: cannot listen on 192.0.2.1:0: this machine has no such address"},
		{private, exit.Refused, "this user may not; choose a port from 1024 on"},
	} {
		var out bytes.Buffer
		if code := exit.Report(t.Context(), &out, "steady", false, fmt.Errorf("start: %w", c.err)); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%v: code %d, %q", c.err, code, out.String())
		}
	}
}
