package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/replay/history"
)

// feed has one stretch of the log happen in the other course of events.
func (x *rerun) feed(u *unit) {
	switch u.kind {
	case decided:
		x.planned, x.ticking = nil, true
		x.w.Tick()
		x.ticking = false
		x.compare(u.records, x.planned)
	case reported:
		x.report(u)
	case claimed:
		x.claim(u)
	case present:
		online := u.records[0].Type == (event.HostReturned{}).EventType()
		x.w.Commit(plan.Presence(x.w.State, u.host, online, lastSeen(u), x.w.Now))
	case verb:
		x.verb(u)
	case other:
		x.record(u)
	}
	x.w.Owe()
}

// lastSeen is when a silent host was last heard from.
func lastSeen(u *unit) clock.Instant {
	var e event.HostSilent
	_ = json.Unmarshal(u.records[0].Body, &e) // one that returned has none
	return e.LastSeen
}

// unfit notes what no longer applies.
func (x *rerun) unfit(seq uint64, format string, a ...any) {
	if x.out.Unfit++; x.out.Unfit == 1 {
		x.out.UnfitExample = fmt.Sprintf("event %d: %s", seq, fmt.Sprintf(format, a...))
	}
}

// ours returns the grant here that a recorded one stands for, or "".
func (x *rerun) ours(name, grant string) string {
	if g := x.grants[grant]; g != "" {
		return g
	}
	h := x.w.State.Hosts[name]
	if h != nil && (h.Grant != nil && h.Grant.ID == grant || h.Machine.Grant == grant) {
		return grant // given before anything was changed
	}
	return ""
}

// record takes an event from outside as it was.
func (x *rerun) record(u *unit) {
	r := &u.records[0]
	ev, err := event.Decode(r.Entry)
	if err != nil {
		x.fail(err)
		return
	}
	if _, again := ev.(event.HostEnrolled); again { // a new life follows its own record
		x.rejoin(u.host)
		delete(x.refused, u.host)
	}
	entries, err := plan.Record(x.w.State, r.Host, x.w.Now, ev)
	if err != nil {
		x.unfit(r.Seq, "%v", err)
		return
	}
	x.w.Commit(entries, nil)
}

// claim has a host that follows its record claim what it claimed.
func (x *rerun) claim(u *unit) {
	if x.w.Takes(u.host) {
		return
	}
	ev, err := event.Decode(u.records[0].Entry)
	if err != nil {
		x.fail(err)
		return
	}
	said, _ := ev.(event.GrantClaimed)
	grant := x.ours(u.host, said.Grant)
	if grant == "" {
		x.depart(u.host, "the grant that it claimed was not given here")
		return
	}
	entries, err := plan.Claim(x.w.State, u.host, grant, x.w.Now)
	if refused := (*plan.ClaimRefusedError)(nil); errors.As(err, &refused) {
		x.depart(u.host, "its claim is refused here: "+refused.Reason)
		return
	}
	x.w.Commit(entries, err)
}

// report has a host that follows its record say what it said, as far as that fits.
func (x *rerun) report(u *unit) {
	h := x.w.State.Hosts[u.host]
	if x.w.Takes(u.host) || h == nil || len(u.records) == 0 {
		return
	}
	if h.Incarnation != u.records[0].Incarnation {
		x.unfit(u.first, "it is of another life of host %s", u.host)
		return
	}
	var batch []event.Entry
	m := h.Machine
	for i := range u.records {
		e := u.records[i].Entry
		why := ""
		if e, why = x.fit(u, i, e, &m); why != "" {
			x.ingest(u, batch)
			x.depart(u.host, why)
			return
		}
		if e.Type != "" {
			batch = append(batch, e)
		}
	}
	x.ingest(u, batch)
	if now := stand(x.w.State, x.docs, u.host); now != u.after {
		x.depart(u.host, now.other(u.after))
	}
}

// other says what is otherwise than it was.
func (s standing) other(was standing) string {
	if s.words() != was.words() || s.current != was.current {
		return "it is " + s.words() + " here and was " + was.words() + " in the record"
	}
	switch {
	case s.due == 0 || was.due == 0:
		return "it waits for another instant here than in the record"
	case s.due > was.due:
		return "it waits " + s.due.Sub(was.due).String() + " longer here than in the record"
	}
	return "it waits " + was.due.Sub(s.due).String() + " less here than in the record"
}

func (s standing) words() string {
	words := string(s.phase)
	if words == "" {
		words = "new"
	}
	if s.reverting {
		words += " and on its way back"
	}
	return words
}

