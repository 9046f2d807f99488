package api_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
	"github.com/steadyfleet/steady/internal/wire"
)

// at is the answer of a route from the state of a record.
func at[T any](w *world, route string, seq uint64) (v T) {
	w.t.Helper()
	status, raw := w.request(w.adminSecret(), "GET", fmt.Sprintf("/v1/operator%s?at=%d", route, seq), "")
	if status != 200 {
		w.t.Fatalf("%s at record %d: %d %s", route, seq, status, raw)
	}
	testkit.Must(w.t, json.Unmarshal([]byte(raw), &v))
	return v
}

// moment moves the bar of the replay with a key until it is at a mark, and returns its record.
func moment(t *testing.T, p *browse.Page, key, mark string) (seq uint64) {
	t.Helper()
	const said = "document.activeElement.getAttribute('aria-valuetext')"
	p.In("region", "Replay").TabTo("slider", "Moment of the log")
	for {
		now := browse.Eval[string](p, said)
		if strings.HasSuffix(now, mark) {
			testkit.Value(fmt.Sscanf(now, "record %d", &seq))(t)
			return seq
		}
		p.Press(key)
		p.Until("the bar to move on from "+now+" to "+mark, fmt.Sprintf("%s !== %q", said, now))
	}
}

// The bar of the replay goes through the log by keyboard. Every page shows what was then, as the
// API says it, and offers no verb; nothing is changed.
func TestBrowserReplay(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	p := s.browser(t, s.admin, "/log")
	p.WaitSeq(1)
	p.Choose("button", "Replay…")
	pages := p.In("navigation", "Pages")
	opened := moment(t, p, "ArrowLeft", "rollout.opened rollout/"+storyRun)
	pages.Choose("link", "Rollouts")
	p.WaitText(storyRun + " ◐" + at[operator.RolloutDetail](s.world, "/rollouts/"+storyRun, opened).Status)
	p.Choose("link", storyRun)
	p.Wait("heading", "Rollout "+storyRun)
	p.In("region", "Hosts").WaitText("h-0002 ")
	if shown := p.In("region", "Hosts").Text("table", ""); strings.Contains(shown, "reverted") || strings.Contains(shown, "soaking") {
		t.Errorf("at the record that opened it, its hosts are %s", shown)
	}
	if n := browse.Eval[int](p, `document.querySelectorAll("[data-verb], .signed").length`); n > 0 {
		t.Errorf("%d verbs are offered in the past", n)
	}
	promoted := moment(t, p, "ArrowRight", "wave.promoted rollout/"+storyRun)
	then := at[operator.Status](s.world, "/status", promoted).Now.Time().UTC().Format("2006-01-02 15:04:05")
	p.WaitText(fmt.Sprintf("As it was at %s UTC, record %d.", then, promoted))
	p.In("banner", "").WaitText("Not now: the past")
	p.In("region", "Waves").WaitText("canary ●promoted")
	p.In("region", "Decisions").WaitText("wave.promoted")
	usable(t, p, "replay")
	pages.Choose("link", "Simulate")
	p.WaitText(fmt.Sprintf("Played ahead from where the fleet was with record %d", promoted))
	p.In("region", "How it would go").WaitText("runs came to an end")
	pages.Choose("link", "Rollouts")
	p.Choose("link", storyRun)
	p.In("region", "Replay").TabTo("slider", "Moment of the log")
	p.Expect("status of 404") // it was not there yet
	p.Press("Home")
	p.Wait("alert", "")
	for _, page := range []string{"Fleet", "Hosts", "Workspaces", "Release", "Simulate", "Log", "Settings"} {
		pages.Choose("link", page)
		p.Wait("heading", page+"…")
		p.Until("all of it to be there", `!document.querySelector("[aria-busy]")`)
	}
	if n := browse.Eval[int](p, `document.querySelectorAll("[data-verb]").length`); n > 0 {
		t.Errorf("%d verbs are offered in the past", n)
	}
	harmless := regexp.MustCompile(`/v1/operator/(stream/|logins|forecasts)`)
	for _, r := range p.Requests() {
		if r.Method != "GET" && !harmless.MatchString(r.URL) {
			t.Errorf("looking back sent %s %s", r.Method, r.URL)
		}
	}
	p.In("region", "Replay").Choose("button", "Back to now")
	p.WaitGone("region", "Replay")
	pages.Choose("link", "Rollouts")
	p.Choose("link", storyRun)
	p.In("group", "Verbs").Wait("button", "Pause")
	p.WaitSeq(testkit.Value(s.op.Status(s.ctx()))(t).Seq)
}

// Whoever restored a server from a backup sees what it waits for, and ends that by keyboard.
func TestBrowserEndsSafeMode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := enrolled(w, hostName(0)), enrolled(w, hostName(1))
	w.halt()
	w.start()
	a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1, LastSeq: 4}, nil)
	w.release("r1", plan{hosts: 2, content: "one"})
	if d, err := b.poll("0"); err != nil || d != nil {
		t.Fatalf("granted in safe mode: %+v, %v", d, err)
	}
	p := w.browser(t, w.adminSecret(), "/settings")
	server := p.In("region", "Server")
	server.WaitText(testkit.Value(w.op.Status(w.ctx()))(t).SafeMode)
	server.WaitText("1 host owes the server events that its log lacks: " + a.name)
	usable(t, p, "")
	(&story{world: w}).byKeyboard(t, p, keyed{verb: "End safe mode", role: "region", part: "Server", line: "steady safe-mode end"})
	server.WaitGone("alert", "")
	server.WaitGone("button", "End safe mode")
	if got := testkit.Value(w.op.Status(w.ctx()))(t).SafeMode; got != "" {
		t.Errorf("the server says %q", got)
	}
	if n := count(w.types(""), (event.SafeModeEnded{}).EventType()); n != 1 {
		t.Errorf("%d records of its end", n)
	}
	b.offered()
}
