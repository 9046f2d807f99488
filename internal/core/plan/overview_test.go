package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

func TestEveryHostStateHasItsCode(t *testing.T) {
	codes := map[byte]bool{}
	for _, row := range plan.HostStates {
		if codes[row.Code] || plan.StateOf(row.Code).State != row.State || row.Code < 'a' || row.Code > 'z' {
			t.Errorf("the code of %s is of another state too, or no letter", row.State)
		}
		codes[row.Code] = true
	}
	if plan.StateOf('?') != nil {
		t.Error("a code of no state has a row")
	}
}

// TestHostStates has one host in the only rollout of a channel stand at one thing after the other.
func TestHostStates(t *testing.T) {
	const at, ahead = clock.Instant(500), clock.Duration(100)
	in := func(p host.Phase, change ...func(*plan.Host)) func(*plan.Host) {
		return func(h *plan.Host) {
			h.Machine.Phase = p
			for _, f := range change {
				f(h)
			}
		}
	}
	away := func(h *plan.Host) { h.Online, h.LastSeen, h.SilentSince = false, 70, 80 }
	for _, c := range []struct {
		set   func(*plan.Host)
		gone  bool // the release does not declare it
		want  plan.HostState
		since clock.Instant
	}{
		{set: func(h *plan.Host) { h.Incarnation = 0 }, want: "never-enrolled"},
		{set: func(h *plan.Host) { h.Forked, h.Machine.Phase = true, host.Failed }, want: "forked"},
		{set: func(h *plan.Host) { h.Parked = "set-back" }, want: "parked"},
		{set: func(h *plan.Host) { h.Ended = &plan.Ended{Status: gate.Revoked} }, want: "revoked"},
		{set: func(h *plan.Host) { h.Ended, h.SilentFailure = &plan.Ended{Status: gate.Decommissioned}, true }, want: "decommissioned"},
		{set: func(h *plan.Host) { h.Leaving = &plan.Leaving{} }, want: "leaving"},
		{set: in(host.Failed), gone: true, want: "removed"},
		{set: in(host.Failed, func(h *plan.Host) { h.Machine.FailedAt = at }), want: "failed", since: at.Add(ahead)},
		{set: in(host.Failed, away, func(h *plan.Host) { h.Machine.FailedAt = at }), want: "failed", since: at.Add(ahead)},
		{set: in(host.Activating, away, func(h *plan.Host) { h.SilentFailure = true }), want: "failed", since: 80},
		{set: in(host.Soaking, func(h *plan.Host) { h.Overdue = true }), want: "failed"},
		{set: in(host.Failed, func(h *plan.Host) { h.Machine.Reverting, h.Machine.FailedAt = true, at }), want: "reverting", since: at.Add(ahead)},
		{set: in(host.Failed, away, func(h *plan.Host) { h.Machine.Reverting = true }), want: "silent", since: 80},
		{set: in(host.Activating, away), want: "silent", since: 80},
		{set: in(host.Converged, away, func(h *plan.Host) { h.Degraded = &plan.Degradation{} }), want: "offline", since: 70},
		{set: in(host.Converged, func(h *plan.Host) { h.Degraded = &plan.Degradation{Since: at} }), want: "degraded", since: at},
		{set: in(host.Deferred, func(h *plan.Host) { h.Freeze = &event.HostFrozen{} }), want: "deferred"},
		{set: in(host.Activating, func(h *plan.Host) { h.Work.Since = at }), want: "activating", since: at},
		{set: in(host.Soaking, func(h *plan.Host) { h.Machine.SoakFrom = at }), want: "soaking", since: at.Add(ahead)},
		{set: in(host.Converged, func(h *plan.Host) { h.Freeze = &event.HostFrozen{} }), want: "frozen"},
		{set: in(host.Reverted, func(h *plan.Host) { h.Machine.RevertedAt = at }), want: "reverted", since: at.Add(ahead)},
		{set: in(host.Pending, func(h *plan.Host) { h.Grant = &plan.Grant{} }), want: "offered"},
		{set: in(host.Pending), want: "pending"},
		{set: in(host.Converged, func(h *plan.Host) { h.Machine.Current, h.Machine.ConvergedAt = bundles[0], at }), want: "converged", since: at.Add(ahead)},
	} {
		h := &plan.Host{Name: "h", Incarnation: 1, Online: true, Clock: plan.HostClock{Known: true, Ahead: ahead}}
		c.set(h)
		s := plan.New(documents{})
		s.Hosts["h"] = h
		if got, since := s.HostState("h", !c.gone); got != c.want || since != c.since {
			t.Errorf("%+v stands at %s since %d, want %s since %d", h, got, since, c.want, c.since)
		}
	}
	if got, _ := plan.New(documents{}).HostState("h", true); got != "never-enrolled" {
		t.Errorf("a host that is only declared is %s", got)
	}
}

