package api_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/testkit"
)

// pastRoutes are those that answer about a record of the log as well.
var pastRoutes = []string{"/status", "/rollouts", "/rollouts?all=true", "/rollouts/stable@r1", "/fleet", "/host-list?sort=-state", "/host-list?rollout=stable@r1", "/hosts/h-0000", "/hosts/h-0001/why",
	"/events?after=2&limit=9", "/events?tail=true&limit=9", "/events?tail=true&limit=4&about=host/h-0000", "/events?after=1&limit=900&about=host/h-0001"}

// notOfTheLog are the members of answers that a record does not tell, or that are estimates from the instant of the
// question on.
var notOfTheLog = []string{"now", "lastSeen", "version", "versions", "sources", "expiries", "warnings", "agentVersion", "server", "accepted", "comes", "ends", "turn"}

// without takes members out of an answer, wherever they are.
func without(x any, names []string) any {
	switch x := x.(type) {
	case map[string]any:
		if x["comes"] != nil || x["ends"] != nil {
			delete(x, "message") // of the estimate
		}
		for _, name := range names {
			delete(x, name)
		}
		for k := range x {
			x[k] = without(x[k], names)
		}
	case []any:
		x = slices.DeleteFunc(x, func(v any) bool { // what the server itself waits for
			g, is := v.(map[string]any)
			return is && g["gate"] == "restore"
		})
		for i := range x {
			x[i] = without(x[i], names)
		}
		return x
	}
	return x
}

func (w *world) asked(secret, path string) any {
	w.t.Helper()
	status, raw := w.request(secret, "GET", "/v1/operator"+path, "")
	if status != 200 {
		w.t.Fatalf("%s: %d %s", path, status, raw)
	}
	var x any
	testkit.Must(w.t, json.Unmarshal([]byte(raw), &x))
	return without(x, notOfTheLog)
}

// TestPastAnswersAreThoseOfThatTime: what routes answered at a record they answer about it later,
// forwards and backwards, after a restart, and with damaged states on disk.
func TestPastAnswersAreThoseOfThatTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *api.Options) { o.Control.SnapshotEvery = 15 })
	secret := strings.TrimSpace(string(testkit.Value(os.ReadFile(w.server.AdminTokenFile()))(t)))
	var seqs []uint64
	answers := map[string]any{}
	note := func() {
		for { // nothing may be committed meanwhile
			before := testkit.Value(w.op.Status(w.ctx()))(t).Seq
			for _, route := range pastRoutes {
				answers[fmt.Sprint(before, route)] = w.asked(secret, route)
			}
			if testkit.Value(w.op.Status(w.ctx()))(t).Seq == before {
				seqs = append(seqs, before)
				return
			}
		}
	}
	w.release("r1", plan{hosts: 2, content: "one"})
	note()
	agents := w.agents(2)
	note()
	stop := runAgents(t, agents...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	note()
	w.release("r2", plan{hosts: 2, content: "two", waves: "    waves:\n      - {name: first, selector: {hosts: [h-0000]}}\n      - {name: rest, selector: {all: true}}\n"})
	testkit.Must(t, w.op.Operate(w.ctx(), "pause", "stable@r2", "lunch"))
	note()
	check := func(when string, order ...int) {
		t.Helper()
		for _, i := range order {
			for _, route := range pastRoutes {
				and := "?"
				if strings.Contains(route, "?") {
					and = "&"
				}
				got := w.asked(secret, fmt.Sprint(route, and, "at=", seqs[i]))
				if diff := cmp.Diff(answers[fmt.Sprint(seqs[i], route)], got); diff != "" {
					t.Errorf("%s, %s at record %d (-then +now):\n%s", when, route, seqs[i], diff)
				}
			}
		}
	}
	check("forwards and backwards", 0, 1, 2, 3, 2, 1, 0, 3)
	w.halt()
	w.start()
	check("after a restart", 3, 0, 2, 1)
	kept := testkit.Value(filepath.Glob(filepath.Join(w.opts.DataDir, "past", "*")))(t)
	if len(kept) < 2 {
		t.Errorf("kept are %v", kept)
	}
	w.halt()
	for _, file := range kept {
		testkit.Must(t, os.WriteFile(file, []byte("damaged"), 0o600))
	}
	w.start()
	check("with damaged states", 3, 1)

	end := testkit.Value(w.op.Status(w.ctx()))(t).Seq
	var line control.Timeline
	_, raw := w.request(secret, "GET", "/v1/operator/history/marks", "")
	testkit.Must(t, json.Unmarshal([]byte(raw), &line))
	opened := 0
	for _, m := range line.Marks {
		if m.Type == "rollout.opened" && m.Subject.Name != "" && m.At != 0 {
			opened++
		}
	}
	if line.First.Seq != 1 || line.First.At == 0 || line.Last.At < line.First.At || line.Through < end || opened != 2 {
		t.Errorf("the log is %s", raw)
	}
	if status, raw := w.request(secret, "GET", fmt.Sprint("/v1/operator/status?at=", end+1000), ""); status != 404 {
		t.Errorf("beyond the log: %d %s", status, raw)
	}
}
