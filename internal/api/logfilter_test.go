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

// Whatever a filter asks for, its pages, read from either end, and the stream have the records that
// are like that: each once, in order, at the instant of the server's record with which it was
// committed. The clocks of these hosts are in 1970.
func TestFiltersOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 3, content: "one"})
	stop := runAgents(t, w.agents(3)...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	testkit.Value(w.client(w.tokenOf("operator", 0).Secret).Freeze(w.ctx(), hostName(1), clock.Hour, "night"))(t)
	all := testkit.Value(w.op.Events(w.ctx(), operatorAll))(t).Events
	committed := map[uint64]clock.Instant{}
	for i, at := len(all)-1, clock.Instant(0); i >= 0; i-- {
		if all[i].HostSeq == 0 {
			at = all[i].At
		}
		committed[all[i].Seq] = at
	}
	middle := committed[all[len(all)/2].Seq]
	for _, m := range testkit.Value(w.server.Control().Timeline(w.ctx()))(t).Marks {
		if m.At != committed[m.Seq] {
			t.Errorf("the mark of record %d is of %s, which was committed at %s", m.Seq, m.At, committed[m.Seq])
		}
	}
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
		"from":    {operator.EventQuery{From: middle}, func(e operator.Event) bool { return committed[e.Seq] >= middle }},
		"until":   {operator.EventQuery{Until: middle}, func(e operator.Event) bool { return committed[e.Seq] <= middle }},
		"of a rollout": {operator.EventQuery{Types: []string{"grant.*"}, About: operator.AboutRollout("stable@r1")},
			func(e operator.Event) bool { return strings.HasPrefix(e.Type, "grant.") }},
		"reported in a rollout": {operator.EventQuery{Types: []string{"host.stepped"}, About: operator.AboutRollout("stable@r1"), Until: all[len(all)-1].At},
			func(e operator.Event) bool {
				return e.Type == "host.stepped" && strings.Contains(string(e.Body), "stable@r1")
			}},
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
			for _, c.q.Tail = range []bool{false, true} {
				got := w.pages(c.q)
				if !slices.Equal(seqs(got), want) {
					t.Errorf("%s by %d, from the end: %t: %v, want %v", name, limit, c.q.Tail, seqs(got), want)
				}
				atCommit(t, name, got, committed)
			}
		}
		c.q.Tail = false
		var got []operator.Event
		err := w.op.Follow(w.ctx(), c.q, func(e operator.Event) error {
			if got = append(got, e); e.Seq == want[len(want)-1] {
				return errDone
			}
			return nil
		})
		if err != errDone || !slices.Equal(seqs(got), want) {
			t.Errorf("the stream of %s: %v, want %v: %v", name, seqs(got), want, err)
		}
		atCommit(t, name, got, committed)
	}
	if _, err := w.op.Events(w.ctx(), operator.EventQuery{Types: []string{"rollout.opend"}}); err == nil || !strings.Contains(err.Error(), "rollout.opened") {
		t.Errorf("a type that does not exist: %v", err)
	}
}

func seqs(events []operator.Event) (out []uint64) {
	for i := range events {
		out = append(out, events[i].Seq)
	}
	return out
}

func atCommit(t *testing.T, name string, events []operator.Event, committed map[uint64]clock.Instant) {
	t.Helper()
	for i := range events {
		if e := &events[i]; e.Committed() != committed[e.Seq] || (e.Received == 0) != (e.HostSeq == 0) {
			t.Errorf("%s: %s, record %d, was committed at %s and shows %s", name, e.Type, e.Seq, committed[e.Seq], e.Committed())
		}
	}
}

// pages are all that a query picks, page by page.
func (w *world) pages(q operator.EventQuery) (all []operator.Event) {
	for {
		page := testkit.Value(w.op.Events(w.ctx(), q))(w.t)
		if q.Tail {
			all = append(page.Events, all...)
		} else {
			all = append(all, page.Events...)
		}
		switch {
		case q.Tail && page.Earlier == 0, !q.Tail && len(page.Events) == 0:
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
