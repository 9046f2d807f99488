package api_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/web/browse"
)

// What people do on each page, on one fleet, in the order of the rows: what they see,
// and where it leads.
func TestBrowserPages(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, testkit.Chromium)
	s := newStory(t)
	for _, page := range []struct {
		name string
		path string
		flow func(t *testing.T, s *story, p *browse.Page)
	}{
		{"fleet", "/", fleetFlow},
		{"rollouts", "/rollouts", rolloutsFlow},
		{"rollout", "/rollouts/" + storyRun, rolloutFlow},
		{"hosts", "/hosts", hostsFlow},
		{"host", "/hosts/h-0002", hostFlow},
		{"workspaces", "/workspaces", workspacesFlow},
		{"workspace", "/workspaces/h-0001/workspace/web", workspaceFlow},
		{"release", "/release", releaseFlow},
		{"simulate", "/simulate?failure=0.5", simulateFlow},
		{"log", "/log", logFlow},
		{"settings", "/settings", settingsFlow},
		{"", "/nowhere", nowhereFlow},
	} {
		t.Run(cmp.Or(page.name, page.path), func(t *testing.T) {
			p := s.browser(t, s.admin, page.path)
			page.flow(t, s, p)
			p.Go(s.server.OperatorURL() + page.path)
			usable(t, p, page.name)
		})
	}
}

// narrow are the pages with a picture on a narrow screen as well.
var narrow = []string{"fleet"}

// usable holds what is on the page against what everybody needs of it, in both themes and on
// both sizes of screen, and takes its picture with -rewrite if it has a name.
func usable(t *testing.T, p *browse.Page, name string) {
	t.Helper()
	p.Usable(name, func(width int64, scheme string) {
		shot := map[string]string{"1440 light": name, "360 dark": name + "-narrow"}[fmt.Sprint(width, " ", scheme)]
		if base, small := strings.CutSuffix(shot, "-narrow"); *rewrite && base != "" && (!small || slices.Contains(narrow, base)) {
			most := 1000.0
			if p.Has("region", "Replay") { // it stays at the end of the window
				most = 0
				browse.Eval[bool](p, "(scrollTo(0, 0), true)")
			}
			p.Shot(filepath.Join("..", "..", "docs", "ui", shot+".png"), most)
		}
	})
}

func fleetFlow(t *testing.T, s *story, p *browse.Page) {
	p.Wait("link", "2 hosts are soaking")
	p.Wait("link", "1 host is never-enrolled")
	needs := p.In("region", "Needs you")
	testkit.Must(t, s.op.Operate(s.ctx(), "pause", storyRun, "lunch"))
	needs.WaitText("lunch")
	needs.Click("link", "rollout "+storyRun)
	p.Wait("heading", "Rollout "+storyRun)
	testkit.Must(t, s.op.Operate(s.ctx(), "resume", storyRun, "back"))
	p.Press("g", "f")
	p.In("region", "Rollouts under way").WaitText("wave early has 2 hosts in flight")
	p.In("region", "Rollouts under way").WaitText("Next: wave rest opens at ")
	p.TabTo("application", "8 hosts: …")
	p.Press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
	p.WaitText("h-0003: soaking")
	p.Press("Enter")
	p.Wait("heading", "Host h-0003")
	p.Press("/")
	p.In("dialog", "Go to").Wait("combobox", "Page, rollout, host, node, flow or session")
	p.Type("0005")
	p.Wait("option", "Host h-0005")
	p.Press("Enter")
	p.Wait("heading", "Host h-0005")
	p.Press("Control+k")
	p.Type("stable@r1")
	p.Wait("option", "Rollout stable@r1")
	usable(t, p, "")
	p.Press("Escape")
	p.WaitGone("dialog", "Go to")
}

func rolloutsFlow(t *testing.T, s *story, p *browse.Page) {
	p.WaitText("stable@r1 ●done")
	p.WaitText("stable@r2 ▲active")
	p.Choose("link", storyRun)
	p.Wait("heading", "Rollout "+storyRun)
	if at := browse.Eval[string](p, "location.pathname"); at != "/rollouts/"+storyRun {
		t.Errorf("the address is %s", at)
	}
	p.Press("g", "r")
	p.Wait("heading", "Rollouts")
}

