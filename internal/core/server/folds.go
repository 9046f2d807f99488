package server

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// planFold is the plan: rollouts, hosts and grants.
type planFold struct {
	*State
	docs plan.Documents
	due  clock.Instant
}

func (f *planFold) Name() string                       { return "plan" }
func (f *planFold) Apply(e event.Entry) error          { return f.Plan.Apply(e) }
func (f *planFold) Due() clock.Instant                 { return f.due }
func (f *planFold) Snapshot() (json.RawMessage, error) { return json.Marshal(f.Plan) }

func (f *planFold) applyDecoded(e event.Entry, ev event.Event) error {
	return f.Plan.ApplyEvent(e, ev)
}

func (f *planFold) Next(now clock.Instant) ([]event.Entry, error) {
	p, err := plan.Next(f.Plan, now)
	if err != nil {
		return nil, err
	}
	f.due = p.Next
	return p.Events, nil
}

func (f *planFold) Restore(raw json.RawMessage) (err error) {
	f.Plan, err = plan.Restore(raw, f.docs)
	return err
}

// managedFold is what the server may hold of hosts without a release.
type managedFold struct{ *State }

func (f managedFold) Name() string              { return "managed" }
func (f managedFold) Apply(e event.Entry) error { return f.Managed.Apply(e) }
func (f managedFold) Due() clock.Instant        { return f.Managed.Due() }

func (f managedFold) Next(now clock.Instant) ([]event.Entry, error) {
	var entries []event.Entry
	for _, x := range f.Managed.Next(now) {
		e, err := event.NewEntry(now, event.HostSubject(x.Host), x.Event)
		if err == nil {
			err = f.Managed.Apply(e)
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (f managedFold) Snapshot() (json.RawMessage, error) { return json.Marshal(f.Managed) }
func (f managedFold) Restore(raw json.RawMessage) error {
	var m *managed.State
	err := json.Unmarshal(raw, &m)
	f.State.Managed = managed.Restore(m)
	return err
}

// healthFold is what hosts report of their resources. It decides before the plan, which
// reads what hosts are degraded for.
type healthFold struct{ *State }

func (f healthFold) Name() string                       { return "health" }
func (f healthFold) Apply(e event.Entry) error          { return f.Health.Apply(e) }
func (f healthFold) Due() clock.Instant                 { return f.Health.Due() }
func (f healthFold) Snapshot() (json.RawMessage, error) { return json.Marshal(f.Health) }

func (f healthFold) Next(now clock.Instant) ([]event.Entry, error) {
	facts := func(host string) health.Facts { return f.Plan.HealthFacts(host, now) }
	var entries []event.Entry
	for _, c := range health.Next(f.Health, facts, now) {
		e, err := event.NewEntry(now, event.HostSubject(c.Host), c.Event)
		if err == nil {
			err = f.Health.Apply(e)
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func (f healthFold) Restore(raw json.RawMessage) error {
	var h *health.State
	err := json.Unmarshal(raw, &h)
	f.State.Health = health.Restore(h)
	return err
}

// nodesFold is what the server keeps of nodes. No other fold reads its events, and it reads
// no others.
type nodesFold struct{ *State }

func (f nodesFold) Name() string                       { return "nodes" }
func (f nodesFold) Apply(e event.Entry) error          { return f.Nodes.Apply(e) }
func (f nodesFold) Due() clock.Instant                 { return f.Nodes.Due() }
func (f nodesFold) Snapshot() (json.RawMessage, error) { return json.Marshal(f.Nodes) }

func (f nodesFold) Next(now clock.Instant) ([]event.Entry, error) {
	return nodeEntries(f.Nodes.Next(now), now)
}

func (f nodesFold) Restore(raw json.RawMessage) error {
	var n *drift.State
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &n); err != nil {
			return err
		}
	}
	f.State.Nodes = drift.Restore(n)
	return nil
}

// young: a snapshot from before there were nodes has nothing of them.
func (nodesFold) young() {}

// rowsFold is the rows of sessions. It decides nothing: their controller does, and records it.
type rowsFold struct{ *State }

func (f rowsFold) Name() string                              { return "rows" }
func (f rowsFold) Due() clock.Instant                        { return 0 }
func (f rowsFold) Next(clock.Instant) ([]event.Entry, error) { return nil, nil }
func (f rowsFold) Snapshot() (json.RawMessage, error)        { return json.Marshal(f.Rows.Snapshot()) }

// young: a snapshot from before there were sessions has nothing of them.
func (rowsFold) young() {}

func (f rowsFold) Apply(e event.Entry) error {
	if e.Type != (event.ResourceRecorded{}).EventType() {
		return nil
	}
	ev, err := event.Decode(e)
	if err != nil {
		return err
	}
	return f.applyDecoded(e, ev)
}

func (f rowsFold) applyDecoded(_ event.Entry, ev event.Event) error {
	if ev, of := ev.(event.ResourceRecorded); of {
		return f.fold(ev.Write)
	}
	return nil
}

func (f rowsFold) fold(raw json.RawMessage) error {
	var w engine.Write
	if err := json.Unmarshal(raw, &w); err != nil {
		return err
	}
	before := make([]engine.Row, len(w.Rows))
	for i := range w.Rows {
		before[i], _ = f.Rows.Get(w.Rows[i].Ref) // the zero row where there is none
	}
	if err := f.Rows.Fold(w); err != nil {
		return err
	}
	for i := range w.Rows {
		row, err := f.Rows.Get(w.Rows[i].Ref)
		if err != nil {
			continue
		}
		f.Booked.Note(&row)
		f.Troubles.Note(&row)
		if !session.Alike(&before[i], &row) {
			f.inbox.noteSession(session.Of(row.Ref))
		}
	}
	for _, ref := range w.Purged {
		f.Booked.Drop(ref)
		f.Troubles.Drop(ref)
		f.inbox.noteSession(session.Of(ref))
	}
	return nil
}

func (f rowsFold) Restore(raw json.RawMessage) error {
	f.State.Rows, f.State.Booked = engine.NewTable(), new(session.Bookings)
	f.State.Troubles = session.Troubles{}
	if len(raw) == 0 {
		return nil
	}
	return f.fold(raw)
}

// nodeEntries makes entries of events that the fold of nodes decided, and has folded.
func nodeEntries(events []event.OfNodes, now clock.Instant) ([]event.Entry, error) {
	entries := make([]event.Entry, 0, len(events))
	for _, ev := range events {
		e, err := event.NewEntry(now, ev.On(), ev)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}
