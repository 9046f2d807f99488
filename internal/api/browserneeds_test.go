package api_test

import (
	"strconv"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	corestatus "github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// item waits for the item of the inbox about an object.
func (w *world) item(kind, name string) (item corestatus.InboxItem) {
	w.t.Helper()
	w.until(kind+" "+name+" to need a person", func() bool {
		for _, i := range testkit.Value(w.op.Attention(w.ctx()))(w.t).Items {
			if i.Kind == kind && (name == "" || i.Name == name) {
				item = i
				return true
			}
		}
		return false
	})
	return item
}

// A halted rollout, a host that declines what it is offered, drift and a degraded session are each one row of
// the first page, with the reason, until the cause is mended.
func TestBrowserNeedsYou(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		trouble func(t *testing.T) (w *world, item corestatus.InboxItem, cure func())
	}{
		{"halted rollout", haltedRollout}, {"host that declines", decliningHost}, {"drift", driftedFlow}, {"degraded session", degradedSession},
	} {
		t.Run(row.name, func(t *testing.T) {
			testkit.Needs(t, testkit.Chromium)
			t.Parallel()
			w, item, cure := row.trouble(t)
			if item.Reason == "" {
				t.Errorf("%s has no reason", item.Key())
			}
			p := w.browser(t, w.adminSecret(), "/")
			needs, link := p.In("region", "Needs you"), item.Kind+" "+item.Name
			needs.Wait("link", link)
			needs.WaitText(item.Reason)
			if n := browse.Eval[int](p, `[...document.querySelectorAll(".inbox > li > a")].filter((a) => a.innerText === `+strconv.Quote(link)+`).length`); n != 1 {
				t.Errorf("%d rows: %s", n, needs.Text("list", ""))
			}
			usable(t, p, "")
			cure()
			needs.WaitGone("link", link)
		})
	}
	t.Run("acknowledged", func(t *testing.T) {
		testkit.Needs(t, testkit.Chromium)
		t.Parallel()
		w, item, _ := haltedRollout(t)
		p := w.browser(t, w.adminSecret(), "/")
		w.byKeyboard(t, p, keyed{verb: "Acknowledge", role: "region", part: "Needs you", fields: [][2]string{{"What is done about it, for the log", "a fix is built"}},
			line: "steady attention ack " + item.Key() + " --note 'a fix is built'", silent: true})
		needs := p.In("region", "Needs you")
		needs.WaitText("Nothing needs you.")
		needs.Choose("DisclosureTriangle", "1 acknowledged item")
		needs.WaitText("a fix is built")
	})
}

func haltedRollout(t *testing.T) (*world, corestatus.InboxItem, func()) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one"})
	a.fail = true
	t.Cleanup(runAgents(t, a))
	w.release("r2", plan{hosts: 1, content: "two"})
	item := w.item("rollout", "stable@r2")
	return w, item, func() { testkit.Must(t, w.op.Operate(w.ctx(), "cancel", item.Name, "a fix is built")) }
}

func decliningHost(t *testing.T) (*world, corestatus.InboxItem, func()) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one"})
	w.release("r2", plan{hosts: 1, content: "two"})
	last := ""
	w.until("the host to be behind", func() bool {
		h := testkit.Value(w.op.Host(w.ctx(), a.name))(t)
		if h.Grant != "" && h.Grant != last {
			last = h.Grant
			a.append(declined(last))
			testkit.Must(t, a.send())
		}
		a.beat()
		return h.Behind != nil
	})
	return w, w.item("host", a.name), func() { t.Cleanup(liveAgents(a)) }
}

func driftedFlow(t *testing.T) (*world, corestatus.InboxItem, func()) {
	w := newWorld(t)
	d := w.registered("gw-1", `{}`)
	w.set("gw-1", "cam-1", cam2)
	w.untilStatus("cam-1", drift.Pushed)
	was := d.read()
	d.write(`{}`)
	return w, w.item("drift", ""), func() { d.write(was) }
}

func degradedSession(t *testing.T) (*world, corestatus.InboxItem, func()) {
	l := newLab(t)
	n := awaiting()
	n.Parts = []session.Part{{Name: "shop", Pods: []session.Pod{web("course-web")}}}
	testkit.Value(l.op.CreateSession(l.ctx(), "course", n))(t)
	l.until("the workload to be asked for", func() bool {
		return len(l.host.layer().Entries) > 0
	})
	l.reports("course-web", engine.Converged, string(spec.RunningState))
	l.until("the session to run", func() bool { return l.state("course") == session.Running })
	l.reports("course-web", engine.Failed, string(spec.ErrorState))
	return l.world, l.item("session", "course"), func() {
		testkit.Must(t, l.op.Acknowledge(l.ctx(), operator.Acknowledge{Kind: "session", Name: "course", Note: "the host is being repaired"}))
	}
}
