package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// lab is a fleet of one host that takes sessions, and tells what becomes of them when a test says so.
type lab struct {
	*world
	host *agent
}

func newLab(t *testing.T) *lab {
	t.Helper()
	w := newWorld(t)
	l := &lab{world: w, host: settled(w, plan{hosts: 1, content: "one", host: ", managed: [workspace, image, network], bounds: {images: [registry.example/app], owners: [session]}"})}
	l.host.append(event.HostFacts{CPUs: 8, Memory: 32 << 30, Arch: "amd64", Engine: "27.0", GPUs: []event.GPU{{Vendor: "nvidia", Model: "Tesla T4", Memory: 16 << 30}}})
	testkit.Must(t, l.host.send())
	return l
}

// reports has the host say where a workload is.
func (l *lab) reports(name string, phase engine.Phase, state string) {
	l.t.Helper()
	l.host.append(event.ResourceReported{Resource: "workspace/" + name, Phase: phase, State: state, Layer: event.LayerManaged})
	testkit.Must(l.t, l.host.send())
}

func (l *lab) state(name string) session.State {
	l.t.Helper()
	return testkit.Value(l.op.Session(l.ctx(), name))(l.t).State
}

// web is a pod of one workspace with a GPU.
func web(name string) session.Pod {
	return session.Pod{Name: "web", Resources: place.Resources{MilliCPU: 500, Memory: 256 << 20}, GPU: place.GPURequest{Count: 1},
		Workloads: []session.Workload{{Kind: "workspace", Name: name, Spec: json.RawMessage(`{"image":"registry.example/app:1"}`)}}}
}

// course is a shop on a host, and once that runs an exam that is graded from outside.
func course() operator.NewSession {
	n := awaiting()
	phases := n.Parts[0].Phases
	n.Parts = []session.Part{
		{Name: "shop", Pods: []session.Pod{web("course-web")}},
		{Name: "exam", After: []session.Gate{{Part: "shop"}}, Phases: phases},
	}
	return n
}

// A session as people see and steer it: its tree follows what its host and programs outside say, and each
// verb is done with the keyboard alone.
func TestBrowserSessions(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	l := newLab(t)
	p := l.browser(t, l.adminSecret(), "/sessions")
	p.WaitText("No session is like that.")
	made := testkit.Value(l.op.CreateSession(l.ctx(), "course", course()))(t)
	testkit.Value(l.op.CreateSession(l.ctx(), "other", awaiting()))(t)
	sessions := p.In("group", "Sessions")
	sessions.WaitText("course")
	p.Write("searchbox", "Part of its name or owner", "cour")
	p.WaitText("1 in all")
	p.Write("searchbox", "Part of its name or owner", "")
	p.WaitText("2 in all")
	p.TabTo("combobox", "State")
	p.Type("Running") // what waits for its host does not
	p.WaitText("1 in all")
	p.Press("Home")
	usable(t, p, "sessions")
	sessions.Choose("link", "course")
	p.Wait("heading", "Session course")
	l.tree(t, p, made)
	usable(t, p, "session")
	l.steered(t, p)
	usable(t, p, "")
	viewer := l.browser(t, l.tokenOf(operator.Viewer, 0).Secret, "/")
	for _, path := range []string{"/sessions", "/sessions/other", "/calendar", "/attention", "/templates"} {
		viewer.Go(l.server.OperatorURL() + path)
		viewer.WaitSeq(1)
		viewer.Until("all of it to be there", `!document.querySelector("[aria-busy]")`)
		if n := browse.Eval[int](viewer, `document.querySelectorAll("main [data-verb], main .verbs button").length`); n > 0 {
			t.Errorf("a viewer is offered %d things to decide on %s", n, path)
		}
	}
}

