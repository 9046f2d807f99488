package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// checked is a bundle with a step whose check looks for a file that it makes.
func checked(t *testing.T) pack {
	return newPack(t, "web", []file{{path: "a", content: "one"}}, fleet.Exec{Name: "app", Timeout: clock.Minute,
		Activate: []string{"/bin/sh", "-c", "echo up >> log; touch ok"}, Check: []string{"/bin/sh", "-c", "test -e ok"}})
}

// drift has the check fail.
func (b *box) drift() {
	b.t.Helper()
	testkit.Must(b.t, os.Remove(filepath.Join(b.root, "ok")))
}

// onChecked is a host that converged on checked.
func onChecked(t *testing.T) *box {
	b := newBox(t, newServer(t), "web-1").start()
	p := checked(t)
	b.roll(single("web-1", 1, "r1", p), "g1", p)
	b.phase(host.Converged)
	b.want("log", "up\n")
	return b
}

func (b *box) needed(n int) {
	b.t.Helper()
	testkit.Eventually(b.t, "the need is reported", func() bool { return len(reported[event.RepairNeeded](b.s)) == n })
}

func (b *box) over(n int) []event.RepairOver {
	b.t.Helper()
	testkit.Eventually(b.t, "the end of the repair is reported", func() bool { return len(reported[event.RepairOver](b.s)) == n })
	return reported[event.RepairOver](b.s)
}

// TestRepairThatStopsWaitsForAGrant breaks a step. Its command does not run again
// until a grant is claimed, while a file is restored without asking.
func TestRepairThatStopsWaitsForAGrant(t *testing.T) {
	b := onChecked(t)
	b.drift()
	b.needed(1)
	need := reported[event.RepairNeeded](b.s)[0]
	m := b.agent.Status().Machine
	if strings.Join(need.Resources, " ") != "system/app" || need.Reason == "" || need.Manifest != m.Manifest || need.Bundle != m.Current {
		t.Errorf("reported %+v", need)
	}
	testkit.Must(t, os.Remove(filepath.Join(b.root, "a")))
	testkit.Eventually(t, "the file is back", func() bool { return b.content("a") == "one" })
	b.want("log", "up\n")

	b.s.grant("fix-1", host.Repair)
	if over := b.over(1)[0]; over.Grant != "fix-1" || !over.OK {
		t.Errorf("ended with %+v", over)
	}
	b.want("log", "up\nup\n")
	if st := b.agent.Status(); st.Repairs.Grant != "" || st.Repairs.Need != nil || st.Offer != nil || st.Machine.Phase != host.Converged {
		t.Errorf("afterwards %+v", st)
	}

	b.drift() // the window is closed: the next drift waits again
	testkit.Eventually(t, "it is held back again", func() bool { return len(b.agent.Status().Repairs.Names) == 1 })
	b.want("log", "up\nup\n")
}

// TestRepairThatHealsByItselfIsOver takes back what was reported.
func TestRepairThatHealsByItselfIsOver(t *testing.T) {
	b := onChecked(t)
	b.drift()
	b.needed(1)
	testkit.Must(t, os.WriteFile(filepath.Join(b.root, "ok"), nil, 0o644))
	if over := b.over(1)[0]; over.Grant != "" || !over.OK {
		t.Errorf("ended with %+v", over)
	}
	b.want("log", "up\n")
}

// TestRepairWithoutServerWaits cuts the host off: it repairs nothing that stops
// what runs, keeps its report, and goes on once the server is back.
func TestRepairWithoutServerWaits(t *testing.T) {
	b := onChecked(t)
	b.s.set(func() { b.s.down = true })
	b.drift()
	testkit.Eventually(t, "the host wants to report", func() bool { return b.agent.Status().Repairs.Need != nil })
	b.stop() // a restart is no way around it
	b.start()
	testkit.Eventually(t, "it asks the server first", func() bool { return b.agent.committed.Load().Unconfirmed() })
	b.clock.push(clock.Minute) // for long enough
	testkit.Must(t, os.Remove(filepath.Join(b.root, "a")))
	testkit.Eventually(t, "the file is back", func() bool { return b.content("a") == "one" })
	b.want("log", "up\n")
	b.s.set(func() { b.s.down = false })
	b.needed(1)
	b.s.grant("fix-1", host.Repair)
	b.over(1)
	b.want("log", "up\nup\n")
}

// TestReleaseOvertakesAWaitingRepair gives the host another bundle while it waits:
// what waited is over, and the new bundle is what runs.
func TestReleaseOvertakesAWaitingRepair(t *testing.T) {
	b := onChecked(t)
	b.drift()
	b.needed(1)
	two := newPack(t, "web", []file{{path: "a", content: "two"}}, step("app", "two"))
	b.roll(single("web-1", 2, "r2", two), "g2", two)
	testkit.Eventually(t, "the second bundle", func() bool { m := b.agent.Status().Machine; return m.Grant == "g2" && m.Phase == host.Converged })
	if over := b.over(1)[0]; over.Grant != "" || over.OK {
		t.Errorf("ended with %+v", over)
	}
	b.want("log", "up\ntwo\n")
}

// TestS23RepairGrantOfAnotherRolloutIsDeclined offers a repair of what the host
// does not run.
func TestS23RepairGrantOfAnotherRolloutIsDeclined(t *testing.T) {
	b := onChecked(t)
	b.drift()
	b.needed(1)
	b.s.set(func() {
		b.s.offer = &wire.Dispatch{Grant: "fix-0", Purpose: host.Repair, Rollout: b.s.release.manifest.Rollout(),
			Manifest: digest.Of([]byte("another")), Term: 1, TTL: clock.Minute, Reason: "test"}
	})
	testkit.Eventually(t, "it is declined", func() bool {
		l := reported[event.GrantDeclined](b.s)
		return len(l) > 0 && l[0].Grant == "fix-0" && l[0].Code == host.DeclineOtherRollout
	})
	b.want("log", "up\n")
}

// TestF4RepairSurvivesACutAnywhere kills the agent after every commit of a repair
// under its grant, and starts it again: the window lasts, and it ends once.
func TestF4RepairSurvivesACutAnywhere(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		b := onChecked(t)
		b.drift()
		b.needed(1)
		b.stop()
		b.open()
		happened, over := b.cutAt(n)
		b.run()
		b.s.grant("fix-1", host.Repair)
		ended := func() bool { return len(reported[event.RepairOver](b.s)) > 0 }
		testkit.Eventually(t, "the cut or the end", func() bool { return happened() || ended() })
		if !over() {
			b.stop()
			if n < 8 {
				t.Fatalf("only %d cuts were tried", n-1)
			}
			return
		}
		b.crash()
		b.start()
		testkit.Eventually(t, "the end after the cut", func() bool {
			st := b.agent.Status()
			return ended() && st.AckedSeq == st.LastSeq && st.Repairs.Grant == "" && b.content("ok") == ""
		})
		grants := 0
		for _, over := range reported[event.RepairOver](b.s) {
			if over.Grant == "fix-1" {
				grants++
			}
		}
		if grants != 1 {
			t.Errorf("cut %d: the window ended %d times: %+v", n, grants, reported[event.RepairOver](b.s))
		}
		b.stop()
		if t.Failed() {
			t.Fatalf("after cut %d", n)
		}
	}
}
