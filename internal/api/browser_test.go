package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
)

// story is a fleet with something to look at. Everybody runs r1. r2 is under way: the
// canary has converged; of the second wave two hosts soak, and one failed; the third
// waits. The last host never enrolled.
type story struct {
	*world
	agents []*agent
	admin  string // token
}

const (
	storyHosts  = 8
	storyRun    = "stable@r2"
	storyWaves  = "    waves:\n      - {name: canary, selector: {tags: [canary]}}\n      - {name: early, selector: {hosts: [h-0001, h-0002, h-0003]}, soak: 1h}\n      - {name: rest, selector: {all: true}}\n"
	storyPolicy = "    healthGate: {maxFailures: 1}\n"
	storyMore   = "disruptionBudgets:\n  - {selector: {all: true}, maxInFlight: 4}\n"
)

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{world: newWorld(t)}
	s.admin = s.adminSecret()
	s.release("r1", plan{hosts: storyHosts, content: "one", host: delegating, waves: storyWaves[:0], more: storyMore})
	s.agents = s.world.agents(storyHosts - 1)
	for _, a := range s.agents {
		a.clock = clock.FromTime(time.Now())
	}
	stop := runAgents(t, s.agents...)
	s.until("r1 to converge", func() bool { return s.standing("stable@r1") == "done" })
	stop()
	s.agents[2].fail = true
	s.release("r2", plan{hosts: storyHosts, content: "two", host: delegating, waves: storyWaves, policy: storyPolicy, more: storyMore})
	liveAgents(s.agents...)
	s.until("two hosts to soak and one to fail", func() bool {
		r := testkit.Value(s.op.Rollout(s.ctx(), storyRun))(t)
		return len(r.Waves) == 3 && r.Waves[1].Counts["claimed"] == 2 && r.Waves[1].Failures == 1
	})
	return s
}

// link is an address that logs a browser in once.
func (w *world) link(secret string) string {
	w.t.Helper()
	return testkit.Value(w.client(secret).UILink(w.ctx()))(w.t).URL
}

// browser opens a page of the UI, logged in with a token.
func (w *world) browser(t *testing.T, secret, path string) *browse.Page {
	t.Helper()
	p := browse.Open(t)
	p.Go(w.link(secret))
	p.Wait("heading", "Fleet…")
	if path != "/" {
		p.Go(w.server.OperatorURL() + path)
	}
	return p
}

// A person logs in with a token or with a link that works once; before, the page says
// nothing of the fleet; after logging out neither the page nor the cookie is of use.
func TestBrowserLogin(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	token := w.tokenOf(operator.Viewer, 0)
	p := browse.Open(t)
	p.Expect("401")
	p.Go(w.server.OperatorURL() + "/rollouts")
	p.Wait("heading", "Log in")
	if text := browse.Eval[string](p, "document.documentElement.outerHTML"); len(text) == 0 || p.Has("navigation", "Pages") {
		t.Error("the page shows more than the login")
	}
	p.Write("textbox", "Operator token", "wrong")
	p.Press("Enter")
	p.Wait("alert", "")
	usable(t, p, "")
	p.Write("textbox", "Operator token", token.Secret)
	p.Press("Enter")
	p.Wait("heading", "Rollouts")
	p.WaitText("tester (viewer)")
	p.Choose("button", "Log out")
	p.Wait("heading", "Log in")
	if status := browse.Eval[int](p, `fetch("/v1/operator/me").then((r) => r.status)`); status != 401 {
		t.Errorf("the cookie after logging out is answered %d", status)
	}
	link := w.link(token.Secret)
	p.Go(link)
	p.Wait("heading", "Fleet acme")
	again := browse.Open(t)
	again.Expect("401")
	again.Go(link)
	again.Wait("heading", "Log in")
	again.Wait("alert", "")
}

// held has the first request for other topics wait in the page until the test lets it go.
const held = `(() => {
	const fetch = window.fetch;
	window.fetch = async (path, init) => {
		if (!window.letGo && String(path).includes("/stream/")) await new Promise((go) => (window.letGo = go));
		return fetch(path, init);
	};
	return true;
})()`

// Whoever leafs faster than the server answers sees the page where they end.
func TestBrowserLeafsFast(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	p := w.browser(t, w.adminSecret(), "/")
	p.WaitSeq(1)
	browse.Eval[bool](p, held)
	p.Press("g", "s")
	p.Wait("heading", "Settings")
	p.Until("the page to ask for its topics", "window.letGo")
	p.Press("g", "h")
	p.Wait("heading", "Hosts")
	browse.Eval[bool](p, "(letGo(), true)")
	p.WaitText("1 in all")
	p.Press("g", "f", "g", "h", "g", "f")
	p.In("region", "Needs you").WaitText("Nothing needs you.")
}

// A browser that connects anew by itself asks for the topics of the page that it opened first; the
// page asks for those that it has now.
func TestBrowserFollowsAfterALostConnection(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	p := w.browser(t, w.adminSecret(), "/")
	p.WaitSeq(1)
	p.Press("g", "h")
	p.Wait("heading", "Hosts")
	p.WaitText("1 in all")
	w.opts.Listen = strings.TrimPrefix(w.server.OperatorURL(), "https://")
	p.Expect("ERR_CONNECTION_REFUSED")
	w.halt()
	p.Until("the page to say that its connection is lost", `document.documentElement.dataset.connection === "lost"`)
	usable(t, p, "")
	p.Until("the browser to have tried", `performance.getEntriesByType("resource").filter((e) => e.name.includes("/stream?")).length > 1`)
	w.start()
	p.Until("the page to be connected", `document.documentElement.dataset.connection === "live"`)
	w.release("r2", plan{hosts: 2, content: "two"})
	p.WaitText("2 in all")
}
