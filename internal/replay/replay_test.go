package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/forecast"
	"github.com/steadyfleet/steady/internal/testkit"
)

const (
	start  clock.Instant = 1_800_000_000_000
	minute               = clock.Minute
)

// bodies says what each host does; the others activate within a minute.
type bodies map[string]forecast.Behaviour

// Behave implements forecast.Model.
func (b bodies) Behave(name string, _ *fleet.HostPlan) forecast.Behaviour {
	if how, ok := b[name]; ok {
		return how
	}
	return forecast.Behaviour{Claim: 2 * clock.Second, Activation: minute, Revert: minute, Report: 20}
}

// probe is the enforced one of every host.
var probe = fleet.Probe{Name: "p", Mode: fleet.Enforce, Interval: minute, Timeout: clock.Second}

// recorded plays a rollout of two waves, of 2 and 4 hosts, and keeps its log.
func recorded(t *testing.T, policy fleet.Policy, soak clock.Duration, b bodies) *History {
	t.Helper()
	return steered(t, policy, soak, b, func(*forecast.World) {})
}

// steered is recorded with operators.
func steered(t *testing.T, policy fleet.Policy, soak clock.Duration, b bodies, operate func(*forecast.World)) *History {
	t.Helper()
	policy.ActivationDeadline, policy.SustainedFailure, policy.GrantExpiry, policy.ConfirmWindow = 10*minute, minute, 10*minute, 2*minute
	h := &fleet.Manifest{Channel: "stable", Ref: "v1", Policy: policy, Probes: []fleet.Probe{probe},
		Waves:   []fleet.Wave{{Name: "canary", Soak: soak, MinSoaked: 1, Hosts: 2}, {Name: "rest", Soak: soak, Hosts: 4}},
		Budgets: []fleet.Budget{{Selector: "all", Max: 4}}, LeafCount: 6}
	m := &rollout.Manifest{Header: h, Digest: digest.Of([]byte("m")), Members: [][]string{nil}}
	for i, name := range []string{"a1", "a2", "b1", "b2", "b3", "b4"} {
		m.Leaves = append(m.Leaves, fleet.Leaf{Host: name, Wave: min(i/2, 1), Target: digest.Of([]byte("bundle")), Probes: []int{0}, Budgets: []int{0}})
		m.Members[0] = append(m.Members[0], name)
	}
	out := &History{Manifests: map[digest.Digest]*rollout.Manifest{m.Digest: m}}
	s := plan.New(out)
	keep := func(entries []event.Entry) {
		for _, e := range entries {
			out.Records = append(out.Records, event.Record{Entry: e, Seq: uint64(len(out.Records)) + 1, Term: 1})
		}
	}
	w := forecast.NewWorld(s, out, start, b)
	w.Committed = keep
	for _, leaf := range m.Leaves {
		w.Fail(w.Step(forecast.Record(leaf.Host, event.HostEnrolled{Incarnation: 1, Token: leaf.Host})))
		w.Fail(w.Step(server.Connected{Host: leaf.Host}))
		w.Drive(leaf.Host, clock.Duration(len(leaf.Host))*clock.Hour)
	}
	w.Fail(w.Step(forecast.Record("", event.ReleaseAccepted{Version: 1, Ref: "v1", Channels: []event.ChannelRelease{{Channel: "stable", FreshnessWindow: clock.Day,
		Manifests: []fleet.ManifestRef{{Rollout: "stable@v1", Digest: m.Digest}}}}}, event.TimestampAccepted{Version: 1, IssuedAt: start})))
	operate(w)
	if rest, err := w.Run(start.Add(clock.Day)); err != nil || !rest {
		t.Fatal(rest, err)
	}
	return out
}

func policyOf(allowed int, then fleet.OnHealthFailure) fleet.Policy {
	return fleet.Policy{Name: "p", MaxFailures: allowed, OnHealthFailure: then}
}