// tree follows a session while it comes up.
func (l *lab) tree(t *testing.T, p *browse.Page, made operator.CreatedSession) {
	parts := p.In("region", "Parts")
	parts.WaitText("part shop ○waiting")
	parts.WaitText("on h-0000, GPU 0")
	parts.WaitText("workspace/course-web is not reported yet")
	parts.WaitText("part exam ○pending")
	parts.Wait("link", "workspace/course-web")
	l.reports("course-web", engine.Acting, "Deploying")
	parts.WaitText("workspace/course-web is Deploying")
	l.reports("course-web", engine.Converged, "Running")
	parts.WaitText("pod web ●converged on h-0000, GPU 0 it runs on h-0000")
	parts.WaitText("running it awaits an event graded")
	parts.WaitText("phase later ○pending")
	l.soon(t, p)
	if status, body := l.request(made.EventToken, "POST", made.Path, `{"points":3}`, "Ce-Specversion", "1.0", "Ce-Id", "1", "Ce-Source", "/lms", "Ce-Type", "graded", "Ce-Subject", "exam/grade"); status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	parts.WaitText("phase grade ●over ended by event 1")
	parts.Choose("DisclosureTriangle", "Result of grade")
	parts.WaitText(`"points": 3`)
	events := p.In("region", "Events for it")
	events.WaitText(made.Path)
	if strings.Contains(browse.Eval[string](p, "document.documentElement.outerHTML"), made.EventToken) {
		t.Error("the page has the token, and nobody asked for it")
	}
	events.Choose("button", "Show the token")
	events.WaitText(made.EventToken)
	events.Choose("button", "Hide the token")
	p.In("region", "Timeline").WaitText("received event graded 1")
	p.Hover("button", "Running")
	p.In("note", "").WaitText("it has started")
	p.Hover("heading", "Session course")
}

// soon holds a page to showing within a second what a host says of a leaf, the fastest of three times: other tests
// have the machine as well.
func (l *lab) soon(t *testing.T, p *browse.Page) {
	best := time.Hour
	for i := range 3 {
		word := fmt.Sprintf("state-%d", i)
		began := time.Now()
		l.reports("course-web", engine.Acting, word)
		p.WaitText("workspace/course-web is " + word)
		best = min(best, time.Since(began))
	}
	l.reports("course-web", engine.Converged, "Running")
	p.WaitText("it runs on h-0000")
	t.Logf("a leaf's status is shown after %s", best)
	if best > time.Second {
		t.Errorf("a leaf's status was shown after %s, expected a second at most", best)
	}
}

// steered does each verb at its node.
func (l *lab) steered(t *testing.T, p *browse.Page) {
	verb := func(v keyed) {
		v.role, v.silent = "group", true
		l.byKeyboard(t, p, v)
	}
	was := testkit.Value(l.op.Session(l.ctx(), "course"))(t).Timeslot
	verb(keyed{verb: "Extend", part: "Verbs", fields: [][2]string{{"By how many minutes; with a minus, sooner", "45"}}, line: "steady session extend course --by 45m"})
	is := testkit.Value(l.op.Session(l.ctx(), "course"))(t).Timeslot
	if is.End.Sub(was.End) != 45*time.Minute || is.CleanupDeadline.Sub(was.CleanupDeadline) != 45*time.Minute {
		t.Errorf("%v became %v", was, is)
	}
	p.In("region", "Timeslot").WaitText("Ends in 1 h 4")
	verb(keyed{verb: "Reconcile", part: "Verbs", line: "steady session reconcile course"})
	verb(keyed{verb: "Retry phase", part: "Verbs of phase exam/later", line: "steady session retry-phase course exam/later"})
	p.In("region", "Timeline").WaitText("steady.phase.retry")
	verb(keyed{verb: "Stop", part: "Verbs of part exam", line: "steady session stop course exam"})
	p.In("region", "Parts").WaitText("○stopped")
	l.until("the part is stopped", func() bool { return testkit.Value(l.op.Session(l.ctx(), "course"))(t).Parts[1].Stopped })
	verb(keyed{verb: "Start", part: "Verbs of part exam", line: "steady session start course exam"})
	p.In("region", "Parts").WaitText("phase grade ◐running")
	verb(keyed{verb: "Stop", part: "Verbs", line: "steady session stop course"})
	p.WaitText("◐Stopping")
	p.In("region", "Parts").WaitText("host h-0000 removes workspace/course-web")
	l.reports("course-web", "", "Removed")
	p.WaitText("○Retired")
	if l.state("course") != session.Retired {
		t.Errorf("it is %s", l.state("course"))
	}
}

