package api_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/testkit"
)

// blockedFacts are those that the gates read which take no arguments.
type blockedFacts struct{ gate.Facts }

func (blockedFacts) Freeze() (string, clock.Instant, string, clock.Instant) {
	return "h", 2, "disk swap", 1
}
func (blockedFacts) Quarantine() (channel, bundle, reason, own string) { return "c", "b", "failed", "" }
func (blockedFacts) Wave() (string, int, string, int, string, clock.Instant) {
	return "c@1", 1, "rest", 0, "canary", 0
}

var pathParameter = regexp.MustCompile(`\{[a-z]+\}`)

// TestRemediesAreOperations: what a gate says that an operator can do is an operation of the API,
// with as many names as its path has; and doing it clears the block.
func TestRemediesAreOperations(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one", waves: "    waves:\n      - {name: first, selector: {hosts: [h-0000]}}\n      - {name: rest, selector: {all: true}}\n"})
	agents := w.agents(2)
	_, raw := w.request("", "GET", operator.RouteOpenAPI, "")
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string `json:"operationId"`
		} `json:"paths"`
	}
	testkit.Must(t, json.Unmarshal([]byte(raw), &doc))
	paths := map[string]string{}
	for path, methods := range doc.Paths {
		for _, m := range methods {
			paths[m.OperationID] = path
		}
	}
	path := func(r gate.Remedy) string {
		p, next := paths[r.Operation], 0
		p = pathParameter.ReplaceAllStringFunc(p, func(string) string { next++; return r.Args[min(next, len(r.Args))-1] })
		if p == "" || next != len(r.Args) {
			t.Fatalf("%+v is no operation: %q takes %d names", r, paths[r.Operation], next)
		}
		return p
	}
	seen := map[string]bool{}
	for _, b := range []*gate.Block{
		gate.CheckOverlay(gate.RolloutStatus{Rollout: "c@1", Halted: true}), gate.CheckOverlay(gate.RolloutStatus{Rollout: "c@1", Reverting: true, Ended: true}),
		gate.CheckBehind("h", 0, 0), gate.CheckIdentity("h", gate.Leaving, "gone"), gate.CheckSoak("c@1", "canary", 2, 1),
		gate.CheckFreeze(blockedFacts{}, true), gate.CheckQuarantine(blockedFacts{}, true), gate.CheckWave(blockedFacts{}, true),
	} {
		for _, r := range b.Remedies {
			if r.Operation != "" {
				seen[r.Operation] = true
				path(r)
			}
		}
	}
	if len(seen) != 8 {
		t.Errorf("only %v are operations", seen)
	}

	testkit.Must(t, w.op.Operate(w.ctx(), "pause", "stable@r1", "lunch"))
	paused := testkit.Value(w.op.Why(w.ctx(), agents[1].name))(t).Block
	if paused == nil || paused.Code != gate.Overlay || len(paused.Remedies) != 1 {
		t.Fatalf("the host of a paused rollout is held by %+v", paused)
	}
	secret := strings.TrimSpace(string(testkit.Value(os.ReadFile(w.server.AdminTokenFile()))(t)))
	if status, body := w.request(secret, "POST", path(paused.Remedies[0]), `{"reason":"back"}`); status != 204 {
		t.Fatalf("%d %s", status, body)
	}
	held := testkit.Value(w.op.Why(w.ctx(), agents[1].name))(t).Block
	if held == nil || held.Code != gate.Wave || held.Remedies[0].Wave != "first" {
		t.Fatalf("resumed, the host of the second wave is held by %+v", held)
	}
	show := testkit.Value(w.op.Rollout(w.ctx(), "stable@r1"))(t)
	if len(show.Gates) != 6 || show.Gates[1].Rule != "in-flight" {
		t.Errorf("the rollout's ladder is %+v", show.Gates)
	}
}
