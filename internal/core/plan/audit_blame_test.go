package plan_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// reenrolled is a rolled back fleet in which a host began again on a new disk.
func reenrolled(t *testing.T) *world {
	w := rolledBack(t)
	w.enrol("h0")
	w.presence("h0", true)
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0 h1 h2 h3", target: bundles[2]}))
	w.live(8)
	if h := w.s.Hosts["h0"]; h.Incarnation != 2 || h.Seq == 0 {
		t.Fatalf("the new disk reported %d/%d", h.Incarnation, h.Seq)
	}
	if v := found(w, w.log); len(v) > 0 {
		t.Fatalf("the sound log violates %v", v)
	}
	return w
}

// TestRewrittenRecordsAccuseNoHost takes out, repeats and moves each record of the
// server: what is found then is never laid at a host that reported the truth. That a claim
// is gone which a host acted on is always found.
func TestRewrittenRecordsAccuseNoHost(t *testing.T) {
	w := reenrolled(t)
	for i, e := range w.log {
		if e.HostSeq != 0 {
			continue
		}
		without := slices.Delete(slices.Clone(w.log), i, i+1)
		for what, log := range map[string][]event.Entry{
			"taken out":   without,
			"repeated":    slices.Insert(slices.Clone(w.log), i, e),
			"moved ahead": slices.Insert(slices.Clone(without), max(0, i-3), e),
			"moved back":  slices.Insert(slices.Clone(without), min(len(without), i+3), e),
		} {
			v := found(w, log)
			if n := slices.IndexFunc(v, func(v audit.Violation) bool { return v.Host != "" && !v.Disputed }); n >= 0 {
				t.Errorf("record %d, %s of host %q, %s: host %s is accused: %s", i+1, e.Type, e.Host(), what, v[n].Host, v[n])
			}
			if what == "taken out" && e.Type == (event.GrantClaimed{}).EventType() && len(v) == 0 {
				t.Errorf("record %d, %s of host %s, %s: nothing is found", i+1, e.Type, e.Host(), what)
			}
		}
	}
}

// TestHostsAreHeldToTheirOwnWords has a host report what its own events rule out, and
// expects it by name; what only the server's records rule out is disputed.
func TestHostsAreHeldToTheirOwnWords(t *testing.T) {
	w := rolledBack(t)
	step := func(input, from, to string, data any) event.Entry {
		raw := testkit.Value(json.Marshal(data))(t)
		r := w.s.Find("c@r1")
		body := testkit.Value(json.Marshal(map[string]any{"rollout": r.Name, "manifest": r.Manifest, "input": input, "data": json.RawMessage(raw), "from": from, "to": to}))(t)
		return event.Entry{At: w.now, Subject: event.HostSubject("h3"), Type: (event.HostStepped{}).EventType(), Body: body}
	}
	r1 := w.s.Find("c@r1").Manifest
	type none struct{}
	activated := map[string]any{"observed": bundles[0]}
	claim := map[string]any{"grant": "g999", "rollout": "c@r1", "manifest": r1, "from": bundles[0], "target": bundles[0], "bootId": "b"}
	for name, c := range map[string]struct {
		invariant string
		accused   string // by its own chain alone
		steps     []event.Entry
	}{
		"a phase that it is not in": {"S19", "h3", []event.Entry{step("elapsed", "soaking", "converged", none{})}},
		"a way that does not exist": {"S19", "h3", []event.Entry{step("elapsed", "converged", "reverted", none{})}},
		"a way that no input leads": {"S19", "h3", []event.Entry{step("contact", "converged", "activating", none{}), step("activated", "activating", "soaking", activated),
			step("elapsed", "soaking", "converged", none{})}},
		"no cause":                  {"S28", "h3", []event.Entry{step("elapsed", "converged", "failed", none{})}},
		"a grant that nobody gave":  {"S23", "", []event.Entry{step("claimed", "converged", "activating", claim)}},
		"a way back nobody ordered": {"S23", "", []event.Entry{step("revert-claimed", "converged", "failed", map[string]any{"grant": "g999", "reason": "x"})}},
	} {
		log := slices.Clone(w.log)
		h := w.s.Hosts["h3"]
		for i, e := range c.steps {
			e.Incarnation, e.HostSeq = h.Incarnation, h.Seq+uint64(i)+1
			log = append(log, e)
		}
		v := found(w, log)
		if !slices.ContainsFunc(v, func(v audit.Violation) bool {
			return v.Invariant == c.invariant && v.Host == "h3" && v.Disputed == (c.accused == "")
		}) {
			t.Errorf("%s: the audit found only %v, expected %s of %q", name, v, c.invariant, c.accused)
		}
	}
}
