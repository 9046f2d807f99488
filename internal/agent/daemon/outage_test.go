package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/agent/uplink"
)

// TestOutageIsTold: each cause of an outage is logged once, whatever changes in its
// text, and so is its end; a refusal is told as one, with the way back.
func TestOutageIsTold(t *testing.T) {
	var out strings.Builder
	a := &Agent{cfg: Config{StateDir: "/var/lib/steady", Log: slog.New(slog.NewTextHandler(&out, nil))}}
	refused := func(port int) error { return fmt.Errorf("read 127.0.0.1:%d: %w", port, syscall.ECONNREFUSED) }
	forbidden := &uplink.StatusError{Status: 403, Detail: "host web-4 never enrolled with this server"}
	for port := range 5 {
		a.unreachable("dispatch", refused(port))
	}
	a.unreachable("heartbeat", fmt.Errorf("beat: %w", forbidden))
	a.unreachable("dispatch", forbidden)
	a.unreachable("dispatch", refused(9))
	if !a.answered() || a.answered() {
		t.Error("the end of an outage is told once")
	}
	got := out.String()
	for words, n := range map[string]int{
		"the server does not answer": 1, "connection refused": 1, "the server refuses this host": 1, "never enrolled": 1,
		"move /var/lib/steady away": 1, "the server answers again": 1,
	} {
		if strings.Count(got, words) != n {
			t.Errorf("%q is logged %d times, expected %d:\n%s", words, strings.Count(got, words), n, got)
		}
	}
}

// TestOutageLines: a cause comes again after a while, one that comes and goes at
// every try fills no log, and there are never more causes kept than the bound.
func TestOutageLines(t *testing.T) {
	var o outage
	now := time.Unix(1, 0)
	lines := 0
	for range 100 { // refused and accepted in turn, for less than causeAgain
		if o.begin("403", now) {
			lines++
		}
		if _, tell := o.end(now); tell {
			lines++
		}
		now = now.Add(time.Second)
	}
	if lines != 2 {
		t.Errorf("%d lines of one cause that comes and goes", lines)
	}
	if !o.begin("403", now.Add(causeAgain)) {
		t.Error("a cause is never told again")
	}
	for i := range 100 {
		o.begin(fmt.Sprint(i), now)
	}
	if len(o.logged) > maxCauses {
		t.Errorf("%d causes are kept", len(o.logged))
	}
	if got := causeOf(fmt.Errorf("a: %w", fmt.Errorf("b: %w", errors.New("c")))); got != "c" {
		t.Errorf("cause %q", got)
	}
}
