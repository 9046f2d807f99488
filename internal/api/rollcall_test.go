package api_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/control"
	reducer "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// behind is a server that was restored from a backup in which one of two hosts, under
// a budget of one, had not claimed yet what it acts on now. The other host holds the
// offer that the server made since.
func behind(t *testing.T, change ...func(*api.Options)) (w *world, acts, waits *agent, offer *wire.Dispatch) {
	w = newWorld(t, change...)
	acts, waits = enrolled(w, hostName(0)), enrolled(w, hostName(1))
	testkit.Value(waits.poll("0"))(t)
	w.halt()
	backup := filepath.Join(t.TempDir(), "backup")
	testkit.Must(t, exec.Command("cp", "-a", w.opts.DataDir, backup).Run())
	w.start()
	acts.connect()
	_, err := acts.poll("0") // from now on it is there
	testkit.Must(t, err)
	dir := w.build("r1", plan{hosts: 2, content: "one", more: "disruptionBudgets:\n  - {selector: {all: true}, maxInFlight: 1}\n"})
	_, err = w.push(dir)
	testkit.Must(t, err)
	d := acts.offered()
	acts.beat()
	waits.connect()
	waits.beat() // or the claim would wait for it
	o := reducer.Granted{Grant: d.Grant, Purpose: d.Purpose, Term: d.Term, TTL: d.TTL, Plan: acts.planFor(d)}
	for _, e := range acts.step(o) {
		if prepare, ok := e.(reducer.Prepare); ok {
			acts.step(reducer.Prepared{Grant: prepare.Offer.Grant})
		}
	}
	var ans wire.ClaimAnswer
	if status := acts.do("POST", wire.RouteClaim, wire.Claim{Grant: d.Grant, Term: d.Term}, &ans); status != 200 || !ans.Accepted {
		t.Fatalf("claim: %d, %+v", status, ans)
	}
	acts.step(reducer.ClaimAnswered{Grant: d.Grant, Accepted: true}) // it activates, and says so later
	w.halt()
	testkit.Must(t, os.RemoveAll(w.opts.DataDir))
	testkit.Must(t, os.Rename(backup, w.opts.DataDir))
	w.start()
	if got, err := w.push(dir); err != nil || got.Outcome != control.Accepted {
		t.Fatalf("the release again: %+v, %v", got, err)
	}
	waits.connect()
	offer = waits.offered()
	waits.beat()
	return w, acts, waits, offer
}

// TestS1ClaimWaitsForHostsThatTheServerHasNotHeard: a restored server takes no claim
// that could be one too many before the hosts have said how far they are.
func TestS1ClaimWaitsForHostsThatTheServerHasNotHeard(t *testing.T) {
	t.Parallel()
	w, acts, waits, offer := behind(t)
	claim := func(want int) (ans wire.ClaimAnswer) {
		t.Helper()
		status, raw, err := waits.call(w.ctx(), "POST", wire.RouteClaim, wire.Claim{Grant: offer.Grant, Term: offer.Term})
		testkit.Must(t, err)
		if status != want {
			t.Fatalf("claim: %d %s, expected %d", status, raw, want)
		}
		if status == 503 && !strings.Contains(string(raw), "is not connected to all hosts yet") {
			t.Fatalf("the claim waits: %s", raw)
		}
		if status == 200 {
			testkit.Must(t, wire.Decode(raw, &ans))
		}
		return ans
	}
	claim(503)
	why := testkit.Value(w.op.Why(w.ctx(), waits.name))(t)
	if b := why.Block; b == nil || b.Code != gate.Restore || !strings.Contains(why.Message, "its claim waits") {
		t.Fatalf("why says %+v", why)
	}
	acts.connect()
	beat := wire.Heartbeat{Incarnation: 1, LastSeq: 0, Repairing: "g9"}
	acts.do("POST", wire.RouteHeartbeat, beat, nil)
	claim(503) // it repairs under a claim that the log lacks
	beat = wire.Heartbeat{Incarnation: 1, LastSeq: acts.chain.Seq, Pending: len(acts.queue)}
	acts.do("POST", wire.RouteHeartbeat, beat, nil)
	claim(503) // it was heard, and what it did was not
	testkit.Must(t, acts.send())
	if ans := claim(200); ans.Accepted || !strings.Contains(ans.Reason, "of at most 1 hosts") {
		t.Fatalf("the claim of a slot that another host has: %+v", ans)
	}
	acts.run([]reducer.Effect{reducer.Activate{Generation: acts.a.Generation}})
	testkit.Must(t, acts.send())
	if ans := claim(200); !ans.Accepted {
		t.Fatalf("the claim of a slot that came free: %+v", ans)
	}
}

// TestRollCallEnds: a host that is never heard, and one that lies in each heartbeat
// that it repairs under a grant the log lacks, holds claims up for as long as any
// other may be silent, and no longer. Until then a restored server may be unsure; what
// was claimed by a host that stays away for so long it cannot know.
func TestRollCallEnds(t *testing.T) {
	t.Parallel()
	w, lies, waits, offer := behind(t, func(o *api.Options) { o.Control.OfflineAfter = 3 * clock.Second })
	lies.connect()
	w.until("the claim to be taken", func() bool {
		if status := lies.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1, Repairing: "g9"}, nil); status != 200 {
			t.Fatalf("heartbeat: %d", status)
		}
		var ans wire.ClaimAnswer
		return waits.do("POST", wire.RouteClaim, wire.Claim{Grant: offer.Grant, Term: offer.Term}, &ans) == 200 && ans.Accepted
	})
}
