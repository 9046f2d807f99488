package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// rolledBack is the log of a rollout that converged and of one whose second wave
// failed, under a budget.
func rolledBack(t *testing.T) *world {
	w := scene(t, "h0 h1 h2 h3")
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0 | h1 h2 h3", target: bundles[0], budget: 2}))
	w.live(6)
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2 h3", target: bundles[1], budget: 2,
		after: map[string][]string{"h3": {"h2"}}}))
	w.live(10)
	return w
}

// found replays a log through a fresh audit.
func found(w *world, log []event.Entry) []audit.Violation {
	l := audit.NewLog(w.docs)
	var out []audit.Violation
	for i, e := range log {
		out = append(out, l.Observe(uint64(i+1), e)...)
	}
	return out
}

// at finds the nth event of a type.
func at(t *testing.T, log []event.Entry, ev event.Event, nth int) int {
	for i, e := range log {
		if e.Type == ev.EventType() {
			if nth--; nth == 0 {
				return i
			}
		}
	}
	t.Fatalf("the log has no such %s", ev.EventType())
	return 0
}

// edited returns an entry with one field set.
func edited(t *testing.T, e event.Entry, field string, value any) event.Entry {
	var body map[string]any
	testkit.Must(t, json.Unmarshal(e.Body, &body))
	body[field] = value
	b := testkit.Value(json.Marshal(body))(t)
	e.Body = b
	return e
}

// TestAuditFindsWhatIsWrong tampers with a sound log and expects the invariant
// by its name: a checker that cannot fail checks nothing.
func TestAuditFindsWhatIsWrong(t *testing.T) {
	w := rolledBack(t)
	if v := found(w, w.log); len(v) > 0 {
		t.Fatalf("the sound log violates %v", v)
	}
	type log = []event.Entry
	entry := func(host string, ev event.Event) event.Entry {
		e := testkit.Value(event.NewEntry(w.now, event.HostSubject(host), ev))(t)
		return e
	}
	later := func(e event.Entry) event.Entry { e.At++; return e }
	drop := func(i int) log { return slices.Delete(slices.Clone(w.log), i, i+1) }
	insert := func(i int, e ...event.Entry) log { return slices.Insert(slices.Clone(w.log), i, e...) }
	change := func(i int, field string, value any) log {
		l := slices.Clone(w.log)
		l[i] = edited(t, l[i], field, value)
		return l
	}
	grant := func(n int) int { return at(t, w.log, event.Granted{}, n) }
	step := func(to string, nth int) int {
		for i, e := range w.log {
			if e.Type == (event.HostStepped{}).EventType() && strings.Contains(string(e.Body), `"to":"`+to+`"`) &&
				!strings.Contains(string(e.Body), `"from":"`+to+`"`) {
				if nth--; nth == 0 {
					return i
				}
			}
		}
		t.Fatalf("nobody went to %s", to)
		return 0
	}
	extra := func(g, host string, of int) event.Entry {
		e := edited(t, edited(t, w.log[grant(of)], "grant", g), "reason", "extra")
		e.Subject = event.HostSubject(host)
		return e
	}
	r2 := w.s.Find("c@r2")
	for _, c := range []struct {
		invariant string
		log       log
	}{
		{"S1", insert(grant(3)+1, later(extra("x", "h3", 3)))},
		{"S29", insert(grant(3)+1, extra("x", "h3", 3))},
		{"S2", insert(grant(1)+1, extra("x", "h0", 1))},
		{"S3", change(grant(1), "purpose", "party")},
		{"S5", insert(len(w.log), entry("h0", event.HostEnrolled{Incarnation: 1}))},
		{"S7", drop(at(t, w.log, event.WavePromoted{}, 1))},
		{"S8", insert(at(t, w.log, event.GrantClaimed{}, 1), w.log[at(t, w.log, event.WavePromoted{}, 1)])},
		{"S8", change(at(t, w.log, event.WavePromoted{}, 1), "evidence", 7)},
		{"S9", change(step("converged", 1), "data", map[string]any{"name": "up", "pass": false})},
		{"S10", drop(at(t, w.log, event.HostReturned{}, 1))},
		{"S11", change(at(t, w.log, event.WavePromoted{}, 1), "skipped", 1)},
		{"S14", insert(grant(6), extra("x", "h3", 6))},
		{"S16", insert(at(t, w.log, event.WavePromoted{}, 1), w.log[at(t, w.log, event.RolloutOpened{}, 1)])},
		{"S17", insert(grant(6), entry("", event.QuarantineAdded{Channel: "c", Digest: bundles[1], Reason: "x"}))},
		{"S17", insert(len(w.log), entry("", event.QuarantineCleared{Channel: "c", Digest: bundles[1]}))},
		{"S18", insert(grant(6), entry("", event.RolloutPaused{Rollout: "c@r2", Manifest: r2.Manifest, Actor: "ada"}))},
		{"S18", insert(len(w.log), entry("", event.RolloutResumed{Rollout: "c@r2", Manifest: r2.Manifest}))},
		{"S19", change(at(t, w.log, event.RolloutMoved{}, 2), "to", "pruned")},
		{"S19", change(step("soaking", 1), "to", "reverted")},
		{"S20", change(step("soaking", 1), "data", map[string]any{"observed": bundles[3]})},
		{"S21", change(step("reverted", 1), "data", map[string]any{"observed": bundles[3]})},
		{"S23", drop(at(t, w.log, event.GrantClaimed{}, 1))},
		{"S24", insert(at(t, w.log, event.GrantClaimed{}, 1), w.log[at(t, w.log, event.GrantClaimed{}, 1)])},
		{"S25", insert(3, event.Entry{Type: "host.danced"})},
		{"S28", change(grant(1), "reason", "")},
		{"S30", change(grant(1), "target", bundles[3])},
		{"S33", drop(step("soaking", 1))},
	} {
		v := found(w, c.log)
		if !slices.ContainsFunc(v, func(v audit.Violation) bool { return v.Invariant == c.invariant }) {
			t.Errorf("%s: the audit found only %v", c.invariant, v)
		}
	}
}

