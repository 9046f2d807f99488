package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// word makes a verified override as the world's operators sign them now. About is
// a manifest or, for a quarantine, a bundle.
func (w *world) word(action fleet.OverrideAction, about digest.Digest) gate.AcceptedOverride {
	w.signed++
	o := fleet.Override{ID: fmt.Sprintf("o-%d", w.signed), Action: action, Channel: "c", Reason: "incident 7"}
	o.IssuedAt = w.now
	o.Version, o.NotAfter = uint64(o.IssuedAt), o.IssuedAt.Add(clock.Day)
	switch action {
	case fleet.OverrideQuarantine, fleet.OverrideUnquarantine:
		o.Bundle = about
	case fleet.OverrideFreeze, fleet.OverrideUnfreeze:
	default:
		o.Manifest = about
		if m := w.docs[about]; m != nil {
			o.Channel, o.Rollout = m.Header.Channel, m.Header.Rollout()
		}
		if action == fleet.OverridePromote {
			o.Wave = "w0"
		}
	}
	if err := o.Check(); err != nil {
		w.t.Fatalf("sign: %v", err)
	}
	return gate.AcceptedOverride{Override: o, Digest: digest.Of([]byte(o.ID)), Envelope: digest.Of([]byte("env " + o.ID))}
}

func (w *world) push(t gate.AcceptedOverride) {
	w.t.Helper()
	w.commit(plan.Override(w.s, t, "ada", w.now))
}

// refused wants a verb refused with words that name the next step.
func (w *world) refused(err error, words string) {
	w.t.Helper()
	if _, is := err.(*plan.VerbError); !is || !strings.Contains(err.Error(), words) {
		w.t.Fatalf("%v, expected a refusal with %q", err, words)
	}
}

// TestS18TokenCannotLoosenASignedHold: a token pauses and resumes; what a
// signature paused only a later signature resumes, and never an earlier one.
func TestS18TokenCannotLoosenASignedHold(t *testing.T) {
	w := onOne(t, "h0 h1")
	m := w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1]})
	w.release(fleet.Queue, m)
	early := w.word(fleet.OverrideResume, m.Digest)
	w.now = w.now.Add(clock.Second)
	w.push(w.word(fleet.OverridePause, m.Digest))
	w.live(4)
	w.expect("h0=converged/one h1=converged/one")
	_, err := plan.Operate(w.s, plan.Resume, "c@r2", "because", "ada", w.now)
	w.refused(err, "--sign")
	_, err = plan.Override(w.s, early, "ada", w.now)
	w.refused(err, "replaces it")
	if a, err := plan.Why(w.s, "h0", w.now); err != nil || !strings.Contains(a.Message, "signed as") {
		t.Fatalf("h0 is not told of the signed pause: %+v, %v", a, err)
	}
	late := w.word(fleet.OverrideResume, m.Digest)
	w.push(late)
	if again, err := plan.Override(w.s, late, "eve", w.now); err != nil || len(again) > 0 {
		t.Fatalf("pushed again: %v, %v", again, err)
	}
	w.live(4)
	w.expect("h0=converged/two h1=converged/two")
}

// TestS22SignedRollbackBringsEveryGrantedHostBack: a healthy rollout goes back on
// a signature alone, inside its budgets, and ends Reverted.
func TestS22SignedRollbackBringsEveryGrantedHostBack(t *testing.T) {
	for _, policy := range []fleet.OnHealthFailure{fleet.RollbackAndHalt, fleet.Halt} {
		w := onOne(t, "h0 h1 h2 h3")
		m := w.manifest(spec{ref: "r2", waves: "h0 h1 | h2 h3", target: bundles[1], policy: policy, budget: 1})
		w.release(fleet.Queue, m)
		for w.s.Hosts["h1"].Machine.Phase != host.Converged || w.s.Hosts["h1"].Machine.Current != bundles[1] {
			w.live(1)
		}
		o := w.word(fleet.OverrideRollback, m.Digest)
		w.push(o)
		most := 0
		for range 12 {
			n := 0
			for _, h := range w.s.Hosts { // order-free: it counts
				if h.InFlight() {
					n++
				}
			}
			most = max(most, n)
			w.live(1)
		}
		r := w.phase("c@r2", rollout.Reverted)
		if !r.Ordered || most > 1 {
			t.Errorf("ordered %t, %d hosts in flight of at most 1\n%s", r.Ordered, most, w.tail())
		}
		w.expect("h0=reverted/one h1=reverted/one")
		for _, n := range []string{"h2", "h3"} {
			if d := w.s.Hosts[n].Machine.Current; d != bundles[0] {
				t.Errorf("%s runs %s", n, bundleName(d))
			}
		}
		ev := w.decoded(event.RolloutReverting{}).(event.RolloutReverting)
		if ev.Override != o.Digest || !strings.Contains(ev.Actor, "ada") {
			t.Errorf("the revert names override %q and actor %q", ev.Override, ev.Actor)
		}
	}
}

