package control

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/wire"
)

// KindServer is the kind of items about the server itself, which are not in the log.
const KindServer = "server"

// Attention is the inbox: what of all needs a person, the worst first.
func (c *Control) Attention(ctx context.Context) (list []status.InboxItem, err error) {
	own := c.serverItems(ctx)
	err = c.View(ctx, func(s *plan.State) { list = c.inbox(own) })
	return list, err
}

// inbox is Attention with what the server finds of itself. It may only be used by what View runs.
func (c *Control) inbox(own []status.Item) []status.InboxItem {
	now := c.now()
	if names, newest := c.state.Plan.LackedRelease(); len(names) > 0 {
		own = append(own, serverItem("release", prose.Count(len(names), "host")+prose.Verb(len(names), " runs", " run")+
			" a release that this server lacks since its log was restored: "+prose.Names(names, 5)+", version "+strconv.FormatUint(newest.Version, 10)+" at most; push the newest release with --restored", status.Releaser, status.Do(status.ReleasePublish)))
	}
	return c.state.Listed(c.Roster(), own, now)
}

// checkRemedies are the steps of readiness checks that have one of their own.
var checkRemedies = map[string]status.Verb{"safe-mode": status.SafeModeShow, "space": status.Expiries}

// itemKinds are the kinds of items of the inbox, as they are counted.
var itemKinds = append([]string{plan.KindHost, plan.KindRollout, drift.KindNode, drift.KindDrift, session.KindSession, warning.KindSource, warning.KindExpiry, KindServer, ownKinds}, nodeconfig.KindNames()...)

// ownKinds counts the objects of all kinds that drivers have words of their own for: series are bounded.
const ownKinds = "object"

// countedAs is the kind as which an item is counted.
func countedAs(kind string) string {
	if slices.Contains(itemKinds, kind) {
		return kind
	}
	return ownKinds
}

// serverItems are what the server finds of itself, besides what ends or fills up.
func (c *Control) serverItems(ctx context.Context) (items []status.Item) {
	for _, p := range health.Readiness(c.readyFacts(ctx)) {
		next, known := checkRemedies[p.Check]
		if !known {
			next = status.Doctor
		}
		items = append(items, serverItem(p.Check, p.Message+"; "+p.Next, status.ServerOwner, status.Do(next)))
	}
	if w := c.AuditWarnings(); len(w) > 0 { // the first of them: steady doctor has all
		items = append(items, serverItem("audit", w[0], status.ServerOwner, status.Do(status.Doctor)))
	}
	return items
}

func serverItem(name, reason string, who status.Actor, next status.Remedy) status.Item {
	return status.Item{Kind: KindServer, Name: name, Summary: status.Summary{Word: "not ready", Level: status.Critical, Reason: reason, Who: who, Next: []status.Remedy{next}}}
}

// Acknowledge notes that a person knows of an item: until an instant, or, where that is zero, as long
// as its cause stays the same.
func (c *Control) Acknowledge(ctx context.Context, kind, name string, until clock.Instant, note, actor string) error {
	own := c.serverItems(ctx)
	err := c.record(ctx, c.operations, "", func(s *server.State, now clock.Instant) ([]event.Event, error) {
		ev, err := s.Inbox.Acknowledge(c.inbox(own), kind+"/"+name, until, note, actor, now)
		if r, refused := errors.AsType[*status.Refusal](err); refused {
			if r.Unknown {
				return nil, wire.Refuse(wire.ErrNotFound, "%s", r.Message)
			}
			return nil, wire.Refuse(wire.ErrConflict, "%s", r.Message)
		}
		return []event.Event{ev}, nil
	})
	if err == nil && kind == session.KindSession {
		err = c.sessions.AcknowledgeAll(ctx, name, note, actor)
	}
	return err
}

// SessionList is all sessions that are kept, in the order of their names.
func (c *Control) SessionList(ctx context.Context) ([]session.Status, error) {
	return c.sessions.List(ctx)
}

// SessionList is all sessions as they were.
func (m *Moment) SessionList(ctx context.Context) (out []session.Status, err error) {
	failed := m.View(ctx, func(*plan.State) { out, err = session.List(m.read.state.Rows, m.now.Time()) })
	return out, errors.Join(failed, err)
}

// Attention is the inbox as it was, without what only the running server knows.
func (m *Moment) Attention(ctx context.Context) (list []status.InboxItem, err error) {
	return list, m.View(ctx, func(*plan.State) { list = m.read.state.Listed(m.roster, nil, m.now) })
}
