package api_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
)

// keyed is a verb that somebody does with the keyboard alone.
type keyed struct {
	verb    string
	role    string // of the part of the page that it stands in
	part    string
	fields  [][2]string // label and text
	line    string      // the command that does the same, without its reason
	refused string      // what the server answers; "" is a success
	silent  bool        // it asks for no reason, and leaves none in the log
}

// Every verb is done with the keyboard alone, says the command that does the same, and
// is done: the log has its reason. What the server refuses is said where it was asked.
func TestBrowserVerbs(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	s := newStory(t)
	made := s.tokenOf(operator.Viewer, 0)
	bundle := string(s.agents[5].a.Machine.Current)
	p := s.browser(t, s.admin, "/")
	p.Expect("status of 409")
	for _, page := range []struct {
		path  string
		verbs []keyed
	}{
		{"/rollouts/" + storyRun, []keyed{
			{verb: "Pause", role: "group", part: "Verbs", line: "steady rollout pause stable@r2"},
			{verb: "Resume", role: "group", part: "Verbs", line: "steady rollout resume stable@r2"},
			{verb: "Cancel", role: "group", part: "Verbs", line: "steady rollout cancel stable@r2"},
		}},
		{"/hosts/h-0004", []keyed{
			{verb: "Freeze", role: "group", part: "Verbs", fields: [][2]string{{"Hours", "3"}}, line: "steady host freeze h-0004 --for 3h"},
			{verb: "Unfreeze", role: "group", part: "Verbs", line: "steady host unfreeze h-0004"},
			{verb: "Retry", role: "group", part: "Verbs", line: "steady host retry h-0004"},
			{verb: "Disable", role: "group", part: "Verbs", line: "steady host disable h-0004"},
			{verb: "Enable", role: "group", part: "Verbs", line: "steady host enable h-0004"},
			{verb: "Tune", role: "region", part: "Settings", fields: [][2]string{{"Reports every, in seconds (5 to 600)", "30"}, {"Pulls at a time", "2"}},
				line: "steady host set h-0004 --heartbeat 30s --resync default --builds default --pulls 2 --starts default --metrics host,gpu,workspaces"},
			{verb: "Revoke", role: "group", part: "Verbs", line: "steady host revoke h-0004"},
			{verb: "Decommission", role: "group", part: "Verbs", line: "steady host decommission h-0004"},
		}},
		{"/release", []keyed{
			{verb: "Quarantine", role: "region", part: "Quarantine", fields: [][2]string{{"Bundle: its digest, or the first 12 of its digits", "000000000000"}}, line: "steady quarantine add stable 000000000000", refused: "000000000000"},
			{verb: "Quarantine", role: "region", part: "Quarantine", fields: [][2]string{{"Bundle: its digest, or the first 12 of its digits", bundle}}, line: "steady quarantine add stable " + bundle},
			{verb: "Clear", role: "region", part: "Quarantine", line: "steady quarantine clear stable " + bundle[7:19]},
		}},
		{"/settings", []keyed{
			{verb: "Reconcile", role: "region", part: "Server", line: "steady reconcile", silent: true},
			{verb: "Revoke", role: "row", part: "tester viewer…", line: "steady operator revoke " + made.ID, silent: true},
		}},
	} {
		p.Go(s.server.OperatorURL() + page.path)
		for _, v := range page.verbs {
			s.byKeyboard(t, p, v)
		}
	}
	p.Go(s.server.OperatorURL() + "/rollouts/" + storyRun) // cancelled by now, with hosts in flight
	p.Until("the page to say why not", `[...document.querySelectorAll("details.signed")].some((d) => d.textContent.includes("wait until they converge or fail"))`)
	if n := browse.Eval[int](p, `document.querySelectorAll("[data-verb=operate-rollout], [data-verb=promote-wave], [data-verb=retry-rollout]").length`); n > 0 {
		t.Errorf("%d verbs are offered of a rollout that takes none", n)
	}
	viewer := s.browser(t, s.tokenOf(operator.Viewer, 0).Secret, "/")
	for _, path := range []string{"/rollouts/" + storyRun, "/hosts/h-0004", "/release", "/settings"} {
		viewer.Go(s.server.OperatorURL() + path)
		viewer.WaitSeq(1)
		viewer.Until("all of it to be there", `!document.querySelector("[aria-busy]")`)
		if n := browse.Eval[int](viewer, `document.querySelectorAll("[data-verb]").length`); n > 0 {
			t.Errorf("a viewer sees %d verbs on %s", n, path)
		}
	}
}

func (w *world) byKeyboard(t *testing.T, p *browse.Page, v keyed) {
	t.Helper()
	t.Log(v.verb)
	reason := "it's time: " + strings.ToLower(v.verb)
	p.In(v.role, v.part).Choose("button", v.verb)
	dialog := p.In("dialog", v.verb+"…")
	for _, f := range v.fields {
		dialog.Write("textbox", f[0], f[1])
	}
	if !v.silent {
		dialog.Write("textbox", "Reason, for the log", reason)
	}
	line := v.line
	if !v.silent {
		line += ` --reason 'it'\''s time: ` + strings.ToLower(v.verb) + `'`
	}
	p.Until("the command "+line, `document.querySelector("dialog[open] code")?.innerText === `+strconv.Quote(line))
	dialog.Choose("button", v.verb)
	if v.refused != "" {
		dialog.Wait("alert", "")
		usable(t, p, "")
		if got := dialog.Text("alert", ""); !strings.Contains(got, v.refused) {
			t.Errorf("%s is refused with %q", v.verb, got)
		}
		p.Press("Escape")
		p.WaitGone("dialog", v.verb+"…")
		return
	}
	p.WaitText(v.verb + ": done")
	p.WaitGone("dialog", v.verb+"…")
	if v.silent {
		return
	}
	tail := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{Tail: true, Limit: 100}))(t)
	for _, e := range tail.Events {
		if strings.Contains(string(e.Body), strings.ReplaceAll(reason, `'`, `\u0027`)) || strings.Contains(string(e.Body), reason) {
			return
		}
	}
	t.Errorf("the log has no record of %s", v.verb)
}