// decoded is the last event of a type.
func (w *world) decoded(like event.Event) event.Event {
	w.t.Helper()
	for i := len(w.log) - 1; i >= 0; i-- {
		if w.log[i].Type == like.EventType() {
			ev, err := event.Decode(w.log[i])
			if err != nil {
				w.t.Fatalf("%v", err)
			}
			return ev
		}
	}
	w.t.Fatalf("no %s", like.EventType())
	return nil
}

func TestS22RollbackOfAFailedHostTakesNoSlot(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.breakOn(bundles[1], "h0")
	m := w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], policy: fleet.Halt, budget: 1})
	w.release(fleet.Queue, m)
	w.live(8)
	w.phase("c@r2", rollout.Failed)
	if w.s.Hosts["h0"].Machine.Phase != host.Failed {
		t.Fatalf("h0 is %s\n%s", w.s.Hosts["h0"].Machine.Phase, w.tail())
	}
	w.operate(plan.Cancel, "c@r2") // even what was cancelled can be rolled back
	w.push(w.word(fleet.OverrideRollback, m.Digest))
	w.live(4)
	w.phase("c@r2", rollout.Reverted)
	w.expect("h0=reverted/one")
}

func TestRollbackOfWhatEndedNamesTheNextStep(t *testing.T) {
	w := onOne(t, "h0")
	first := w.s.Find("c@r1").Manifest
	_, err := plan.Override(w.s, w.word(fleet.OverrideRollback, first), "ada", w.now)
	w.refused(err, "steady release rollback")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
	w.tick()
	_, err = plan.Override(w.s, w.word(fleet.OverrideRollback, first), "ada", w.now)
	w.refused(err, "steady release rollback")
}

// TestS17SignedQuarantineStandsAgainstTokens: the server takes offers of the
// bundle back, grants it nowhere on the channel, and a token cannot clear it.
func TestS17SignedQuarantineStandsAgainstTokens(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1]}))
	w.tick()
	if w.s.Hosts["h0"].Grant == nil {
		t.Fatal("h0 was offered nothing")
	}
	w.push(w.word(fleet.OverrideQuarantine, bundles[1]))
	if g := w.s.Hosts["h0"].Grant; g != nil {
		t.Fatalf("h0 still holds %+v", *g)
	}
	w.live(4)
	w.expect("h0=converged/one h1=converged/one")
	_, err := plan.ClearQuarantine(w.s, "c", bundles[1].Short(), "because", "ada", w.now)
	w.refused(err, "--sign")
	w.push(w.word(fleet.OverrideUnquarantine, bundles[1]))
	w.live(4)
	w.expect("h0=converged/two h1=converged/two")
}

// TestS18OverridesOutliveTheLog: a server that lost everything holds again what
// was signed, whether the overrides or the release are pushed first.
func TestS18OverridesOutliveTheLog(t *testing.T) {
	for _, first := range []bool{true, false} {
		w := scene(t, "h0 h1")
		paused := w.manifest(spec{ref: "r1", waves: "h0 h1", target: bundles[0]})
		for _, c := range []struct {
			word gate.AcceptedOverride
			want rollout.Phase
		}{
			{w.word(fleet.OverridePause, paused.Digest), rollout.Active},
			{w.word(fleet.OverrideFreeze, ""), rollout.Active},
			{w.word(fleet.OverrideQuarantine, bundles[0]), rollout.Active},
			{w.word(fleet.OverrideCancel, paused.Digest), rollout.Failed},
			{w.word(fleet.OverrideRollback, paused.Digest), rollout.Reverted},
		} {
			w := scene(t, "h0 h1") // nothing is left
			w.docs.add(paused)
			if first {
				w.push(c.word)
			}
			w.release(fleet.Queue, paused)
			if !first {
				w.push(c.word)
			}
			w.live(4)
			if n := w.count(event.Granted{}, ""); n > 0 {
				t.Errorf("%s pushed first %t: %d grants\n%s", c.word.Action, first, n, w.tail())
			}
			w.phase("c@r1", c.want)
			if len(w.s.Overrides.List()) != 1 {
				t.Errorf("%d overrides", len(w.s.Overrides.List()))
			}
		}
	}
}