// fails is a host on which the activation fails after a minute.
var fails = forecast.Behaviour{Claim: 2 * clock.Second, Activation: minute, Fails: "exit-1", Revert: minute, Report: 20}

func rerunOf(t *testing.T, h *History, c *Change) *Outcome {
	t.Helper()
	out := testkit.Value(Rerun(h, c, Options{Beyond: clock.Day}))(t)
	return out
}

func edits(t *testing.T, texts ...string) *Change {
	t.Helper()
	c := &Change{}
	for _, text := range texts {
		e := testkit.Value(ParsePolicy(text))(t)
		c.Edits = append(c.Edits, e)
	}
	return c
}

// end is where the rollout of a rerun ended, and when.
func end(out *Outcome) (string, clock.Duration) {
	r := out.End.Find("stable@v1")
	return plan.Status(r), r.EndedAt.Sub(start)
}

// TestNothingChangedIsTheRecord holds also for a change that changes nothing, by
// which the planner runs at times of its own.
func TestNothingChangedIsTheRecord(t *testing.T) {
	for name, b := range map[string]bodies{"healthy": nil, "one fails": {"b1": fails}, "canary fails": {"a1": fails, "a2": fails}} {
		h := recorded(t, policyOf(0, fleet.RollbackAndHalt), 2*minute, b)
		for _, c := range []*Change{{}, edits(t, "maxFailures=0", "soak=2m"), {Edits: []Edit{Budget("all", 4)}}} {
			out := rerunOf(t, h, c)
			if out.Divergence != nil || len(out.Modelled) > 0 || out.Unfit > 0 {
				t.Fatalf("%s %+v: %+v %+v %s", name, c, out.Divergence, out.Modelled, out.UnfitExample)
			}
			if len(out.Entries) != len(h.Records) {
				t.Fatalf("%s: %d entries, recorded were %d", name, len(out.Entries), len(h.Records))
			}
			for i, e := range out.Entries {
				if r := h.Records[i].Entry; e.Type != r.Type || e.At != r.At || !bytes.Equal(e.Body, r.Body) {
					t.Fatalf("%s: event %d is %s %s, recorded was %s %s", name, i+1, e.Type, e.Body, r.Type, r.Body)
				}
			}
			if a, b := sum(out.End), sum(out.Recorded); a != b {
				t.Errorf("%s: the state is\n%s\nrecorded was\n%s", name, a, b)
			}
		}
	}
}

// The log of a server that named no hosts in these events is decided again as it was.
func TestLogOfAnOlderServerIsTheRecord(t *testing.T) {
	h := steered(t, policyOf(0, fleet.RollbackAndHalt), 2*minute, nil, func(w *forecast.World) {
		w.At(start.Add(30*clock.Second), func() {
			w.Fail(w.Decide(func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
				return plan.Freeze(s, "b1", start.Add(60*minute), "disk swap", "ada", now)
			}))
		})
	})
	stripped := 0
	for i := range h.Records {
		var body map[string]json.RawMessage
		testkit.Must(t, json.Unmarshal(h.Records[i].Body, &body))
		for _, key := range []string{"waits", "skippedHosts"} {
			if _, told := body[key]; told {
				delete(body, key)
				stripped++
			}
		}
		h.Records[i].Body = testkit.Value(json.Marshal(body))(t)
	}
	if out := rerunOf(t, h, &Change{}); stripped == 0 || out.Divergence != nil {
		t.Errorf("%d members taken out: %+v", stripped, out.Divergence)
	}
}

func sum(s *plan.State) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

// near allows for the planner, which runs within a second of what calls for it.
func near(got, want clock.Duration) bool { return got >= want && got <= want+3*lag }

