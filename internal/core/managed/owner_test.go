package managed_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

var lab, demo = spec.SessionOwner("lab"), spec.SessionOwner("demo")

// shared is a host that takes entries of sessions.
func shared(kinds ...string) *managed.Target {
	t := target(kinds...)
	t.Delegation.Bounds.Owners = []string{spec.OwnerSession}
	return t
}

// as changes for an owner; the ledger folds what is decided.
func (l *ledger) as(by spec.Owner) managed.Change {
	c := l.change()
	c.Owner = by
	return c
}

func (l *ledger) setAs(by spec.Owner, t *managed.Target, kind, name, value string) error {
	l.t.Helper()
	events, err := managed.Set(l.s, t, managed.Input{Kind: kind, Name: name, Spec: json.RawMessage(value)}, l.as(by))
	return l.take(t.Host, events, err)
}

func (l *ledger) removeAs(by spec.Owner, t *managed.Target, kind, name string, mass bool) error {
	l.t.Helper()
	events, err := managed.Remove(l.s, t, kind, name, mass, l.as(by))
	return l.take(t.Host, events, err)
}

func (l *ledger) askAs(by spec.Owner, t *managed.Target, kind, name, verb string) error {
	l.t.Helper()
	events, err := managed.RequestVerb(l.s, t, kind, name, verb, fmt.Sprint(len(l.log)), l.as(by))
	return l.take(t.Host, events, err)
}

func TestOnlyItsOwnerChangesAnEntry(t *testing.T) {
	l, v := newLedger(t), shared("workspace")
	v.Bundle = &spec.Set{Workspaces: []spec.Workspace{{Name: "db"}}}
	testkit.Must(t, l.setAs(spec.Operators, v, "workspace", "ours", web))
	testkit.Must(t, l.setAs(lab, v, "workspace", "theirs", web))
	const ours, theirs = "belongs to operators, not to session lab; choose another name, or have an operator remove it: steady remove gpu-1 workspace/ours",
		"workspace/theirs of host gpu-1 belongs to session lab, which alone changes or removes it; steady session show lab says what it is for"
	for _, c := range []struct {
		by         spec.Owner
		name       string
		code       managed.Code
		words      string
		bundleCode managed.Code // of a verb for what the bundle has
	}{
		{spec.Operators, "ours", "", "", ""},
		{spec.Operators, "theirs", managed.NotOwner, theirs, ""},
		{lab, "ours", managed.NotOwner, ours, managed.Clash},
		{lab, "theirs", "", "", managed.Clash},
		{demo, "theirs", managed.NotOwner, theirs, managed.Clash},
	} {
		for what, err := range map[string]error{
			"set":     l.setAs(c.by, v, "workspace", c.name, `{"image":"app","tty":true}`),
			"same":    l.setAs(c.by, v, "workspace", c.name, web),
			"restart": l.askAs(c.by, v, "workspace", c.name, "restart"),
			"stop":    l.askAs(c.by, v, "workspace", c.name, "stop"),
			"remove":  l.removeAs(c.by, v, "workspace", c.name, true),
		} {
			if code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.words) {
				t.Errorf("%s of %s by %s: %v, expected %q with %q", what, c.name, c.by, err, c.code, c.words)
			}
		}
		if err := l.askAs(c.by, v, "workspace", "db", "redeploy"); code(err) != c.bundleCode {
			t.Errorf("a verb for the bundle by %s: %v", c.by, err)
		}
		for owner, name := range map[spec.Owner]string{spec.Operators: "ours", lab: "theirs"} {
			testkit.Must(t, l.setAs(owner, v, "workspace", name, web))
		}
	}
}

