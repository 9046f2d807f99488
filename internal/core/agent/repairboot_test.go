package agent_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

var waitsForBoot = agent.RepairsObserved{Staged: []string{"exec/app"}, Component: "kernel"}

// toReboot is a host whose repair was staged in boot b1, with its window for the reboot open.
func toReboot(t *testing.T) *agent.State {
	t.Helper()
	a := opened(t)
	a.Machine.BootID = "b1"
	turn := step(t, a, waitsForBoot, 2000)
	if end := reported[event.RepairOver](t, turn); !end.OK || end.Grant != "g" || end.Detail != "waits for a reboot: kernel" {
		t.Fatalf("the first window ended with %+v", end)
	}
	if n := reported[event.RepairNeeded](t, turn); n.Reboot != "kernel" || len(n.Resources) != 1 || a.Repairs.Grant != "" {
		t.Fatalf("asked for %+v, and has %+v", n, a.Repairs)
	}
	only[agent.Claim](t, step(t, a, grantOf(host.Repair, "g2", fresh), 2500))
	step(t, a, agent.ClaimAnswered{Grant: "g2", Accepted: true}, 3000)
	return a
}

// TestS1RepairThatWaitsForARebootGivesItsSlotBack: it asks for another window, and reboots once in that.
func TestS1RepairThatWaitsForARebootGivesItsSlotBack(t *testing.T) {
	a := toReboot(t)
	if b := only[agent.BeginReboot](t, step(t, a, waitsForBoot, 3100)); b.Reason != "kernel" || !a.Rebooting() {
		t.Fatalf("it reboots for %+v", b)
	}
	if again := step(t, a, waitsForBoot, 3200); again.Save || len(again.Effects) > 0 {
		t.Fatalf("a second reboot in one boot: %+v", again)
	}
	step(t, a, boot("b1"), 3300) // the agent restarted before the machine did
	only[agent.BeginReboot](t, step(t, a, waitsForBoot, 3400))
	step(t, a, boot("b2"), 4000)
	if a.Rebooting() || a.Repairs.Grant != "g2" {
		t.Fatalf("after the boot it has %+v", a.Repairs)
	}
	if step(t, a, agent.RepairsObserved{Pending: true}, 4100); a.Repairs.Grant != "g2" {
		t.Fatal("the window ended before the repair was seen")
	}
	if end := reported[event.RepairOver](t, step(t, a, agent.RepairsObserved{}, 4200)); !end.OK || end.Grant != "g2" {
		t.Fatalf("ended %+v", end)
	}
}

// TestS23RebootThatDoesNotHelpIsNotAskedForAgain, until somebody else boots the machine.
func TestS23RebootThatDoesNotHelpIsNotAskedForAgain(t *testing.T) {
	for name, fails := range map[string]func(*testing.T, *agent.State) agent.Turn{
		"it needs another one": func(t *testing.T, a *agent.State) agent.Turn {
			step(t, a, boot("b2"), 4000)
			return step(t, a, waitsForBoot, 4100)
		},
		"the command fails": func(t *testing.T, a *agent.State) agent.Turn {
			return step(t, a, agent.RebootFailed{Detail: "exit code 1"}, 4100)
		},
		"it does not come": func(t *testing.T, a *agent.State) agent.Turn {
			return step(t, a, waitsForBoot, a.Repairs.Until+1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := toReboot(t)
			only[agent.BeginReboot](t, step(t, a, waitsForBoot, 3100))
			turn := fails(t, a)
			if end := reported[event.RepairOver](t, turn); end.OK || end.Grant != "g2" || end.Detail == "" {
				t.Fatalf("ended %+v", end)
			}
			for i := range 3 {
				if again := step(t, a, waitsForBoot, 1_000_000_000); len(again.Events) > 0 {
					t.Fatalf("look %d asks for %+v", i, again.Events)
				}
			}
			step(t, a, boot("b9"), 2_000_000_000)
			if n := reported[event.RepairNeeded](t, step(t, a, waitsForBoot, 2_000_000_001)); n.Reboot != "kernel" {
				t.Fatalf("after another boot it asks for %+v", n)
			}
		})
	}
}

// TestRepairsWithoutAReboot go first.
func TestRepairsWithoutARebootGoFirst(t *testing.T) {
	a := resting()
	a.Machine.BootID = "b1"
	both := waitsForBoot
	both.Blocked, both.Reason = []string{"exec/b"}, "the check fails"
	if n := reported[event.RepairNeeded](t, step(t, a, both, 1000)); n.Reboot != "" || n.Resources[0] != "exec/b" {
		t.Fatalf("asked for %+v", n)
	}
}