// The calendar is a picture that the keyboard leads through, with the same in words; what failed stays on the list
// of what needs a person until somebody says what was done.
func TestBrowserCalendarAndAttention(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	l := newLab(t)
	monday := time.Date(2031, 3, 3, 0, 0, 0, 0, time.UTC)
	for i, name := range []string{"algebra", "botany", "chemistry"} {
		start := monday.Add(time.Duration(i)*24*time.Hour + 10*time.Hour)
		n := operator.NewSession{Timeslot: session.Timeslot{ProvisionAt: start.Add(-time.Hour), Start: start, End: start.Add(4 * time.Hour), CleanupDeadline: start.Add(6 * time.Hour)},
			Parts: []session.Part{{Name: "p", Pods: []session.Pod{web(name)}}}}
		testkit.Value(l.op.CreateSession(l.ctx(), name, n))(t)
		l.until(name+" to be booked", func() bool { return l.state(name) == session.Scheduled })
	}
	p := l.browser(t, l.adminSecret(), "/calendar")
	p.WaitText("No session has its timeslot then.")
	p.Go(l.server.OperatorURL() + "/calendar?from=2031-03-05")
	p.WaitText("2031-03-03 to 2031-03-09 (UTC)")
	p.WaitText("steady session calendar -o ics > sessions.ics")
	picture := p.In("list", "Timeslots")
	for _, said := range []string{"algebra, Scheduled, 2031-03-03 10:00:00 UTC to 2031-03-03 14:00:00 UTC", "botany, Scheduled, 2031-03-04 10:00:00 UTC to 2031-03-04 14:00:00 UTC"} {
		picture.Wait("link", said)
	}
	p.In("group", "Timeslots in words").WaitText("chemistry 2031-03-05 10:00 2031-03-05 14:00 ○Scheduled h-0000")
	usable(t, p, "calendar")
	p.TabTo("combobox", "A row for each")
	p.Type("host")
	picture.WaitText("h-0000")
	p.Until("one row for all", `document.querySelectorAll(".calendar > li").length === 2 && document.querySelectorAll(".calendar .slot").length === 3`)
	p.TabTo("combobox", "Shown")
	p.Type("day")
	p.Until("one of them", `document.querySelectorAll(".calendar .slot").length === 1`)
	p.Choose("link", "Before")
	p.WaitText("2031-03-04 (UTC)")
	usable(t, p, "")
	picture.Choose("link", "botany…")
	p.Wait("heading", "Session botany")
	l.byKeyboard(t, p, keyed{verb: "Cancel", role: "group", part: "Verbs", line: "steady session cancel botany", silent: true})
	p.WaitText("○Retired")
	n := awaiting()
	n.Timeslot.ProvisionAt, n.Timeslot.Start = n.Timeslot.End.Add(-time.Minute), n.Timeslot.End.Add(-time.Minute)
	testkit.Value(l.op.CreateSession(l.ctx(), "dawn", n))(t)
	p.Go(l.server.OperatorURL() + "/sessions/dawn")
	p.WaitText("○Scheduled")
	l.byKeyboard(t, p, keyed{verb: "Start", role: "group", part: "Verbs", line: "steady session start dawn", silent: true})
	p.WaitText("●Running")
	p.In("group", "Verbs").Wait("button", "Stop")
	l.attention(t, p)
}

// slowly has each page of sessions that the palette asks for wait until the test lets it go.
const slowly = `(() => {
	const fetch = window.fetch;
	window.fetch = async (path, init) => {
		if (String(path).includes("/operator/session-list?")) await new Promise((go) => (window.waiting ??= []).push(go));
		return fetch(path, init);
	};
	return true;
})()`

func (l *lab) attention(t *testing.T, p *browse.Page) {
	n := awaiting()
	n.OnFailure = engine.Abort
	n.Parts[0].Phases = []session.Phase{{Name: "grade", Await: "graded", Timeout: clock.Second}}
	testkit.Value(l.op.CreateSession(l.ctx(), "broken", n))(t)
	p.Go(l.server.OperatorURL() + "/")
	p.In("region", "Needs you").Wait("link", "session broken")
	p.Wait("link", "Attention 1")
	p.Press("g", "a")
	p.Wait("heading", "Attention")
	p.Wait("link", "session broken")
	usable(t, p, "attention")
	one := testkit.Value(l.op.Attention(l.ctx()))(t).Items[0]
	what := one.Kind + "/" + one.Name
	l.byKeyboard(t, p, keyed{verb: "Acknowledge", role: "main", part: "", fields: [][2]string{{"What is done about it, for the log", "the LMS is up again"}},
		line: "steady attention ack " + what + " --note 'the LMS is up again'", silent: true})
	p.WaitText("Nothing needs you.")
	p.WaitText("1 acknowledged item")
	if left := testkit.Value(l.op.Attention(l.ctx()))(t); left.Needed > 0 {
		t.Errorf("%+v", left)
	}
	p.Press("/")
	p.In("dialog", "Go to").Wait("combobox", "Page, rollout, host, node, flow or session")
	browse.Eval[bool](p, slowly)
	p.Type("broken")
	p.Until("the palette to ask", `window.waiting?.length === "broken".length`)
	p.Press("Enter")
	if !p.Has("dialog", "Go to") {
		t.Error("Enter opened what was found for another text")
	}
	browse.Eval[bool](p, "(waiting.forEach((go) => go()), true)")
	p.Wait("heading", "Session broken")
	p.WaitText("✖Failed")
}

