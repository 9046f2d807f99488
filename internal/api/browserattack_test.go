package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// evil is a text that a page which takes it for anything else runs.
func evil(from string) string {
	return from + `'"><img src=/x onerror=window.ran=1><script>window.ran=1</script><style>*{display:none}</style>{{7*7}}&lt;`
}

// What a host, an operator or an address says is shown as text, and nothing of it runs:
// neither here, nor as far as the browser can tell by the policy of the page.
func TestBrowserRunsNoStoredScript(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one", host: delegating})
	agents := w.agents(2)
	stop := runAgents(t, agents...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	a := agents[0]
	a.fail, a.says = true, evil("failure")
	w.release("r2", plan{hosts: 2, content: "two", host: delegating})
	offer := a.offered()
	a.follow(offer)
	a.append(event.ResourceReported{Resource: "workspace/web", Phase: engine.Failed, State: evil("state"), Reason: engine.Code(evil("code")), Message: evil("message"),
		Layer: event.LayerManaged, Differences: []diff.Difference{{Field: evil("field"), Desired: evil("desired"), Observed: evil("observed"), Why: evil("why")}}})
	testkit.Must(t, a.send())
	beat := wire.Heartbeat{Incarnation: a.incarnation, LastSeq: a.chain.Seq, AgentVersion: evil("version"), Capabilities: []string{evil("capability")},
		Engine:  &wire.Engine{Name: evil("engine"), Problem: evil("problem")},
		Metrics: testkit.Value(json.Marshal(map[string]any{"host": map[string]any{"cpuPermille": 5, "cpuCount": evil("cpus")}, "gpus": []any{map[string]any{"name": evil("gpu")}}}))(t)}
	if status := a.do("POST", wire.RouteHeartbeat, beat, nil); status != 200 {
		t.Fatalf("the heartbeat is answered %d", status)
	}
	testkit.Value(w.op.SetResource(w.ctx(), a.name, "workspace", "web", operator.SetResource{Reason: evil("reason"),
		Spec: testkit.Value(json.Marshal(map[string]any{"image": "app", "env": []any{map[string]any{"name": "A", "value": evil("value")}}}))(t)}))(t)
	testkit.Value(w.op.Freeze(w.ctx(), agents[1].name, clock.Hour, evil("freeze")))(t)
	token := testkit.Value(w.op.CreateToken(w.ctx(), operator.NewToken{Name: "eve", Role: operator.Viewer}))(t)
	wait := a.serve(1, func(c *conn) {
		testkit.Must(t, c.out.WriteData(wire.FrameStdout, []byte("\x1b]0;title\x07\x1b[31m"+evil("line")+"\n")))
		testkit.Must(t, c.out.Exit(wire.Exit{Error: evil("exit")}))
		_, _ = c.in.Next() // the server ends it
	})
	p := browse.Open(t)
	p.Go(w.link(w.adminSecret()))
	p.Wait("heading", "Fleet…")
	look := func(path string, texts ...string) {
		t.Helper()
		p.Go(w.server.OperatorURL() + path)
		p.WaitSeq(1)
		for _, text := range texts {
			p.WaitText(text)
		}
		p.Until("all of it to be there", `!document.querySelector("[aria-busy]")`)
		if ran := browse.Eval[bool](p, `window.ran !== undefined || document.querySelector("img, main style, main script") !== null`); ran {
			t.Errorf("on %s a text became a part of the page, or ran", path)
		}
	}
	look("/")
	look("/rollouts")
	look("/rollouts/stable@r2")
	look("/hosts", "message'\"><img") // the list has the worst alone, cut
	look("/hosts/"+a.name, evil("failure"), evil("message"), evil("version"), evil("gpu"))
	p.In("region", "Resources").Click("DisclosureTriangle", "1 differ")
	p.WaitText(evil("observed"))
	p.Click("button", "Logs")
	p.WaitText(evil("line"))
	wait()
	look("/hosts/"+agents[1].name, evil("freeze"))
	look("/release", evil("failure"))
	look("/log", evil("freeze"))
	look("/settings", token.Name)
	for _, path := range []string{"/hosts/%s", "/rollouts/%s", "/%s", "/log?about=%s", "/hosts?search=%s", "/hosts?state=%s", "/hosts?sort=%s", "/rollouts/x?%s", "/login#%s"} {
		if strings.HasPrefix(path, "/login") {
			p.Expect("401")
		}
		p.Go(w.server.OperatorURL() + fmt.Sprintf(path, url.PathEscape(evil("address"))))
		p.Until("the page to be there", `document.querySelector("h1") && !document.querySelector("[aria-busy]")`)
		if ran := browse.Eval[bool](p, `window.ran !== undefined || document.querySelector("img, main style, main script") !== null`); ran {
			t.Errorf("%s: the address became a part of the page, or ran", path)
		}
	}
}

// elsewhere is the page of another origin, which does with the server at an address what
// pages can, and says what came of it.
const elsewhere = `<!doctype html><title>Elsewhere</title><script>
const at = new URLSearchParams(location.search).get("at");
const came = (p) => p.then((v) => "came: " + v, () => "refused");
const api = at + "/v1/operator", json = { method: "POST", credentials: "include", body: '{"reason":"forged"}' };
const pause = api + "/rollouts/stable%40r1/pause";
async function attack() {
	return {
		read: await came(fetch(api + "/me", { credentials: "include" }).then((r) => r.status)),
		write: await came(fetch(pause, { ...json, headers: { "Content-Type": "application/json" } }).then((r) => r.status)),
		blind: await came(fetch(pause, { ...json, mode: "no-cors" }).then((r) => r.type === "opaque" ? Promise.reject() : r.status)),
		stream: await came(new Promise((open, fail) => {
			const s = new EventSource(api + "/stream?topic=/fleet", { withCredentials: true });
			s.onopen = () => open("a stream");
			s.onerror = () => { s.close(); fail(); };
		})),
		socket: await came(new Promise((open, fail) => {
			const s = new WebSocket(api.replace("https", "wss") + "/hosts/h-0000/workspaces/web/exec?command=sh");
			s.onopen = () => open("a socket");
			s.onerror = () => fail();
		})),
		script: await came(new Promise((open, fail) => {
			const s = document.createElement("script");
			s.onload = () => open("a script");
			s.onerror = fail;
			s.src = api + "/me";
			document.head.append(s);
		})),
		image: await came(new Promise((open, fail) => {
			const s = document.createElement("img");
			s.onload = () => open("an image");
			s.onerror = fail;
			s.src = at + "/icon.svg";
			document.head.append(s);
		})),
		frame: await came(new Promise((open, fail) => {
			const f = document.createElement("iframe");
			f.onload = () => { try { f.contentWindow.location.href === "about:blank" ? open("blank") : open("same origin"); } catch { f.contentWindow.length === 0 ? fail() : open("a frame"); } };
			f.src = at + "/";
			document.body.append(f);
		})),
	};
}
</script>`

// Pages of other origins get nothing and change nothing, whether the browser sends them the
// cookie, as to another port of the same host, or does not.
func TestBrowserKeepsOtherOriginsOut(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	other := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte(elsewhere))
	}))
	t.Cleanup(other.Close)
	p := browse.Open(t)
	p.Expect("Failed to load resource")
	p.Go(w.link(w.adminSecret()))
	p.Wait("heading", "Fleet…")
	own := `fetch("/v1/operator/rollouts/stable%40r1/VERB", { method: "POST", body: '{"reason":"own"}', headers: { "Content-Type": "application/json" } }).then((r) => r.status)`
	for _, said := range []string{"CORS policy", "frame-ancestors", "WebSocket connection"} {
		p.Expect(said)
	}
	for _, from := range []string{other.URL, strings.Replace(other.URL, "127.0.0.1", "localhost", 1)} {
		p.Go(from + "/?at=" + url.QueryEscape(w.server.OperatorURL()))
		for what, came := range browse.Eval[map[string]string](p, "attack()") {
			if came != "refused" {
				t.Errorf("%s from %s: %s", what, from, came)
			}
		}
		if got := w.standing("stable@r1"); got == "paused" {
			t.Fatalf("a page of %s paused the rollout", from)
		}
	}
	p.Go(w.server.OperatorURL())
	p.Wait("heading", "Fleet…")
	if status := browse.Eval[int](p, strings.Replace(own, "VERB", "pause", 1)); status/100 != 2 || w.standing("stable@r1") != "paused" {
		t.Errorf("the page's own request is answered %d, and the rollout is %s", status, w.standing("stable@r1"))
	}
}