// TestS22RollbackReachesHostsTheLogForgot: the log is gone, and with it that the
// host ever claimed; it comes back on what was rolled back and is fetched home.
func TestS22RollbackReachesHostsTheLogForgot(t *testing.T) {
	w := onOne(t, "h0 h1")
	m := w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]})
	w.release(fleet.Queue, m)
	for w.s.Hosts["h0"].Machine.Current != bundles[1] || w.s.Hosts["h0"].Machine.Phase != host.Converged {
		w.live(1)
	}
	o := w.word(fleet.OverrideRollback, m.Digest)
	old := w.hosts["h0"]
	lost := scene(t, "h0 h1")
	lost.now = w.now
	for _, doc := range w.docs {
		lost.docs[doc.Digest] = doc
	}
	m0 := lost.hosts["h0"]
	m0.agent, m0.runs, m0.unseen = old.agent, old.runs, true
	m0.restart(false) // its first report shows a past that this server did not see
	m0.deliver()
	lost.release(fleet.Queue, m)
	lost.push(o)
	lost.live(6)
	lost.phase("c@r2", rollout.Reverted)
	if got := lost.s.Hosts["h0"].Machine; got.Phase != host.Reverted {
		t.Fatalf("h0 is %s on %s\n%s", got.Phase, bundleName(got.Current), lost.tail())
	}
}

// TestS5NewEpochEndsOverrides: what a stolen key may have signed ends with its
// epoch; what it held stays until a token, or a new signature, says otherwise.
func TestS5NewEpochEndsOverrides(t *testing.T) {
	w := onOne(t, "h0")
	m := w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]})
	w.release(fleet.Queue, m)
	w.tick()
	w.push(w.word(fleet.OverridePause, m.Digest))
	w.push(w.word(fleet.OverrideQuarantine, bundles[1]))
	w.record("", event.RootTrusted{Version: 2, Epoch: 1})
	if n := len(w.s.Overrides.List()); n > 0 {
		t.Fatalf("%d overrides outlived their epoch", n)
	}
	_, err := plan.Override(w.s, w.word(fleet.OverridePause, m.Digest), "ada", w.now)
	w.refused(err, "epoch")
	w.live(4)
	w.expect("h0=converged/one")
	w.operate(plan.Resume, "c@r2")
	w.live(2)
	w.expect("h0=converged/one")
	w.commit(plan.ClearQuarantine(w.s, "c", bundles[1].Short(), "because", "ada", w.now))
	w.live(4)
	w.expect("h0=converged/one") // what was signed before has ended as well
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0", target: bundles[1]}))
	w.live(4)
	w.expect("h0=converged/two")
}

// TestS5NewEpochEndsItsRollouts: hosts refuse what was signed before a key epoch
// began. Nothing of it is offered any more, why names the cure, and a release of the
// new epoch replaces it even where refs queue; hosts on their way go on.
func TestS5NewEpochEndsItsRollouts(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1]}))
	w.tick()
	w.hosts["h0"].poll()
	w.hosts["h0"].prepare(true)
	w.hosts["h0"].claim(true)
	offered := w.s.Hosts["h1"].Grant.ID
	w.record("", event.RootTrusted{Version: 2, Epoch: 1})
	if _, err := plan.Claim(w.s, "h1", offered, w.now); err == nil || !strings.Contains(err.Error(), "key epoch") {
		t.Fatalf("what was offered in an ended key epoch is claimed: %v", err)
	}
	w.tick()
	if g := w.s.Hosts["h1"].Grant; g != nil {
		t.Fatalf("%s is offered on and on", g.ID)
	}
	w.blocked("h1", gate.Overlay, "outdated", "build, sign and push a release")
	w.presence("h1", false)
	w.presence("h1", true) // it returns, and the release before is of the ended epoch too
	w.tick()
	if g := w.s.Hosts["h1"].Grant; g != nil {
		t.Fatalf("%s of an ended key epoch is offered", g.ID)
	}
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0 h1 h2", target: bundles[2]}))
	w.live(8)
	w.phase("c@r2", rollout.Superseded)
	w.phase("c@r3", rollout.Terminal)
	w.expect("h0=converged/three h1=converged/three h2=converged/three")
}