// TestStricterPolicyHaltsEarlier allows fewer failures than were allowed.
func TestStricterPolicyHaltsEarlier(t *testing.T) {
	h := recorded(t, policyOf(1, fleet.Halt), 2*minute, bodies{"a2": fails})
	if out := rerunOf(t, h, &Change{}); out.Divergence != nil {
		t.Fatalf("%+v", out.Divergence)
	} else if at, _ := end(out); at != "done" {
		t.Fatalf("recorded was %s", at)
	}
	out := rerunOf(t, h, edits(t, "maxFailures=0"))
	at, when := end(out)
	if at != "halted" || when > 2*minute {
		t.Errorf("it is %s after %s", at, when)
	}
	d := out.Divergence
	if d == nil || len(d.New) == 0 || d.At.Sub(start) > 2*minute {
		t.Fatalf("first divergence %+v", d)
	}
	found := false
	for _, e := range d.New {
		found = found || e.Type == "rollout.moved" && strings.Contains(string(e.Body), "wave canary has 1 failed host, 0 allowed")
	}
	if !found {
		t.Errorf("the first other decision does not say why: %+v", d.New)
	}
	for _, b := range []string{"b1", "b2", "b3", "b4"} {
		if m := out.End.Hosts[b].Machine; m.Phase != "" {
			t.Errorf("host %s of the second wave is %s", b, m.Phase)
		}
	}
	// the same policy, but the failed host goes back, and takes the other with it
	out = rerunOf(t, h, edits(t, "maxFailures=0", "onHealthFailure=rollback-and-halt"))
	if at, _ := end(out); at != "reverted" {
		t.Errorf("it is %s", at)
	}
	if m := out.End.Hosts["a1"].Machine; m.Current != "" || m.Phase != "reverted" {
		t.Errorf("the other canary is %s on %q", m.Phase, m.Current)
	}
}

// TestLongerSoakSeesTheRecordedProbe has a probe fail after the soak that there
// was: a longer one would have caught it in the first wave.
func TestLongerSoakSeesTheRecordedProbe(t *testing.T) {
	late := forecast.Behaviour{Claim: 2 * clock.Second, Activation: minute, Revert: minute, Report: 20,
		Probes: []forecast.Observation{{Name: "p", Pass: true}, {After: 3 * minute, Name: "p", Reason: "out of memory"}}}
	h := recorded(t, policyOf(0, fleet.RollbackAndHalt), minute, bodies{"a1": late})
	if at, _ := end(rerunOf(t, h, &Change{})); at != "done" {
		t.Fatalf("recorded was %s", at)
	}
	out := rerunOf(t, h, edits(t, "soak=10m"))
	if at, _ := end(out); at != "reverted" {
		t.Errorf("it is %s: %+v", at, out.Modelled)
	}
	if m := out.End.Hosts["b1"].Machine; m.Phase != "" {
		t.Errorf("host b1 of the second wave is %s", m.Phase)
	}
	if len(out.Modelled) == 0 || out.Modelled[0].Why == "" {
		t.Errorf("nobody says what is modelled")
	}
	// a shorter soak ends sooner
	short := rerunOf(t, h, edits(t, "soak=10s"))
	_, was := end(rerunOf(t, h, &Change{}))
	if at, when := end(short); at != "done" || !near(when, was-100*clock.Second) {
		t.Errorf("it is %s after %s, recorded was %s", at, when, was)
	}
}