// What the declaration does not let an owner set is refused with the line that would.
func TestOwnersNeedTheDeclaration(t *testing.T) {
	l := newLedger(t)
	plain, signed := target("volume"), shared("volume")
	signed.Delegation.Bounds.RequireSigned = true
	for _, c := range []struct {
		t     *managed.Target
		by    spec.Owner
		code  managed.Code
		words string
	}{
		{plain, spec.Operators, "", ""},
		{plain, lab, managed.OutOfBounds, `expected "owners: [session]" in bounds; change it, or hosts.gpu-1.bounds in fleet.yaml, and roll out the release`},
		{signed, lab, managed.OutOfBounds, "requireSigned"},
		{shared("volume"), lab, "", ""},
		{shared("volume"), "session", managed.OutOfBounds, "is not known"},
		{shared("volume"), "robot/r", managed.OutOfBounds, "expected none for operators, or session/NAME"},
		{shared("image"), lab, managed.NotDelegated, "managed: [image, volume]"},
		{&managed.Target{Host: "gpu-1", Declared: true}, lab, managed.NotDelegated, "managed: [volume]"},
	} {
		if err := l.setAs(c.by, c.t, "volume", "v"+c.by.String()[:1], volume); code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s on %+v: %v, expected %q with %q", c.by, c.t.Delegation, err, c.code, c.words)
		}
	}
	if err := l.removeAs(lab, plain, "volume", "vs", false); err != nil {
		t.Errorf("what is not let in any more may go: %v", err)
	}
}

// The guard against mass removal is of operators and counts what is theirs.
func TestMassRemovalCountsWhatIsTheOperators(t *testing.T) {
	l, v := newLedger(t), shared("volume")
	for i := range 10 {
		testkit.Must(t, l.setAs(spec.Operators, v, "volume", fmt.Sprint("o", i), volume))
		testkit.Must(t, l.setAs(lab, v, "volume", fmt.Sprint("l", i), volume))
	}
	for i := range 10 {
		testkit.Must(t, l.removeAs(lab, v, "volume", fmt.Sprint("l", i), false))
		if i < 2 {
			testkit.Must(t, l.removeAs(spec.Operators, v, "volume", fmt.Sprint("o", i), false))
		}
	}
	if err := l.removeAs(spec.Operators, v, "volume", "o2", false); code(err) != managed.MassRemoval || !strings.Contains(err.Error(), "3 of 10 ") {
		t.Errorf("a third of ten: %v", err)
	}
}

// Entries of logs and snapshots from before there were owners are the operators', and those
// of an owner of later are nobody's but its.
func TestOldAndNewerLogsAreRead(t *testing.T) {
	l, v := newLedger(t), shared("volume")
	for _, body := range []string{
		`{"kind":"volume","name":"old","spec":{"name":"old"},"actor":"ann","reason":"r"}`,
		`{"kind":"volume","name":"session","spec":{"name":"session"},"owner":"session/lab","actor":"server","reason":"r"}`,
		`{"kind":"volume","name":"later","spec":{"name":"later"},"owner":"robot/r","shape":7,"actor":"server","reason":"r"}`,
	} {
		e := testkit.Value(event.NewEntry(l.now, event.HostSubject(v.Host), event.ManagedSet{}))(t)
		e.Body = json.RawMessage(body)
		testkit.Must(t, l.s.Apply(e))
		ev := testkit.Value(event.Decode(e))(t)
		if again := testkit.Value(json.Marshal(ev))(t); strings.Replace(body, `"shape":7,`, "", 1) != string(again) {
			t.Errorf("%s is written again as %s", body, again)
		}
	}
	snapshot := testkit.Value(json.Marshal(l.s))(t)
	if strings.Count(string(snapshot), `"owner"`) != 2 {
		t.Errorf("the snapshot is %s", snapshot)
	}
	l.s = new(managed.State)
	testkit.Must(t, json.Unmarshal(snapshot, l.s))
	l.s = managed.Restore(l.s)
	for name, want := range map[string]managed.Code{"old": "", "session": managed.NotOwner, "later": managed.NotOwner} {
		if err := l.removeAs(spec.Operators, v, "volume", name, true); code(err) != want {
			t.Errorf("removing %s: %v, expected %q", name, err, want)
		}
	}
	if err := l.removeAs("robot/r", v, "volume", "later", false); err != nil {
		t.Errorf("by its own owner: %v", err)
	}
}

