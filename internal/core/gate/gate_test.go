package gate_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
)

func TestGates(t *testing.T) {
	const now clock.Instant = 1_700_000_000_000
	for name, c := range map[string]struct {
		block *gate.Block
		code  gate.Code // empty: open
		says  string
	}{
		"fresh":                    {gate.CheckFreshness("c", now, clock.Hour, now), "", ""},
		"fresh to the last moment": {gate.CheckFreshness("c", now-clock.Instant(clock.Hour), clock.Hour, now), "", ""},
		"stale":                    {gate.CheckFreshness("c", now-clock.Instant(clock.Hour)-1, clock.Hour, now), gate.Freshness, "refresh"},
		"never fresh":              {gate.CheckFreshness("c", 0, clock.Hour, now), gate.Freshness, "no signed timestamp"},
		"a clock behind":           {gate.CheckFreshness("c", now+5, clock.Hour, now), "", ""},

		"active":               {gate.CheckOverlay(gate.RolloutStatus{Rollout: "c@1", Phase: "active"}), "", ""},
		"paused":               {gate.CheckOverlay(gate.RolloutStatus{Rollout: "c@1", Paused: true, Reason: "lunch"}), gate.Overlay, "lunch"},
		"halted":               {gate.CheckOverlay(gate.RolloutStatus{Rollout: "c@1", Halted: true, Ended: true}), gate.Overlay, "resume or cancel"},
		"ended":                {gate.CheckOverlay(gate.RolloutStatus{Rollout: "c@1", Phase: "superseded", Ended: true}), gate.Overlay, "superseded"},
		"outdated":             {gate.CheckOverlay(gate.RolloutStatus{Rollout: "c@1", Phase: "active", Outdated: true, Paused: true}), gate.Overlay, "build, sign and push"},
		"reverting and paused": {gate.CheckOverlay(gate.RolloutStatus{Rollout: "c@1", Reverting: true, Paused: true}), gate.Overlay, "being reverted"},

		"not quarantined": {gate.CheckQuarantine(quarantineOf("c", "b", ""), true), "", ""},
		"quarantined":     {gate.CheckQuarantine(quarantineOf("c", "b", "failed on h"), true), gate.Quarantine, "failed on h"},

		"nothing active":       {gate.CheckQueue("c@2", "", "", 0), "", ""},
		"queued":               {gate.CheckQueue("c@2", "c@1", "active", 0), gate.Queue, "c@1"},
		"no predecessor":       {gate.CheckChannelEdges("c", nil), "", ""},
		"predecessor at rest":  {gate.CheckChannelEdges("c", []gate.Predecessor{{Channel: "lab"}}), "", ""},
		"predecessor active":   {gate.CheckChannelEdges("c", []gate.Predecessor{{Channel: "x"}, {Channel: "lab", Rollout: "lab@1", Phase: "active"}}), gate.ChannelEdge, "lab@1"},
		"predecessor halted":   {gate.CheckChannelEdges("c", []gate.Predecessor{{Channel: "lab", Rollout: "lab@1", Halted: true}}), gate.ChannelEdge, "resume or cancel"},
		"predecessor reverted": {gate.CheckChannelEdges("c", []gate.Predecessor{{Channel: "lab", Rollout: "lab@1", Reverted: true}}), gate.ChannelEdge, "rollout cancel lab@1"},
		"wave open":            {gate.CheckWave(waveOf("c@1", 1, "b", 1, "b", 0), true), "", ""},
		"wave passed":          {gate.CheckWave(waveOf("c@1", 0, "a", 1, "b", 0), true), "", ""},
		"wave to come":         {gate.CheckWave(waveOf("c@1", 2, "z", 1, "b", 0), true), gate.Wave, "wave z"},
		"no bound of canaries": {gate.CheckCanary(canaryOf("c@1", 7, 0, 0), true), "", ""},
		"canaries left":        {gate.CheckCanary(canaryOf("c@1", 1, 2, 0), true), "", ""},
		"canaries all tried":   {gate.CheckCanary(canaryOf("c@1", 2, 2, 0), true), gate.Canary, "2 of at most 2"},
		"there":                {gate.CheckPresence("h", gate.Absence{Presence: gate.Online}, now), "", ""},
		"away":                 {gate.CheckPresence("h", gate.Absence{Presence: gate.Offline}, now), gate.Presence, "offline"},
		"never came":           {gate.CheckPresence("h", gate.Absence{Presence: gate.NeverEnrolled}, now), gate.Presence, "steady token create h"},
		"silent in flight": {gate.CheckPresence("h", gate.Absence{Presence: gate.Silent, LastSeen: now.Add(-130 * clock.Second), GivenUp: now + 5}, now),
			gate.Presence, "silent for 2m10s; it is given up at " + (now + 5).String()},
		"given up and there":      {gate.CheckPresence("h", gate.Absence{Presence: gate.Overdue}, now), gate.Presence, "did not report in time"},
		"soak by the host's word": {gate.CheckSoak("c@1", "w", now+1, now), gate.Promotion, "by the server's clock"},
		"soak passed":             {gate.CheckSoak("c@1", "w", now, now), "", ""},
		"nobody enrolled":         {promotion(gate.Evidence{Wave: "w", Nobody: true, Absent: 3}), gate.Promotion, "none of the 3 hosts"},
		"half of them":            {promotion(gate.Evidence{Wave: "w", Hosts: 5, Converged: 2, Offline: 3, MinPercent: 50}), gate.Promotion, "3 of 5 hosts"},
		"edges met":               {gate.CheckHostEdges(edgesOf("h", nil, 0), true), "", ""},
		"edges unmet":             {gate.CheckHostEdges(edgesOf("h", []string{"db", "dc"}, 0), true), gate.HostEdge, "db, dc"},
		"frozen":                  {gate.CheckFreeze(freezeOf("h", now+1, "disk swap", now), true), gate.Freeze, "disk swap"},
		"freeze over":             {gate.CheckFreeze(freezeOf("h", now, "disk swap", now), true), "", ""},
		"never frozen":            {gate.CheckFreeze(freezeOf("h", 0, "", now), true), "", ""},
		"budget with a slot":      {gate.CheckBudgets([]gate.Use{{Selector: "web", Max: 2, InFlight: 1}}, true), "", ""},
		"budget full":             {gate.CheckBudgets([]gate.Use{{Selector: "all", Max: 9}, {Selector: "web", Max: 2, InFlight: 2}}, true), gate.Budget, "2 of at most 2"},
		"budget over full":        {gate.CheckBudgets([]gate.Use{{Selector: "web", Max: 1, InFlight: 2}}, true), gate.Budget, "web"},
		"no backoff":              {gate.CheckBackoff(backoffOf(0, "", "", now), true), "", ""},
		"backoff over":            {gate.CheckBackoff(backoffOf(now, "busy", "", now), true), "", ""},
		"offers that expired":     {gate.CheckBackoff(backoffOf(now+1, "", "", now), true), gate.Backoff, "let its last offer expire"},
		"declined":                {gate.CheckBackoff(backoffOf(now+1, "busy", "no room", now), true), gate.Backoff, "declined its last offer: busy: no room"},
		"nobody waits for it":     {gate.CheckBackoff(given{until: now + 1, a: 6, now: now}, true), gate.Backoff, "did not take 6 offers in a row, so that nobody waits for it, and let its last offer expire"},
		"backing off":             {gate.CheckBackoff(backoffOf(now+1, "prepare-failed", "no room", now), true), gate.Backoff, "no room"},
		"wave of nobody":          {promotion(gate.Evidence{Wave: "w"}), "", ""},
		"wave in flight":          {promotion(gate.Evidence{Wave: "w", Hosts: 2, Converged: 1, InFlight: 1}), gate.Promotion, "1 host in flight"},
		"wave waiting":            {promotion(gate.Evidence{Wave: "w", Hosts: 2, Converged: 1, Ready: 1}), gate.Promotion, "waiting"},
		"wave all offline":        {promotion(gate.Evidence{Wave: "w", Hosts: 2, Offline: 2}), gate.Promotion, "2 are offline"},
		"wave proven":             {promotion(gate.Evidence{Wave: "w", Hosts: 2, Converged: 1, Offline: 1}), "", ""},
		"wave short of evidence":  {promotion(gate.Evidence{Wave: "w", Hosts: 3, Converged: 1, Offline: 2, MinSoaked: 2}), gate.Promotion, "2 of 3 hosts"},
		"wave at target":          {promotion(gate.Evidence{Wave: "w", Hosts: 3, AtTarget: 3, MinSoaked: 2}), "", ""},
		"wave almost at target":   {promotion(gate.Evidence{Wave: "w", Hosts: 3, AtTarget: 2, Offline: 1, MinSoaked: 2}), gate.Promotion, "1 of 1 host "},
	} {
		switch {
		case c.code == "" && c.block != nil:
			t.Errorf("%s: blocks with %+v", name, *c.block)
		case c.code != "" && c.block == nil:
			t.Errorf("%s: does not block", name)
		case c.block != nil:
			all := c.block.Message + " " + c.block.WaitsFor + " " + c.block.ClearedBy
			if c.block.Code != c.code || !strings.Contains(all, c.says) {
				t.Errorf("%s: says %s: %s, expected %s: … %s", name, c.block.Code, all, c.code, c.says)
			}
			if c.block.Message == "" || c.block.WaitsFor == "" || c.block.ClearedBy == "" {
				t.Errorf("L5: %s: does not say everything: %+v", name, *c.block)
			}
		}
	}
	if b := gate.CheckBackoff(backoffOf(now+7, "busy", "", now), true); b.Earliest != now+7 {
		t.Errorf("a backoff that ends at %d says %d", now+7, b.Earliest)
	}
}