// TestHostWaitsForTheNewestRollout: only while that may still reach it.
func TestHostWaitsForTheNewestRollout(t *testing.T) {
	w := onOne(t, "h0 h1")
	is := func(want string) {
		t.Helper()
		a, _ := w.s.HostState("h0", true)
		b, _ := w.s.HostState("h1", true)
		if got := string(a + " " + b); got != want {
			t.Errorf("the hosts are %s, want %s\n%s", got, want, w.tail())
		}
	}
	is("converged converged")
	w.hosts["h0"].broken[bundles[1]] = true
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], policy: fleet.RollbackAndHalt}))
	w.tick()
	is("offered waiting")
	for w.s.Find("c@r2").Phase != rollout.Reverted {
		w.live(1)
	}
	is("reverted converged")
}

// TestOverviewFollowsTheState reads an overview now and then while a world lives on: it is the one that is
// made anew, has every host once, in order, and its groups cover them.
func TestOverviewFollowsTheState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, home := newRandomWorld(t)
		w.other = true
		var o plan.Overview
		noted := 0
		act := actions(w, home)
		lives := act[""]
		act[""] = func(t *rapid.T) {
			lives(t)
			o.Note(w.log[noted:])
			noted = len(w.log)
			if rapid.IntRange(0, 2).Draw(t, "read") > 0 {
				return
			}
			roster := map[string]fleet.RosterHost{"not-there-yet": {Channel: "a"}}
			for name, channel := range home {
				roster[name] = fleet.RosterHost{Channel: channel}
			}
			var anew plan.Overview
			got, want := o.Read(w.s, roster), anew.Read(w.s, roster)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("the overview is not the one that is made anew (-want +got):\n%s\n%s", diff, w.tail())
			}
			checkOverview(t, w, got, roster)
		}
		t.Repeat(act)
	})
}

func checkOverview(t *rapid.T, w *world, f plan.Fleet, roster map[string]fleet.RosterHost) {
	seen, next := map[string]bool{}, 0
	for _, g := range f.Groups {
		names := f.Names[g.First : g.First+g.Count]
		if g.First != next || g.Count == 0 || !slices.IsSorted(names) {
			t.Fatalf("group %+v begins at %d: %v", g, next, names)
		}
		next += g.Count
		for i, name := range names {
			seen[name] = true
			state, _ := w.s.HostState(name, true)
			if row := plan.StateOf(f.Cells[g.First+i]); row == nil || row.State != state || roster[name].Channel != g.Channel {
				t.Fatalf("%s is %q in channel %s, and stands at %s", name, f.Cells[g.First+i], g.Channel, state)
			}
		}
	}
	for name := range roster {
		if !seen[name] {
			t.Fatalf("%s is declared and not in the overview", name)
		}
	}
	if next != len(f.Names) || len(seen) != len(f.Names) || len(f.Cells) != len(f.Names) || len(f.Since) != len(f.Names) {
		t.Fatalf("%d hosts of %d names, %d cells", len(seen), len(f.Names), len(f.Cells))
	}
}

// BenchmarkOverview is a read of a fleet of which one host changed, and of one that is arranged anew.
func BenchmarkOverview(b *testing.B) {
	for _, n := range sizes {
		docs := documents{}
		s := fleetOf(b, docs, n)
		var o plan.Overview
		entry := event.Entry{Subject: event.HostSubject("h000500")}
		b.Run(fmt.Sprintf("one/%d", n), func(b *testing.B) {
			o.Read(s, nil)
			for b.Loop() {
				o.Note([]event.Entry{entry})
				o.Read(s, nil)
			}
		})
		b.Run(fmt.Sprintf("anew/%d", n), func(b *testing.B) {
			for b.Loop() {
				o.Note([]event.Entry{{}})
				o.Read(s, nil)
			}
		})
	}
}