// TestDelayAndDrop move what came from outside.
func TestDelayAndDrop(t *testing.T) {
	h := recorded(t, policyOf(0, fleet.RollbackAndHalt), minute, bodies{"b1": fails})
	failed := find(t, h, func(r *event.Record) bool {
		return r.Host() == "b1" && strings.Contains(string(r.Body), `"activation-failed"`)
	})
	out := rerunOf(t, h, &Change{Drop: []uint64{failed}})
	if at, _ := end(out); at != "done" {
		t.Errorf("without the failure it is %s: %+v", at, out.Modelled)
	}
	converged := find(t, h, func(r *event.Record) bool {
		return r.Host() == "a1" && strings.Contains(string(r.Body), `"to":"converged"`)
	})
	out = rerunOf(t, h, &Change{Delay: map[uint64]clock.Duration{converged: 10 * minute}})
	if out.Divergence == nil || out.Divergence.At.Sub(start) > 3*minute || len(out.Divergence.New) != 0 && len(out.Divergence.Recorded) == 0 {
		t.Fatalf("%+v", out.Divergence)
	}
	at, when := end(out)
	_, was := end(rerunOf(t, h, &Change{}))
	if at != "reverted" || when < was+9*minute || when > was+11*minute {
		t.Errorf("it is %s after %s, recorded was %s", at, when, was)
	}
	for what, c := range map[string]*Change{
		"is a decision of the server": {Drop: []uint64{find(t, h, func(r *event.Record) bool { return r.Type == "grant.offered" })}},
		"there is no event":           {Delay: map[uint64]clock.Duration{9999: minute}},
		"is a claim":                  {Drop: []uint64{find(t, h, func(r *event.Record) bool { return r.Type == "grant.claimed" })}},
		"has a budget":                {Edits: []Edit{Budget("nobody", 1)}},
	} {
		_, err := Rerun(h, c, Options{})
		if refused := (*ChangeError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestVerbsAreAskedAgain has operators stop what is offered, and asks what if they
// had not, or later, or the verb no longer applied.
func TestVerbsAreAskedAgain(t *testing.T) {
	slow := forecast.Behaviour{Claim: 2 * minute, Activation: minute, Revert: minute, Report: 20}
	h := steered(t, policyOf(0, fleet.Halt), minute, bodies{"a1": slow}, func(w *forecast.World) {
		w.At(start.Add(30*clock.Second), func() {
			w.Fail(w.Decide(func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
				return plan.Freeze(s, "a1", start.Add(20*minute), "disk swap", "ada", now)
			}))
		})
		w.At(start.Add(10*minute), func() {
			w.Fail(w.Decide(func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
				return plan.Promote(s, "stable@v1", "canary", "go on", "ada", now)
			}))
		})
	})
	frozen := find(t, h, func(r *event.Record) bool { return r.Type == "host.frozen" })
	taken := find(t, h, func(r *event.Record) bool { return r.Type == "grant.ended" })
	forced := find(t, h, func(r *event.Record) bool { return r.Type == "wave.forced" })
	if taken != frozen+1 {
		t.Fatalf("the freeze is event %d, what it took back %d", frozen, taken)
	}
	if out := rerunOf(t, h, &Change{}); out.Divergence != nil || out.Unfit > 0 || len(out.Entries) != len(h.Records) {
		t.Fatalf("%+v, unfit %s", out.Divergence, out.UnfitExample)
	}
	// without the freeze the wave is through by itself, and there is nothing to promote
	out := rerunOf(t, h, &Change{Drop: []uint64{frozen}})
	if at, _ := end(out); at != "done" || out.Unfit != 1 || !strings.Contains(out.UnfitExample, "wave.forced does not apply") {
		t.Errorf("it is %s, unfit %d: %s", at, out.Unfit, out.UnfitExample)
	}
	// a freeze that comes when its time is over is refused as the server would
	out = rerunOf(t, h, &Change{Delay: map[uint64]clock.Duration{frozen: 30 * minute}})
	if !strings.Contains(out.UnfitExample, "host.frozen does not apply") && !strings.Contains(out.UnfitExample, "wave.forced does not apply") {
		t.Errorf("unfit %d: %s", out.Unfit, out.UnfitExample)
	}
	// without the word the wave waits for the frozen host
	out = rerunOf(t, h, &Change{Drop: []uint64{forced}})
	_, was := end(rerunOf(t, h, &Change{}))
	if at, when := end(out); at != "done" || when <= was {
		t.Errorf("it is %s after %s, recorded was %s", at, when, was)
	}
	_, err := Rerun(h, &Change{Drop: []uint64{taken}}, Options{})
	if refused := (*ChangeError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), "follows from event") {
		t.Errorf("%v", err)
	}
}