// TestAuditOfOperatorsDecisions tampers with logs of verbs.
func TestAuditOfOperatorsDecisions(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.presence("h0", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1], minSoaked: 2}))
	w.commit(plan.Freeze(w.s, "h2", w.now.Add(clock.Hour), "why", "ada", w.now))
	w.live(3)
	w.promote("c@r2", "w0")
	w.commit(plan.Unfreeze(w.s, "h2", "why", "ada", w.now))
	w.live(4)
	w.phase("c@r2", rollout.Terminal)
	if v := found(w, w.log); len(v) > 0 {
		t.Fatalf("the sound log violates %v", v)
	}
	type log = []event.Entry
	change := func(i int, field string, value any) log {
		l := slices.Clone(w.log)
		l[i] = edited(t, l[i], field, value)
		return l
	}
	entry := func(ev event.Event) event.Entry {
		e := testkit.Value(event.NewEntry(w.now, event.Subject{}, ev))(t)
		return e
	}
	forced, frozen, unfrozen := at(t, w.log, event.WaveForced{}, 1), at(t, w.log, event.HostFrozen{}, 1), at(t, w.log, event.HostUnfrozen{}, 1)
	soaking := at(t, w.log, event.GrantClaimed{}, 4) // of h1 in the second rollout
	r1, r2 := w.s.Find("c@r1"), w.s.Find("c@r2")
	early := slices.Insert(slices.Clone(w.log[:soaking+1]), soaking+1, w.log[forced])
	for name, c := range map[string]struct {
		invariant string
		log       log
	}{
		"forced by nobody":       {"S8", change(forced, "actor", "")},
		"forced without why":     {"S8", change(forced, "blocks", []string{})},
		"forced past":            {"S7", change(forced, "wave", 1)},
		"forced in flight":       {"S8", early},
		"forced on a lie":        {"S8", change(forced, "evidence", 2)},
		"not forced":             {"S7", slices.Delete(slices.Clone(w.log), forced, forced+1)},
		"frozen by nobody":       {"S18", change(frozen, "actor", "")},
		"frozen for ever":        {"S18", change(frozen, "until", 0)},
		"thawed by nobody":       {"S18", change(unfrozen, "actor", "")},
		"granted in the frost":   {"S18", slices.Delete(slices.Clone(w.log), unfrozen, unfrozen+1)},
		"pruned the latest":      {"S13", append(slices.Clone(w.log), entry(event.RolloutPruned{Rollout: r2.Name, Manifest: r2.Manifest, Phase: "terminal", Reason: "x"}))},
		"pruned what runs":       {"S19", append(slices.Clone(w.log[:forced]), entry(event.RolloutPruned{Rollout: r2.Name, Manifest: r2.Manifest, Phase: "active", Reason: "x"}))},
		"pruned without why":     {"S28", append(slices.Clone(w.log), entry(event.RolloutPruned{Rollout: r1.Name, Manifest: r1.Manifest, Phase: "terminal"}))},
		"held again for nothing": {"S27", slices.Insert(slices.Clone(w.log), forced, w.log[at(t, w.log, event.WaveBlocked{}, w.count(event.WaveBlocked{}, "")-1)], w.log[at(t, w.log, event.WaveBlocked{}, w.count(event.WaveBlocked{}, "")-1)])},
	} {
		v := found(w, c.log)
		if !slices.ContainsFunc(v, func(v audit.Violation) bool { return v.Invariant == c.invariant }) {
			t.Errorf("%s: the audit found only %v, expected %s", name, v, c.invariant)
		}
	}
}

