package plan_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestL5WhyNamesTheRolloutThatIsNotOpenYet(t *testing.T) {
	w := scene(t, "h0 h1")
	w.edges = []fleet.Edge{{Gates: "a", Gated: "b", Reason: "a first"}}
	w.release(fleet.Queue, w.manifest(spec{channel: "a", ref: "r1", waves: "h0", target: bundles[0]}),
		w.manifest(spec{channel: "b", ref: "r1", waves: "h1", target: bundles[0]}))
	w.tick()
	a, err := plan.Why(w.s, "h1", w.now)
	if err != nil || a.Pending != "b@r1" || a.PendingBlock == nil || a.PendingBlock.Code != "channel-edge" || !strings.Contains(a.Message, "a@r1") {
		t.Fatalf("why says %+v, %v", a, err)
	}
	w.live(6)
	w.release(fleet.Queue, w.manifest(spec{channel: "b", ref: "r2", waves: "h1", target: bundles[1]}))
	w.tick()
	w.release(fleet.Queue, w.manifest(spec{channel: "b", ref: "r3", waves: "h1", target: bundles[2]}))
	w.tick()
	a, err = plan.Why(w.s, "h1", w.now)
	if err != nil || a.Rollout != "b@r2" || a.Pending != "b@r3" || a.PendingBlock == nil || a.PendingBlock.Code != "queue" {
		t.Fatalf("why says %+v, %v", a, err)
	}
}

func TestReportOfAHostIsCheckedWhole(t *testing.T) {
	w := onOne(t, "h0 h1")
	h := w.s.Hosts["h0"]
	entry := func(name string, seq uint64, ev event.Event) event.Entry {
		e := testkit.Value(event.NewEntry(1, event.HostSubject(name), ev))(t)
		e.Incarnation, e.HostSeq = h.Incarnation, seq
		return e
	}
	good := entry("h0", h.Seq+1, event.FileKept{Path: "/etc/x"})
	for what, second := range map[string]event.Entry{
		"a server's event":  entry("h0", h.Seq+2, event.QuarantineCleared{Channel: "c", Digest: bundles[0]}),
		"another host's":    entry("h1", h.Seq+2, event.FileKept{}),
		"a gap":             entry("h0", h.Seq+3, event.FileKept{}),
		"an unknown input":  entry("h0", h.Seq+2, event.HostStepped{Input: "dance", Data: []byte("{}")}),
		"a malformed input": entry("h0", h.Seq+2, event.HostStepped{Input: "claimed", Data: []byte("[]")}),
	} {
		before := string(w.json(w.s))
		_, err := plan.Ingest(w.s, "h0", []event.Entry{good, second}, nil, event.HostHead{}, 0, w.now)
		if _, ok := err.(*plan.ReportError); !ok || string(w.json(w.s)) != before {
			t.Errorf("%s: %v, state changed: %t", what, err, string(w.json(w.s)) != before)
		}
	}
	if _, err := plan.Ingest(w.s, "nobody", nil, nil, event.HostHead{}, 0, w.now); err == nil || w.s.Hosts["nobody"] != nil {
		t.Error("an unknown host was made by its report")
	}
}

func TestS19IllegalStepIsRecordedAndNotFollowed(t *testing.T) {
	w := onOne(t, "h0")
	h := w.s.Hosts["h0"]
	e, err := event.NewEntry(1, event.HostSubject("h0"), event.HostStepped{Rollout: "c@r1", Manifest: h.Machine.Manifest, Input: "elapsed",
		Data: []byte("{}"), From: host.Converged, To: host.Reverted})
	testkit.Must(t, err)
	e.Incarnation, e.HostSeq = 1, h.Seq+1
	entries, err := plan.Ingest(w.s, "h0", []event.Entry{e}, nil, event.HostHead{}, 0, w.now)
	if err != nil || h.Machine.Phase != host.Converged || len(entries) != 3 || entries[1].Type != (event.MirrorDiverged{}).EventType() {
		t.Fatalf("phase %s, entries %+v, %v", h.Machine.Phase, entries, err)
	}
}

// TestEveryEventTypeIsFolded offers every type with an empty body: it is folded
// or refused for what it says, never unknown and never a panic.
func TestEveryEventTypeIsFolded(t *testing.T) {
	for _, name := range event.Types() {
		err := plan.New(documents{}).Apply(event.Entry{Type: name, Subject: event.HostSubject("h"), Body: []byte("{}")})
		if _, unknown := err.(*event.UnknownTypeError); unknown {
			t.Errorf("event %s is not folded", name)
		}
	}
	if err := plan.New(documents{}).Apply(event.Entry{Type: "host.danced", Body: []byte("{}")}); err == nil {
		t.Error("an unknown type was folded")
	}
}

// TestOnlyHostsBecomeHosts: an event whose subject is another kind of thing, or none,
// adds no host, whatever its type.
func TestOnlyHostsBecomeHosts(t *testing.T) {
	for _, name := range event.Types() {
		for _, subject := range []event.Subject{{}, {Kind: "node", Name: "h"}} {
			s := plan.New(documents{})
			e := event.Entry{Type: name, Subject: subject, Body: []byte("{}")}
			err := s.Apply(e)
			if len(s.Hosts) != 0 {
				t.Errorf("%s of %q: %v, and the hosts are %v", name, subject, err, s.Hosts)
			}
			if event.FromHost(name) && err == nil {
				t.Errorf("%s of %q is folded", name, subject)
			}
		}
	}
}

func TestS18HaltTakesBackWhatIsOffered(t *testing.T) {
	for _, policy := range []fleet.OnHealthFailure{fleet.Halt, fleet.RollbackAndHalt} {
		w := onOne(t, "h0 h1")
		w.breakOn(bundles[1], "h0")
		w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], policy: policy}))
		w.tick()
		grant := w.s.Hosts["h1"].Grant.ID
		for range 2 {
			w.hosts["h0"].work()
		}
		w.tick()
		if g := w.s.Hosts["h1"].Grant; g != nil {
			t.Fatalf("%s: h1 is still offered %s\n%s", policy, g.ID, w.tail())
		}
		if _, err := plan.Claim(w.s, "h1", grant, w.now); err == nil {
			t.Fatalf("%s: a claim after the halt was accepted", policy)
		}
	}
}

func TestS23ClaimAfterExpiryIsRefusedBeforeAnyTick(t *testing.T) {
	w := onOne(t, "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
	w.tick()
	g := *w.s.Hosts["h0"].Grant
	for _, at := range []clock.Instant{g.Expires, g.Expires + 1} {
		if _, err := plan.Claim(w.s, "h0", g.ID, at); err == nil {
			t.Fatalf("a claim %s after the grant expired was accepted", at.Sub(g.Expires))
		}
	}
	entries, err := plan.Claim(w.s, "h0", g.ID, g.Expires-1)
	if err != nil || len(entries) != 1 {
		t.Fatalf("the last moment: %+v, %v", entries, err)
	}
	if again, err := plan.Claim(w.s, "h0", g.ID, g.Expires+5); err != nil || len(again) != 0 {
		t.Fatalf("S24: a claim repeated after its answer was lost: %+v, %v", again, err)
	}
}