// TestS54OwnersTouchOnlyTheirOwn: whatever owners ask for in whatever order, nothing of one is
// changed, removed or counted by another: each finds what is its own as if it were alone.
func TestS54OwnersTouchOnlyTheirOwn(t *testing.T) {
	owners := []spec.Owner{spec.Operators, lab, demo}
	refused := map[managed.Code]int{}
	rapid.Check(t, func(rt *rapid.T) {
		v := shared("volume", "workspace")
		all, alone := newLedger(t), map[spec.Owner]*ledger{}
		for _, o := range owners {
			alone[o] = newLedger(t)
		}
		for i, name := range strings.Split("abcdefghijkl", "") {
			o := owners[i%len(owners)]
			for _, l := range []*ledger{all, alone[o]} {
				testkit.Must(rt, l.setAs(o, v, "workspace", name, web))
			}
		}
		for range rapid.IntRange(40, 120).Draw(rt, "steps") {
			pause := clock.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 1, 1, 1_000, 1_000, 1_000, 90_000}).Draw(rt, "pause"))
			all.now = all.now.Add(pause)
			for _, o := range owners {
				alone[o].now = all.now
			}
			by, name := rapid.SampledFrom(owners).Draw(rt, "by"), rapid.SampledFrom(strings.Split("abcdefghijklmnopqrst", "")).Draw(rt, "name")
			kind, value := "workspace", rapid.SampledFrom([]string{web, `{"image":"app","tty":true}`}).Draw(rt, "spec")
			mass := rapid.IntRange(0, 3).Draw(rt, "consent") == 3
			step := map[string]func(*ledger) error{
				"set":     func(l *ledger) error { return l.setAs(by, v, kind, name, value) },
				"remove":  func(l *ledger) error { return l.removeAs(by, v, kind, name, mass) },
				"stop":    func(l *ledger) error { return l.askAs(by, v, kind, name, "stop") },
				"restart": func(l *ledger) error { return l.askAs(by, v, kind, name, "restart") },
			}[rapid.SampledFrom([]string{"set", "set", "set", "remove", "remove", "stop", "restart"}).Draw(rt, "what")]
			is, there := entryOf(all, kind, name)
			err := step(all)
			switch {
			case there && is.Owner != by:
				if code(err) != managed.NotOwner {
					rt.Fatalf("%s of %s was not refused to %s: %v", name, is.Owner, by, err)
				}
			default:
				if own := step(alone[by]); code(own) != code(err) {
					rt.Fatalf("%s is answered %v, and %v where it is alone", by, err, own)
				}
			}
			refused[code(err)]++
			for _, o := range owners {
				if d := cmp.Diff(entriesOf(alone[o], o), entriesOf(all, o)); d != "" {
					rt.Fatalf("what is of %s: %s", o, d)
				}
			}
		}
	})
	if refused[""] == 0 || refused[managed.NotOwner] == 0 || refused[managed.MassRemoval] == 0 {
		t.Fatalf("the draws show little: %v", refused)
	}
}

func entryOf(l *ledger, kind, name string) (managed.Entry, bool) {
	h := l.s.Hosts["gpu-1"]
	if h == nil {
		return managed.Entry{}, false
	}
	e, there := h.Entries[managed.ID(kind, name)]
	return e, there
}

// entriesOf is what is of an owner, without what counts the whole layer's changes.
func entriesOf(l *ledger, by spec.Owner) map[string]string {
	out := map[string]string{}
	for _, i := range l.s.Hosts["gpu-1"].Items() {
		if i.Owner == by {
			out[managed.ID(i.Kind, i.Name)] = fmt.Sprint(string(i.Spec), i.Verb, i.At)
		}
	}
	return out
}
