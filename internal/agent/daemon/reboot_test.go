package daemon

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestStagedStepRebootsUnderItsGrant runs a step that ends with the exit code for
// a reboot: the host waits for the grant, runs its reboot command once, and goes on
// in another boot only.
func TestStagedStepRebootsUnderItsGrant(t *testing.T) {
	b := newBox(t, newServer(t), "web-1").start()
	p := newPack(t, "web", []file{{path: "a", content: "one"}}, fleet.Exec{Name: "kernel", Timeout: clock.Minute,
		Activate: []string{"/bin/sh", "-c", "echo staged >> log; echo kernel; exit 100"}})
	b.roll(single("web-1", 1, "r1", p), "g1", p)
	b.phase(host.Deferred)
	if m := b.agent.Status().Machine; m.Detail != "kernel" || m.Reboot != "" {
		t.Errorf("waits for %+v", m)
	}
	b.stop()
	b.start() // a restart of the agent is no reboot
	b.phase(host.Deferred)
	b.s.grant("boot-1", host.Reboot)
	testkit.Eventually(t, "the reboot command", func() bool { return b.content("reboot") == "" && b.agent.Status().Machine.Reboot == "boot-1" })
	b.stop()
	b.clock.reboot("boot-2")
	b.start()
	b.phase(host.Converged)
	b.want("log", "staged\n")
	if n := len(reported[event.GrantDeclined](b.s)); n != 0 {
		t.Errorf("%d grants were declined", n)
	}
}