func rolloutFlow(t *testing.T, s *story, p *browse.Page) {
	waves := p.In("region", "Waves")
	waves.WaitText("canary ●promoted")
	waves.WaitText("1 reverted, 2 soaking of 3 · 1 failed · soak 1 h")
	p.In("region", "Disruption budgets").WaitText("2 of 4")
	r := s.rollout(storyRun)
	for _, block := range r.WaveBlocks {
		p.In("region", "Why not further yet").WaitText(block.Message)
	}
	hosts := p.In("region", "Hosts")
	hosts.WaitText("h-0002 ▲reverted")
	if text, at := hosts.Text("table", ""), strings.Index; at(text, "h-0002") > at(text, "h-0001") {
		t.Error("the host that failed is not the first")
	}
	hosts.Choose("link", "h-0002")
	p.Wait("heading", "Host h-0002")
}

func hostsFlow(t *testing.T, s *story, p *browse.Page) {
	p.WaitText("8 in all")
	p.Write("searchbox", "Name", "0005")
	p.WaitText("1 in all")
	p.Until("the address to say so", `location.search === "?search=0005"`)
	p.Write("searchbox", "Name", "")
	p.WaitText("8 in all")
	p.TabTo("combobox", "State")
	p.Type("soaking")
	p.WaitText("2 in all")
	p.Press("Home")
	p.WaitText("8 in all")
	for _, first := range []string{"h-0000", "h-0007"} { // ascending, then descending
		p.Choose("button", "Host")
		p.Until("the first host to be "+first, `document.querySelector("th").ariaSort !== "none" && document.querySelector("tbody th").innerText === "`+first+`"`)
	}
	p.Choose("link", "h-0004")
	p.Wait("heading", "Host h-0004")
}

func hostFlow(t *testing.T, s *story, p *browse.Page) {
	why := testkit.Value(s.op.Why(s.ctx(), "h-0002"))(t)
	p.In("region", "Why").WaitText(why.Message)
	p.WaitText("activation failed: the test says so")
	p.In("region", "Why").Choose("DisclosureTriangle", fmt.Sprintf("The %d gates before its grant", len(why.Gates)))
	for _, g := range why.Gates {
		p.In("region", "Why").WaitText(string(g.Gate))
		if g.Block != nil {
			p.In("region", "Why").WaitText(g.Block.Message)
		}
	}
	p.In("region", "Identity").WaitText("Incarnation 1")
	record := p.In("region", "Timeline")
	record.WaitText("host.bundle_quarantined")
	record.Choose("link", "All of it")
	p.Wait("heading", "Log")
	p.WaitText("host.bundle_quarantined")
}

// The list is filtered and sorted by the server; what is made begins there.
func workspacesFlow(t *testing.T, s *story, p *browse.Page) {
	p.Wait("heading", "Workspaces")
	p.WaitText("No workspace is like that.")
	for _, host := range []string{"h-0000", "h-0001"} {
		testkit.Value(s.op.SetResource(s.ctx(), host, "workspace", "web", resource(`{"image":"app","env":[{"name":"A","value":"<img src=x onerror=alert(1)>"}]}`)))(t)
	}
	p.In("group", "Every workspace").WaitText("h-0001")
	p.Write("searchbox", "Part of HOST/NAME", "h-0001/")
	p.WaitText("1 in all")
	p.Choose("link", "web")
	p.Wait("heading", "Workspace h-0001/web")
}

