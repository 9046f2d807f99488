package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// Events about a renamed host are those of the machine: also under the name before, up to the rename, and not of
// another machine that has that name since. Why and the host itself say what it was called.
func TestEventsFollowARename(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 3, content: "one"})
	before, after := hostName(0), hostName(1)
	a := enrolled(w, before)
	a.append(event.FileKept{Path: "first"})
	testkit.Must(t, a.send())
	b := newAgent(w, after)
	b.event = a.event
	b.enrol()
	b.append(event.FileKept{Path: "second"})
	testkit.Must(t, b.send())
	c := enrolled(w, before) // another machine takes the name
	c.append(event.FileKept{Path: "third"})
	testkit.Must(t, c.send())

	told := func(name string, q operator.EventQuery) (subjects, paths []string) {
		t.Helper()
		q.About = operator.AboutHost(name)
		for {
			page := testkit.Value(w.op.Events(w.ctx(), q))(t)
			last := q.After
			for _, e := range page.Events {
				if e.Seq <= last {
					t.Fatalf("event %d follows %d", e.Seq, last)
				}
				last = e.Seq
				subjects = append(subjects, e.Subject.Host())
				if e.Type == (event.FileKept{}).EventType() {
					paths = append(paths, string(e.Body))
				}
			}
			if q.After = page.Next; len(page.Events) == 0 || q.Tail {
				return subjects, paths
			}
		}
	}
	for _, q := range []operator.EventQuery{{Limit: 100}, {Limit: 1}, {Limit: 100, Tail: true}} {
		subjects, paths := told(after, q)
		if len(paths) != 2 || !slices.Contains(subjects, before) || !slices.Contains(subjects, after) {
			t.Errorf("%+v: %s has events of %v, and kept %v", q, after, subjects, paths)
		}
		if subjects, paths := told(before, q); len(paths) != 2 || slices.Contains(subjects, after) {
			t.Errorf("%+v: %s has events of %v, and kept %v", q, before, subjects, paths)
		}
	}
	why := testkit.Value(w.op.Host(w.ctx(), after))(t).Why
	if len(why.Former) != 1 || why.Former[0].Name != before {
		t.Errorf("%s was %+v", after, why.Former)
	}
}

// Why says what is left to do for a host that the newest release renames, until it has come under its new name.
func TestWhySaysHowToRename(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	a := enrolled(w, hostName(0))
	w.release("r2", plan{hosts: 1, content: "one", first: "box-1", host: ", renamedFrom: " + a.name})
	says := func(want string, not bool) {
		t.Helper()
		h := testkit.Value(w.op.Host(w.ctx(), "box-1"))(t)
		if h.RenamedFrom != a.name || strings.Contains(h.Why.Message, want) == not {
			t.Errorf("it was %q; why says %q", h.RenamedFrom, h.Why.Message)
		}
	}
	says("is host h-0000 under its new name, and has not enrolled with it; make a token with steady token create box-1", false)
	says("that agent reports", true)
	for version, old := range map[string]bool{"0.1.0": true, "0.2.0": false} {
		if status, raw, err := a.call(w.ctx(), "POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1, AgentVersion: version}); status != 200 {
			t.Fatal(status, string(raw), err)
		}
		says("that agent reports version 0.1.0: the release of that version cannot be renamed", !old)
	}
	b := newAgent(w, "box-1")
	b.event = a.event
	b.enrol()
	says("under its new name", true)
}