// TestAuditOfOverrides: the audit finds what was loosened against a signature.
func TestAuditOfOverrides(t *testing.T) {
	w := onOne(t, "h0 h1")
	m := w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]})
	w.release(fleet.Queue, m)
	w.tick()
	w.push(w.word(fleet.OverridePause, m.Digest))
	w.push(w.word(fleet.OverrideQuarantine, bundles[2]))
	w.now = w.now.Add(clock.Second)
	w.push(w.word(fleet.OverrideResume, m.Digest))
	w.live(1)
	w.push(w.word(fleet.OverrideRollback, m.Digest))
	w.live(6)
	entry := func(ev event.Event) event.Entry {
		e := testkit.Value(event.NewEntry(w.now, event.Subject{}, ev))(t)
		return e
	}
	resume := at(t, w.log, event.OverrideAccepted{}, 3)
	back := at(t, w.log, event.RolloutReverting{}, 1)
	ordered := at(t, w.log, event.OverrideAccepted{}, 4)
	for name, c := range map[string]struct {
		log  []event.Entry
		want string
	}{
		"resumed without its signature":   {append(append([]event.Entry{}, w.log[:resume]...), w.log[resume+1:]...), "S18"},
		"reverted without its signature":  {append(append([]event.Entry{}, w.log[:ordered]...), w.log[ordered+1:]...), "S21"},
		"reverted on another signature":   {append(append([]event.Entry{}, w.log[:back]...), edited(t, w.log[back], "override", digest.Of([]byte("x")))), "S21"},
		"accepted twice":                  {append(append([]event.Entry{}, w.log...), w.log[ordered]), "S18"},
		"accepted of nobody":              {append(append([]event.Entry{}, w.log[:ordered]...), edited(t, w.log[ordered], "actor", "")), "S18"},
		"a quarantine cleared by a token": {append(append([]event.Entry{}, w.log...), entry(event.QuarantineCleared{Channel: "c", Digest: bundles[2], Actor: "ada"})), "S17"},
		"an older one after the later":    {append(append([]event.Entry{}, w.log...), edited(t, edited(t, w.log[at(t, w.log, event.OverrideAccepted{}, 1)], "digest", digest.Of([]byte("y"))), "version", 1)), "S18"},
	} {
		hit := false
		for _, v := range found(w, c.log) {
			hit = hit || v.Invariant == c.want
		}
		if !hit {
			t.Errorf("%s: %v, expected %s", name, found(w, c.log), c.want)
		}
	}
}

// drawWord is an override about anything in a random world, signed now or a
// while ago.
func drawWord(t *rapid.T, w *world) gate.AcceptedOverride {
	o := w.word(fleet.OverrideFreeze, "")
	o.Action = rapid.SampledFrom(slices.DeleteFunc(slices.Clone(fleet.OverrideActions), func(a fleet.OverrideAction) bool { return a == fleet.OverrideRemove })).Draw(t, "action")
	o.Channel = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "channel")
	switch o.Action {
	case fleet.OverrideQuarantine, fleet.OverrideUnquarantine:
		o.Bundle = rapid.SampledFrom(bundles).Draw(t, "bundle")
		o.Host = rapid.SampledFrom([]string{"", "", "h0"}).Draw(t, "host")
	case fleet.OverrideFreeze, fleet.OverrideUnfreeze:
	default:
		if len(w.s.Order) == 0 {
			t.Skip("no rollout")
		}
		o.Manifest = rapid.SampledFrom(w.s.Order).Draw(t, "manifest")
		o.Channel = w.docs[o.Manifest].Header.Channel
		if o.Action == fleet.OverridePromote {
			o.Wave = rapid.SampledFrom([]string{"w0", "w1"}).Draw(t, "wave")
		}
	}
	o.IssuedAt = o.IssuedAt.Add(-clock.Duration(rapid.SampledFrom([]int{0, 0, 30, 90}).Draw(t, "ago")) * clock.Second)
	o.Version, o.NotAfter = uint64(o.IssuedAt), o.IssuedAt.Add(clock.Day)
	return o
}