// fit returns a host's event as it is said here, with no type if it is of no use,
// or why the host leaves its record. The machine steps along.
func (x *rerun) fit(u *unit, i int, e event.Entry, m *host.State) (event.Entry, string) {
	ev, err := event.Decode(e)
	if err != nil {
		x.fail(err)
		return e, err.Error()
	}
	switch ev := ev.(type) {
	case event.HostStepped:
		return x.step(u, i, e, ev, m)
	case event.GrantDeclined:
		g := x.ours(u.host, ev.Grant)
		if g == "" && !x.v.gave(u.host, ev.Grant, u.first) {
			return e, "" // a restored log had forgotten it
		}
		if g == "" {
			x.unfit(u.records[i].Seq, "the grant that it declines was not given here")
			return event.Entry{}, ""
		}
		return rewrite(e, ev.Grant != g, event.GrantDeclined{Grant: g, Code: ev.Code, Detail: ev.Detail}), ""
	case event.RepairOver:
		if ev.Grant == "" {
			return e, ""
		}
		g := x.ours(u.host, ev.Grant)
		if g == "" {
			return e, "" // it closes nothing here
		}
		return rewrite(e, ev.Grant != g, event.RepairOver{Grant: g, OK: ev.OK, Detail: ev.Detail}), ""
	}
	return e, ""
}

// step checks that the machine takes a recorded step as it did.
func (x *rerun) step(u *unit, i int, e event.Entry, ev event.HostStepped, m *host.State) (event.Entry, string) {
	in, err := ev.Taken()
	if err != nil {
		x.fail(err)
		return e, err.Error()
	}
	p := planOf(x.docs, ev.Manifest, u.host)
	if p == nil {
		p = &fleet.HostPlan{}
	}
	renamed := false
	switch v := in.(type) {
	case host.Claimed:
		if g := x.ours(u.host, v.Grant); g != "" && g != v.Grant {
			v.Grant, renamed = g, true
		}
		in = v
	case host.RevertClaimed:
		if g := x.ours(u.host, v.Grant); g != "" && g != v.Grant {
			v.Grant, renamed = g, true
		}
		in = v
	}
	next, _, err := host.Step(*m, in, e.At, p)
	if !u.diverge[i] && (err != nil || next.Phase != ev.To) {
		if err != nil {
			return e, fmt.Sprintf("its recorded step %s does not apply here: %v", ev.Input, err)
		}
		return e, fmt.Sprintf("its recorded step %s leads to %s here, not to %s", ev.Input, next.Phase, ev.To)
	}
	if err == nil {
		*m = next
	}
	if u.diverge[i] {
		m.Phase = ev.To
	}
	if !renamed {
		return e, ""
	}
	if ev.Data, err = host.EncodeInput(in); err != nil {
		x.fail(err)
	}
	return rewrite(e, true, ev), ""
}

func rewrite(e event.Entry, differs bool, ev event.Event) event.Entry {
	if !differs {
		return e
	}
	if again, err := event.NewEntry(e.At, e.Host, ev); err == nil {
		e.Body = again.Body
	}
	return e
}

// ingest has the server take events in their place in the host's chain here.
func (x *rerun) ingest(u *unit, batch []event.Entry) {
	if len(batch) == 0 {
		return
	}
	seq := x.w.State.Hosts[u.host].Seq
	for i := range batch {
		seq++
		batch[i].HostSeq = seq
	}
	head := event.HostHead{Incarnation: batch[0].Incarnation, Seq: seq, Hash: u.hash, Signature: u.signature}
	x.w.Commit(plan.Ingest(x.w.State, u.host, batch, head, x.w.Now))
}

// check refuses changes of what no manifest has.
func (c *Change) check(h *history.History) error {
	channels, selectors := map[string]bool{}, map[string]bool{}
	for _, m := range h.Manifests { // order-free: it only fills sets
		channels[m.Header.Channel] = true
		for _, b := range m.Header.Budgets {
			selectors[b.Selector] = true
		}
	}
	for _, e := range c.Policy {
		if e.Channel != "" && !channels[e.Channel] {
			return &ChangeError{fmt.Sprintf("no rollout of the log is of channel %q; there are %s", e.Channel, strings.Join(slices.Sorted(maps.Keys(channels)), ", "))}
		}
	}
	for _, s := range slices.Sorted(maps.Keys(c.Budgets)) {
		if !selectors[s] {
			return &ChangeError{fmt.Sprintf("no rollout of the log has a budget %q; there are: %s", s, strings.Join(slices.Sorted(maps.Keys(selectors)), ", "))}
		}
	}
	return nil
}