// TestAuditOfARevertWithoutFailures checks S22 and S15 on logs made by hand.
func TestAuditOfARevertWithoutFailures(t *testing.T) {
	w := scene(t, "h0 h1")
	w.edges = []fleet.Edge{{Gates: "a", Gated: "b", Reason: "a first"}}
	a, b := w.manifest(spec{channel: "a", ref: "r1", waves: "h0", target: bundles[0]}), w.manifest(spec{channel: "b", ref: "r1", waves: "h1", target: bundles[0]})
	w.release(fleet.Queue, a, b)
	w.tick()
	for want, ev := range map[string]event.Event{
		"S22": event.RolloutReverting{Rollout: "a@r1", Manifest: a.Digest, Reason: "x"},
		"S15": event.RolloutOpened{Rollout: "b@r1", Channel: "b", Ref: "r1", Manifest: b.Digest, Reason: "x"},
	} {
		e := testkit.Value(event.NewEntry(w.now, event.Subject{}, ev))(t)
		v := found(w, append(slices.Clone(w.log), e))
		if !slices.ContainsFunc(v, func(v audit.Violation) bool { return v.Invariant == want }) {
			t.Errorf("%s: the audit found only %v", want, v)
		}
	}
}

// TestAuditOfEndedIdentities checks S8, S11, S10 and S22 where hosts that log as there
// lost their identity: the audit counts them as the planner does.
func TestAuditOfEndedIdentities(t *testing.T) {
	revoke := func(w *world, name string) {
		w.hosts[name].online = false // it hears nothing more, and no event says so yet
		w.commit(plan.Revoke(w.s, name, "lost", "ada", w.now))
	}
	decommission := func(w *world, name string) {
		w.hosts[name].online = false
		w.commit(plan.Decommission(w.s, name, "sold", "ada", w.now))
		w.tick()
	}
	for name, c := range map[string]struct {
		sp   spec
		away string // from the beginning
		end  func(w *world, name string)
		word bool // of an operator, that the first wave passes
		want rollout.Phase
	}{
		"revoked, others go back":       {spec{waves: "h0 | h1"}, "", revoke, false, rollout.Reverted},
		"revoked, then forced":          {spec{waves: "h0 h1 | h2", minSoaked: 2}, "h1", revoke, true, rollout.Terminal},
		"decommissioned, then forced":   {spec{waves: "h0 h1 | h2", minSoaked: 2}, "h1", decommission, true, rollout.Terminal},
		"decommissioned, then promoted": {spec{waves: "h0 h2 | h1", minSoaked: 1}, "", decommission, false, rollout.Reverted},
	} {
		t.Run(name, func(t *testing.T) {
			w := onOne(t, "h0 h1 h2")
			w.breakOn(bundles[1], "h1")
			if c.away != "" {
				w.presence(c.away, false)
			}
			c.sp.ref, c.sp.target = "r2", bundles[1]
			w.release(fleet.Queue, w.manifest(c.sp))
			for range 20 {
				if m := &w.s.Hosts["h0"].Machine; m.Phase == "converged" && m.Current == bundles[1] {
					break
				}
				w.tick()
				w.hosts["h0"].work()
				w.now = w.now.Add(clock.Second)
			}
			w.expect("h0=converged/two")
			c.end(w, "h0")
			if c.word {
				w.promote("c@r2", "w0")
			}
			w.live(12)
			w.phase("c@r2", c.want)
			if v := found(w, w.log); len(v) > 0 {
				t.Errorf("the sound log violates %v", v)
			}
		})
	}
	t.Run("revoked and skipped", func(t *testing.T) {
		w := onOne(t, "h0 h1 h2")
		revoke(w, "h1")
		w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1]}))
		w.live(6)
		w.phase("c@r2", rollout.Terminal)
		if v := found(w, w.log); len(v) > 0 {
			t.Errorf("the sound log violates %v", v)
		}
	})
}

// TestS1S25CheckRecountsTheState breaks a state's own counts.
func TestS1S25CheckRecountsTheState(t *testing.T) {
	w := rolledBack(t)
	if v := audit.Check(w.s, w.now); len(v) > 0 {
		t.Fatalf("the sound state violates %v", v)
	}
	r := w.s.Find("c@r2")
	r.Waves[0].Failures++
	w.s.Hosts["h1"].Machine.Phase = "converged"
	w.s.Hosts["h1"].Machine.Current = bundles[3]
	got := fmt.Sprint(audit.Check(w.s, w.now.Add(clock.Second)))
	for _, want := range []string{"S25", "S20"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not among %s", want, got)
		}
	}
}

// TestEveryEventTypeIsAudited offers every type: the audit knows them all.
func TestEveryEventTypeIsAudited(t *testing.T) {
	for _, name := range event.Types() {
		l := audit.NewLog(documents{})
		for _, v := range l.Observe(1, event.Entry{Type: name, Subject: event.HostSubject("h"), Incarnation: 0, HostSeq: 0, Body: []byte("{}")}) {
			if strings.Contains(v.Message, "is not checked") {
				t.Errorf("event %s is not audited", name)
			}
		}
	}
}