// A person sees what is set, changes it as fields and as text, and reads what is left to the
// server. The simulated host answers no preview.
func workspaceFlow(t *testing.T, s *story, p *browse.Page) {
	p.In("region", "Set").WaitText("<img src=x onerror=alert(1)>")
	p.Choose("link", "Change")
	p.Write("textbox", "command", "sh")
	p.Until("the text to say the same", `/^command:\n +- sh$/m.test(document.getElementById("source").value)`)
	p.Expect("status of 422")
	p.Write("textbox", "The same as text (YAML)", "image: app\nuser: [")
	p.WaitText(": this is not YAML: ")
	p.Write("textbox", "The same as text (YAML)", "image: app\nuser: \"1000\"")
	p.Until("the field to say the same", `[...document.querySelectorAll("input")].some((f) => f.value === "1000")`)
	p.Choose("button", "Set")
	p.In("dialog", "Set…").WaitText("steady apply -f web.yaml h-0001")
	p.In("dialog", "Set…").Write("textbox", "Reason, for the log", "a test")
	p.In("dialog", "Set…").Choose("button", "Set")
	p.In("region", "Set").WaitText(`"user": "1000"`)
	p.Go(s.server.OperatorURL() + "/workspaces/h-0001/image/app")
	p.WaitText("The line in fleet.yaml that would, below the host: managed: [image]")
}

func releaseFlow(t *testing.T, s *story, p *browse.Page) {
	p.WaitText("r2, version 2, accepted")
	p.WaitText("No bundle is refused.")
	p.Choose("link", storyRun)
	p.Wait("heading", "Rollout "+storyRun)
}

func logFlow(t *testing.T, s *story, p *browse.Page) {
	p.Write("textbox", "About", "host/h-0002")
	p.Press("Enter")
	p.Until("the address to say so", `location.search.includes("about=host%2Fh-0002")`)
	p.WaitText("host.bundle_quarantined")
	p.Until("no other host to be shown", `![...document.querySelectorAll(".events li")].some((l) => l.innerText.includes("host/h-0001"))`)
	newest := testkit.Value(s.op.Events(s.ctx(), operatorAll))(t).Events
	testkit.Must(t, s.op.Reconcile(s.ctx()))
	p.Write("textbox", "About", "")
	p.Press("Enter")
	p.WaitSeq(newest[len(newest)-1].Seq)
	p.Click("button", "Older")
	p.Click("button", "1 …")
	p.WaitText(`"root"`)
	p.WaitText("the beginning of the log")
	p.WaitText("Chain whole: records 1 to")
	first := testkit.Value(s.op.Events(s.ctx(), operator.EventQuery{Limit: 2}))(t).Events
	p.Click("button", "2 …")
	p.WaitText(first[0].Hash)
	p.WaitText(first[1].Hash)
	p.Go(s.server.OperatorURL() + "/log?type=host.*&actor=nobody")
	p.WaitText("No record is like that.")
	p.Go(s.server.OperatorURL() + "/log?type=rollout.*")
	p.WaitText("rollout.opened")
	p.Until("no other type to be shown", `[...document.querySelectorAll(".events li > button")].every((b) => b.innerText.includes(" rollout."))`)
	p.Until("the form to say so", `document.querySelector("select[name=type]").value === "rollout.*"`)
}

func settingsFlow(t *testing.T, s *story, p *browse.Page) {
	p.In("region", "Server").WaitText("r2, version 2")
	p.In("region", "Server").WaitText("none is marked: steady server backup")
	p.In("region", "Server").WaitText("Chain whole: records 1 to")
	p.In("region", "Server").WaitText("Takes in and grants")
	p.In("region", "What ends").WaitText("timestamp stable")
	made := s.tokenOf("viewer", 0)
	p.In("region", "People and their tokens").WaitText("tester viewer")
	testkit.Must(t, s.op.RevokeToken(s.ctx(), made.ID, false))
}

// Who follows a link to what is not there is led to what is.
func nowhereFlow(_ *testing.T, _ *story, p *browse.Page) {
	p.Wait("heading", "There is no such page")
	p.In("main", "").Choose("link", "The fleet")
	p.Wait("heading", "Fleet…")
}

// A forecast begins by itself, and again with every setting; its address has them all.
func simulateFlow(t *testing.T, s *story, p *browse.Page) {
	p.WaitText("An activation fails: 50 %")
	p.In("region", "How it would go").WaitText("runs came to an end")
	p.WaitText("steady release simulate --accepted --failure-rate 50% --offline 0%")
}