// TestS1SmallerBudgetTakesLonger gives one slot instead of four.
func TestS1SmallerBudgetTakesLonger(t *testing.T) {
	h := recorded(t, policyOf(0, fleet.RollbackAndHalt), minute, nil)
	out := rerunOf(t, h, &Change{Edits: []Edit{Budget("all", 1)}})
	at, when := end(out)
	_, was := end(rerunOf(t, h, &Change{}))
	// six hosts one after the other, each as long as a wave took: three times as long,
	// and a little for the planner
	if at != "done" || when < 3*was-minute/6 || when > 3*was+minute {
		t.Errorf("it is %s after %s, recorded was %s", at, when, was)
	}
	n := 0
	for _, e := range out.Entries {
		switch {
		case e.Type == "grant.offered":
			n++
		case e.Type == "host.stepped" && strings.Contains(string(e.Body), `"to":"converged"`):
			n--
		}
		if n > 1 {
			t.Fatalf("S1: %d hosts are in flight at once", n)
		}
	}
}

// TestFromTakesThePastAsItWas changes the policy in the middle.
func TestFromTakesThePastAsItWas(t *testing.T) {
	h := recorded(t, policyOf(0, fleet.Halt), minute, nil)
	c := edits(t, "soak=5m")
	c.From = find(t, h, func(r *event.Record) bool { return r.Type == "wave.promoted" })
	out := rerunOf(t, h, c)
	_, was := end(rerunOf(t, h, &Change{}))
	// The canaries' soak passes on the server's clock since their claims: what was changed
	// holds their wave for three minutes more, and then the other one for four.
	if _, when := end(out); !near(when, was+7*minute) {
		t.Errorf("it ends after %s, recorded was %s", when, was)
	}
	if out.From < c.From-1 {
		t.Errorf("it began after event %d", out.From)
	}
}

func find(t *testing.T, h *History, is func(*event.Record) bool) uint64 {
	t.Helper()
	for i := range h.Records {
		if is(&h.Records[i]) {
			return h.Records[i].Seq
		}
	}
	t.Fatal("the log has no such event")
	return 0
}

// TestMomentsAndDifferences looks at the log from time to time.
func TestMomentsAndDifferences(t *testing.T) {
	h := recorded(t, policyOf(0, fleet.Halt), minute, nil)
	last := uint64(len(h.Records))
	for seq := uint64(1); seq <= last; seq++ {
		if h.Records[seq-1].HostSeq == 0 && (seq == last || h.Records[seq].HostSeq == 0 && h.Records[seq].At > h.Records[seq-1].At) {
			if got := Before(h, At(h, seq)); got != seq {
				t.Fatalf("event %d is at %s, where event %d is the last", seq, At(h, seq), got)
			}
		}
	}
	views := map[uint64]View{}
	promoted := find(t, h, func(r *event.Record) bool { return r.Type == "wave.promoted" })
	for _, seq := range []uint64{0, promoted - 1, promoted, last} {
		s := testkit.Value(Fold(h, h, seq))(t)
		views[seq] = ViewAt(s, seq, At(h, seq))
	}
	if d := Diff(views[last], views[last]); len(d) != 0 {
		t.Errorf("%+v", d)
	}
	d := Diff(views[promoted-1], views[promoted])
	if len(d) != 1 || d[0].What != "rollout stable@v1" || !strings.Contains(d[0].Before, "at wave canary") || !strings.Contains(d[0].After, "at wave rest") {
		t.Errorf("%+v", d)
	}
	if d := Diff(views[0], views[last]); len(d) != 1+1+1+6 {
		t.Errorf("%d differences: %s", len(d), fmt.Sprint(d))
	}
	if _, err := Fold(h, h, last+1); err == nil {
		t.Error("an event beyond the end of the log was found")
	}
}