// seminar is a template of a shop, as people write it.
const seminar = `name: seminar
description: A shop for a seminar
parameters:
- {name: seats, type: integer, description: Who takes part, min: 1, max: 40}
- {name: tier, type: string, choices: [small, large], default: small}
- {name: graded, type: boolean, description: An exam follows}
- {name: patience, type: duration, default: 30m}
parts:
- name: shop
  pods:
  - name: web
    cpus: 0.5
    memory: 256m
    compose:
      services:
        web:
          image: registry.example/app:${param:tier}
          environment: {SEATS: "${param:seats}", GRADED: "${param:graded}"}
  phases:
  - {name: grade, await: graded, timeout: "${param:patience}"}
`

// A template is set from its document, and is a form from then on: what is wrong is said at its field, where the pods
// would go is shown before the session is asked for.
func TestBrowserTemplates(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	l := newLab(t)
	p := l.browser(t, l.adminSecret(), "/templates")
	p.WaitText("There is no template yet.")
	p.WaitText("steady session quota list")
	p.Choose("DisclosureTriangle", "New template…")
	p.Write("textbox", "Template (YAML)", seminar)
	verb := func(v keyed) {
		v.silent = true
		l.byKeyboard(t, p, v)
	}
	verb(keyed{verb: "Put", role: "main", line: "steady session template put -f FILE"})
	p.Wait("heading", "Template seminar")
	p.WaitText("A shop for a seminar")
	form := p.In("region", "New session")
	form.Write("textbox", "Name", "monday")
	form.Write("textbox", "seats", "41")
	form.TabTo("combobox", "tier")
	p.Type("large")
	form.TabTo("checkbox", "graded")
	p.Press("Space")
	form.Write("textbox", "patience", "45m")
	p.Expect("status of 422")
	form.Choose("button", "Preview")
	form.In("group", "Parameters").WaitText("41 is too much: parameter seats is at most 40")
	p.Until("the field to be marked", `[...document.querySelectorAll("[aria-invalid=true]")].map((f) => f.labels[0].innerText).join() === "seats"`)
	usable(t, p, "")
	form.Write("textbox", "seats", "20")
	form.Choose("button", "Preview")
	form.WaitText("Each pod has a host now.")
	p.In("group", "Where its pods would go").WaitText("shop/web h-0000")
	if all := testkit.Value(l.op.Sessions(l.ctx()))(t); len(all) > 0 {
		t.Errorf("a preview made %+v", all)
	}
	form.Choose("DisclosureTriangle", "monday.yaml")
	form.WaitText("template: seminar")
	usable(t, p, "template")
	verb(keyed{verb: "Create", role: "region", part: "New session", line: "steady session create -f monday.yaml"})
	p.Wait("heading", "Session monday")
	p.In("region", "Parts").WaitText("on h-0000")
	made := testkit.Value(l.op.Session(l.ctx(), "monday"))(t)
	if slot := made.Timeslot; slot.End.Sub(slot.Start) != 2*time.Hour || slot.CleanupDeadline.Sub(slot.End) != 15*time.Minute {
		t.Errorf("%+v", slot)
	}
	var set string
	l.until("its workspace is set", func() bool {
		r, err := l.op.ManagedResource(l.ctx(), "h-0000", "workspace", "monday-shop-web-web")
		set = string(testkit.Value(json.Marshal(r))(t))
		return err == nil
	})
	for _, value := range []string{`"20"`, `"true"`, "large"} {
		if !strings.Contains(set, value) {
			t.Errorf("%s is not in %s", value, set)
		}
	}
	p.Go(l.server.OperatorURL() + "/templates")
	p.In("group", "Templates").WaitText("seminar seats, tier, graded, patience")
	usable(t, p, "templates")
	p.Choose("link", "seminar")
	verb(keyed{verb: "Remove", role: "group", part: "Verbs", line: "steady session template remove seminar"})
	p.WaitText("There is no template yet.")
	viewer := l.browser(t, l.tokenOf(operator.Viewer, 0).Secret, "/templates")
	viewer.WaitText("There is no template yet.")
	if viewer.Has("DisclosureTriangle", "New template…") {
		t.Error("a viewer is offered to set a template")
	}
}
