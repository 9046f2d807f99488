package api_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
)

// shows waits until the page shows what a rerun found.
func shows(t *testing.T, p *browse.Page, want *replay.WhatIf) {
	t.Helper()
	found := p.In("region", "Replay").In("group", "What would have happened")
	if want.Divergence == nil {
		found.WaitText("Every decision would have been the same")
		return
	}
	where := "when the log has ended"
	if want.Divergence.Seq != 0 {
		where = fmt.Sprintf("record %d", want.Divergence.Seq)
	}
	found.WaitText("The first other decision is at " + want.Divergence.At.Time().UTC().Format("2006-01-02 15:04:05") + " UTC, " + where + ".")
	for _, said := range append(want.FirstRecorded[:min(1, len(want.FirstRecorded))], want.FirstNew[:min(1, len(want.FirstNew))]...) {
		found.WaitText(said)
	}
	for _, v := range []replay.View{want.Recorded, want.End} {
		for _, r := range v.Rollouts {
			if r.Name == storyRun { // it ends otherwise
				found.WaitText(fmt.Sprintf("Hosts touched %d, converged %d, failed %d", r.Tried, r.Members["converged"], r.Failed))
			}
		}
	}
}

// query is the query of the address once it has a parameter.
func query(t *testing.T, p *browse.Page, name string) url.Values {
	t.Helper()
	p.Until("the address to have "+name, fmt.Sprintf("new URLSearchParams(location.search).get(%q)", name))
	return testkit.Value(url.ParseQuery(strings.TrimPrefix(browse.Eval[string](p, "location.search"), "?")))(t)
}

// A person who looks back tries what would have happened otherwise, by keyboard, and sends the link
// to somebody who may only look. What the page shows is what steady replay finds.
func TestBrowserWhatIf(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	s := newStory(t)
	p := s.browser(t, s.admin, "/log")
	p.WaitSeq(1)
	p.Choose("button", "Replay…")
	p.WaitText("As it was at")
	bar := p.In("region", "Replay")
	bar.Choose("button", "What if…")
	bar.TabTo("combobox", "What if")
	p.Type("Another policy")
	bar.Wait("option", "maxFailures")
	bar.TabTo("combobox", "Field")
	p.Type("maxFailures")
	bar.Write("textbox", "Is", "none")
	p.Expect("status of 422")
	p.Press("Enter")
	bar.WaitText(`"none" is no number of hosts`)
	usable(t, p, "")
	bar.Write("textbox", "Is", "0")
	p.Press("Enter")
	bar.WaitText("steady replay --policy maxFailures=0")
	asked := query(t, p, "rerun")
	record := testkit.Value(strconv.ParseUint(asked.Get("record"), 10, 64))(t)
	want := s.otherwise(record, replay.Wish{Policy: asked["policy"]})
	if want.Divergence == nil {
		t.Fatal("without any failure allowed all would have gone the same")
	}
	shows(t, p, want)
	usable(t, p, "what-if")
	link := browse.Eval[string](p, "location.href")

	p.In("navigation", "Pages").Choose("link", "Rollouts")
	p.Wait("heading", "Rollouts")
	if now := query(t, p, "rerun"); now.Get("at") != asked.Get("at") || now.Get("record") != asked.Get("record") {
		t.Errorf("on another page the address has %v", now)
	}
	shows(t, p, want)
	if want.Divergence.Seq > 0 { // else it is behind the end of the log
		bar.In("group", "What would have happened").Choose("button", fmt.Sprint("record ", want.Divergence.Seq))
		p.Until("that moment to be shown", fmt.Sprintf(`location.search.includes("at=%d&") && document.querySelector(".asof").innerText.includes("record %[1]d")`, want.Divergence.Seq))
	}

	// A second change, of an event, is of the same question.
	bar.TabTo("combobox", "What if")
	p.Type("An event had not come")
	bar.TabTo("combobox", "Event…")
	dropped := browse.Eval[string](p, "document.activeElement.value")
	bar.Choose("button", "Try it")
	bar.WaitText("What if event " + dropped + " had not come?")
	bar.WaitText("steady replay --drop " + dropped + " --policy maxFailures=0")
	p.Until("another answer", fmt.Sprintf("![null, %q].includes(new URLSearchParams(location.search).get('rerun'))", asked.Get("rerun")))
	asked = query(t, p, "rerun")
	record = testkit.Value(strconv.ParseUint(asked.Get("record"), 10, 64))(t)
	shows(t, p, s.otherwise(record, replay.Wish{Policy: asked["policy"], Drop: []uint64{testkit.Value(strconv.ParseUint(dropped, 10, 64))(t)}}))
	bar.Choose("button", "Remove: What if the policy were maxFailures=0?")
	p.Until("it to be gone from the address", `!location.search.includes("policy") && !location.search.includes("rerun")`)
	bar.Choose("button", "Back to now")
	p.Until("nothing of it to be left", `location.search === ""`)

	viewer := s.browser(t, s.tokenOf(operator.Viewer, 0).Secret, "/")
	viewer.Go(link)
	shows(t, viewer, want)
	if viewer.Has("button", "Try it") || viewer.Has("button", "Play the log again") {
		t.Error("a viewer is offered what is refused")
	}
	gone := testkit.Value(url.Parse(link))(t)
	q := gone.Query()
	q.Set("rerun", strings.Repeat("0", 32))
	gone.RawQuery = q.Encode()
	p.Go(gone.String())
	p.In("region", "Replay").Wait("alert", "")
	p.In("region", "Replay").Choose("button", "Play the log again")
	shows(t, p, want)
	p.Until("the same question to have the same answer", fmt.Sprintf("location.href === %q", link))
}