// TestS8PromotionIsNeverVacuous checks every count of a wave: it promotes only
// with nobody on the way or left to start, and with a converged host unless
// nothing in it changes.
func TestS8PromotionIsNeverVacuous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(label string) int { return rapid.IntRange(0, 3).Draw(t, label) }
		e := gate.Evidence{Wave: "w", AtTarget: n("atTarget"), Converged: n("converged"), InFlight: n("inFlight"), Ready: n("ready"), Offline: n("offline"), MinSoaked: n("minSoaked"), MinPercent: rapid.IntRange(0, 100).Draw(t, "percent"), Absent: n("absent"), Nobody: n("nobody") == 3}
		e.Hosts = e.AtTarget + e.Converged + e.InFlight + e.Ready + e.Offline + n("failed")
		changing := e.Hosts - e.AtTarget
		ok := e.InFlight == 0 && e.Ready == 0 && (changing == 0 || e.Converged >= 1) && e.Converged >= min(e.MinSoaked, changing) &&
			e.Converged*100 >= e.MinPercent*changing && !e.Nobody
		if b := promotion(e); (b == nil) != ok {
			t.Fatalf("%+v: %+v", e, b)
		}
	})
}

// TestS1BudgetGateCounts checks that a budget blocks exactly when any is full.
func TestS1BudgetGateCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		full := false
		var uses []gate.Use
		for range rapid.IntRange(0, 4).Draw(t, "budgets") {
			u := gate.Use{Selector: "s", Max: rapid.IntRange(1, 3).Draw(t, "max"), InFlight: rapid.IntRange(0, 4).Draw(t, "inFlight")}
			full = full || u.InFlight >= u.Max
			uses = append(uses, u)
		}
		if b := gate.CheckBudgets(uses, true); (b != nil) != full {
			t.Fatalf("%+v: %+v", uses, b)
		}
	})
}
