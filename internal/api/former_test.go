package api_test

import (
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
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
