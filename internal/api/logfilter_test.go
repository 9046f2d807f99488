package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

// Whatever a filter asks for, its pages, read from either end, have the records that are like that:
// each once, in order.
func TestFiltersOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 3, content: "one"})
	stop := runAgents(t, w.agents(3)...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "terminal" })
	stop()
	testkit.Value(w.client(w.tokenOf("operator", 0).Secret).Freeze(w.ctx(), hostName(1), clock.Hour, "night"))(t)
	all := testkit.Value(w.op.Events(w.ctx(), operatorAll))(t).Events
	middle := all[len(all)/2].At
	rollout := func(e operator.Event) bool { return strings.HasPrefix(e.Type, "rollout.") }
	byTester := func(e operator.Event) bool {
		var b struct{ Actor string }
		testkit.Must(t, json.Unmarshal(e.Body, &b))
		return strings.HasPrefix(b.Actor, "tester")
	}
	for name, c := range map[string]struct {
		q    operator.EventQuery
		like func(operator.Event) bool
	}{
		"all":     {operator.EventQuery{}, func(operator.Event) bool { return true }},
		"a type":  {operator.EventQuery{Types: []string{"host.enrolled"}}, func(e operator.Event) bool { return e.Type == "host.enrolled" }},
		"a group": {operator.EventQuery{Types: []string{"rollout.*"}}, rollout},
		"two":     {operator.EventQuery{Types: []string{"rollout.*", "host.enrolled"}}, func(e operator.Event) bool { return rollout(e) || e.Type == "host.enrolled" }},
		"actor":   {operator.EventQuery{Actor: "tester"}, byTester},
		"from":    {operator.EventQuery{From: middle}, func(e operator.Event) bool { return e.At >= middle }},
		"until":   {operator.EventQuery{Until: middle}, func(e operator.Event) bool { return e.At <= middle }},
		"of a rollout": {operator.EventQuery{Types: []string{"grant.*"}, About: operator.AboutRollout("stable@r1")},
			func(e operator.Event) bool { return strings.HasPrefix(e.Type, "grant.") }},
		"of a host": {operator.EventQuery{Types: []string{"host.enrolled"}, About: operator.AboutHost(hostName(1))},
			func(e operator.Event) bool { return e.Type == "host.enrolled" && e.Subject.Name == hostName(1) }},
	} {
		var want []uint64
		for _, e := range all {
			if c.like(e) {
				want = append(want, e.Seq)
			}
		}
		if len(want) == 0 {
			t.Errorf("%s: the log has nothing like that", name)
		}
		for _, limit := range []int{1, 7, 1000} {
			c.q.Limit = limit
			if got := w.pages(c.q); !slices.Equal(got, want) {
				t.Errorf("%s by %d: %v, want %v", name, limit, got, want)
			}
			c.q.Tail = true
			if got := w.pages(c.q); !slices.Equal(got, want) {
				t.Errorf("%s by %d, from the end: %v, want %v", name, limit, got, want)
			}
			c.q.Tail = false
		}
	}
	if _, err := w.op.Events(w.ctx(), operator.EventQuery{Types: []string{"rollout.opend"}}); err == nil || !strings.Contains(err.Error(), "rollout.opened") {
		t.Errorf("a type that does not exist: %v", err)
	}
}

// pages are the sequences of all that a query picks, page by page.
func (w *world) pages(q operator.EventQuery) (all []uint64) {
	for {
		page := testkit.Value(w.op.Events(w.ctx(), q))(w.t)
		var got []uint64
		for _, e := range page.Events {
			got = append(got, e.Seq)
		}
		if q.Tail {
			all = append(got, all...)
		} else {
			all = append(all, got...)
		}
		switch {
		case q.Tail && page.Earlier == 0, !q.Tail && len(got) == 0:
			return all
		case q.Tail:
			q.At = page.Earlier
		default:
			q.After = page.Next
		}
	}
}

// The server says how far it held each record's hash against the one before.
func TestChainIsCheckedAsItGrows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one"})
	secret := w.adminSecret()
	var c control.Chain
	w.until("the chain to be checked to the end", func() bool {
		_, raw := w.request(secret, "GET", operator.Prefix+"/history/chain", "")
		testkit.Must(t, json.Unmarshal([]byte(raw), &c))
		return c.Through == c.Last
	})
	last := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{After: c.Through - 1, Limit: 1}))(t).Events[0]
	if c.Broken != "" || c.First != 1 || c.At == 0 || c.Hash != last.Hash {
		t.Errorf("the chain is %+v; record %d has %s", c, last.Seq, last.Hash)
	}
}