// loosen ends by signature whatever a signature holds and can be ended.
func (w *world) loosen() {
	w.t.Helper()
	w.now = w.now.Add(clock.Second)
	ends := map[fleet.OverrideAction]fleet.OverrideAction{fleet.OverridePause: fleet.OverrideResume,
		fleet.OverrideQuarantine: fleet.OverrideUnquarantine, fleet.OverrideFreeze: fleet.OverrideUnfreeze}
	for _, held := range w.s.Overrides.List() {
		if ends[held.Action] == "" {
			continue
		}
		o := w.word(fleet.OverrideFreeze, "")
		o.Action, o.Channel, o.Manifest, o.Bundle, o.Host = ends[held.Action], held.Channel, held.Manifest, held.Bundle, held.Host
		entries, err := plan.Override(w.s, o, "ada", w.now)
		if _, refused := err.(*plan.VerbError); !refused { // of one that was cancelled or goes back
			w.commit(entries, err)
		}
	}
}

// TestS17S18NothingSignedIsLostWithTheLog signs at random, pushes in any order,
// restarts, and loses the log with everything but the files of what was signed:
// whatever was held before is held after, and the audit finds no grant against it.
func TestS17S18NothingSignedIsLostWithTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, home := newRandomWorld(t)
		w.tick()
		var files []gate.AcceptedOverride
		push := func(o gate.AcceptedOverride) bool {
			entries, err := plan.Override(w.s, o, "ada", w.now)
			if _, refused := err.(*plan.VerbError); refused {
				return false
			}
			w.commit(entries, err)
			return true
		}
		for range rapid.IntRange(1, 12).Draw(t, "acts") {
			switch rapid.IntRange(0, 5).Draw(t, "act") {
			case 0, 1, 2:
				if o := drawWord(t, w); push(o) {
					files = append(files, o)
				}
			case 3:
				if len(files) > 0 {
					push(rapid.SampledFrom(files).Draw(t, "again"))
				}
			case 4:
				w.s = w.restored()
			case 5:
				drawRelease(t, w, home)
			}
			for _, name := range w.names() {
				w.hosts[name].work()
			}
			w.now = w.now.Add(20 * clock.Second)
			w.tick()
		}
		before, lost := w.s, w
		w = newWorld(t)
		w.now, w.signed, w.docs, w.channels = lost.now, lost.signed, lost.docs, lost.channels
		w.s, w.audit = plan.New(w.docs), audit.NewLog(w.docs)
		for _, name := range lost.names() {
			w.enrol(name)
			w.presence(name, true)
		}
		again := rapid.Permutation(files).Draw(t, "order")
		split := rapid.IntRange(0, len(again)).Draw(t, "before the release")
		for _, o := range again[:split] {
			push(o)
		}
		w.release(fleet.Queue)
		for _, o := range again[split:] {
			push(o)
		}
		for d, m := range w.docs { // order-free: each is looked at by itself
			for _, leaf := range m.Leaves {
				held := before.Overrides.Forbids(m.Header.Channel, d, leaf.Target, leaf.Host)
				if held != nil && w.s.Overrides.Forbids(m.Header.Channel, d, leaf.Target, leaf.Host) == nil {
					t.Fatalf("%s was lost: %+v", held.Message(), w.s.Overrides.List())
				}
			}
		}
		w.live(4) // the audit watches every grant
	})
}

// TestS17SignedQuarantineHoldsRepairs: neither a new grant nor the claim of one that
// is out repairs a bundle that somebody quarantined by signature.
func TestS17SignedQuarantineHoldsRepairs(t *testing.T) {
	w := budgeted(t, "h0", 1)
	w.drift("h0")
	w.wantRepairing("h0")
	offered := w.s.Hosts["h0"].Grant.ID
	w.push(w.word(fleet.OverrideQuarantine, bundles[0]))
	w.wantRepairing("") // as with a quarantine by token: the slot is free at once
	if _, err := plan.Claim(w.s, "h0", offered, w.now); err == nil {
		t.Fatal("S17: the claim of a repair of a quarantined bundle was taken")
	}
	w.now = w.now.Add(10 * clock.Minute)
	w.tick()
	w.wantRepairing("")
}
