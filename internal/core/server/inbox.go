package server

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// inboxFold is what needs a person. It reads all other folds, and comes after them; it looks again at
// what an entry may have changed alone, and the first time at everything.
type inboxFold struct {
	*State
	seen                            bool // everything was looked at
	hosts, nodes, objects, sessions map[string]struct{}
	fleet, everyHost                bool
	due                             map[string]clock.Instant // by key, what needs a person by time alone
}

func (f *inboxFold) Name() string                       { return "inbox" }
func (f *inboxFold) Snapshot() (json.RawMessage, error) { return json.Marshal(f.Inbox) }

// young: a snapshot from before there was an inbox has nothing of it.
func (*inboxFold) young() {}

func (f *inboxFold) Restore(raw json.RawMessage) error {
	var s *status.Inbox
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &s); err != nil {
			return err
		}
	}
	f.Inbox, f.seen = status.RestoreInbox(s), false
	return nil
}

func (f *inboxFold) Apply(e event.Entry) error {
	switch e.Type {
	case event.AttentionOpened{}.EventType(), event.AttentionClosed{}.EventType(), event.AttentionAcknowledged{}.EventType():
		ev, err := event.Decode(e)
		if err == nil {
			f.Inbox.Apply(e.At, ev)
		}
		return err
	}
	if f.seen {
		f.note(&e)
	}
	return nil
}

// note marks what an entry, which all other folds have read, may have changed.
func (f *inboxFold) note(e *event.Entry) {
	switch host := e.Host(); {
	case event.IsOfNodes(e.Type):
		for _, name := range f.State.Nodes.NamesIn(e) {
			mark(&f.nodes, name)
		}
		mark(&f.objects, e.Subject.String())
	case e.Type == event.ResourceRecorded{}.EventType(): // the fold of rows notes what of it people see
	case host != "":
		mark(&f.hosts, host)
	default:
		f.fleet = true
		f.everyHost = f.everyHost || stopsHosts[e.Type]
	}
}

// noteSession marks a session whose description changed.
func (f *inboxFold) noteSession(name string) {
	if f != nil && f.seen && name != "" {
		mark(&f.sessions, name)
	}
}

// stopsHosts are the events without a host that change what hosts need a person for: they stop or
// resume rollouts, quarantine bundles, or put others in their place.
var stopsHosts = func() map[string]bool {
	m := map[string]bool{}
	for _, ev := range []event.Event{event.RolloutOpened{}, event.RolloutMoved{}, event.RolloutReverting{}, event.RolloutPaused{}, event.RolloutResumed{}, event.RolloutCancelled{},
		event.RolloutRetried{}, event.QuarantineAdded{}, event.QuarantineCleared{}, event.OverrideAccepted{}, event.RootTrusted{}} {
		m[ev.EventType()] = true
	}
	return m
}()

func mark(set *map[string]struct{}, name string) {
	if *set == nil {
		*set = map[string]struct{}{}
	}
	(*set)[name] = struct{}{}
}

func (f *inboxFold) Due() clock.Instant {
	if !f.seen || f.fleet || f.everyHost || len(f.hosts)+len(f.nodes)+len(f.objects)+len(f.sessions) > 0 {
		return 1
	}
	var at clock.Instant
	for _, due := range f.due { // order-free: the earliest of all
		at = clock.Earliest(at, due)
	}
	return at
}

// Next decides what newly needs a person, and what does no more.
func (f *inboxFold) Next(now clock.Instant) ([]event.Entry, error) {
	for key, at := range f.due { // order-free: it fills sets
		kind, name, _ := strings.Cut(key, "/")
		switch {
		case !at.Reached(now):
		case kind == plan.KindHost:
			mark(&f.hosts, name)
		case kind == plan.KindRollout:
			f.fleet = true
		case kind == drift.KindNode:
			mark(&f.nodes, name)
		default:
			mark(&f.objects, key)
		}
	}
	if f.Due() != 1 {
		return nil, nil
	}
	keys, items := f.look(now)
	want := items[:0]
	for _, i := range items {
		delete(f.due, i.Key())
		if i.Due(now) {
			want = append(want, i)
			continue
		}
		if f.due == nil {
			f.due = map[string]clock.Instant{}
		}
		f.due[i.Key()] = i.From
	}
	f.seen, f.fleet, f.everyHost = true, false, false
	f.hosts, f.nodes, f.objects, f.sessions = nil, nil, nil, nil
	var entries []event.Entry
	for _, ev := range f.Inbox.Next(keys, want) {
		e, err := event.NewEntry(now, ev.Subject(), ev)
		if err != nil {
			return nil, err
		}
		f.Inbox.Apply(now, ev)
		entries = append(entries, e)
	}
	return entries, nil
}

// attend decides what entries, that no tick of all folds follows, change of what needs a person.
func (s *State) attend(entries []event.Entry, now clock.Instant) ([]event.Entry, error) {
	if s.inbox == nil {
		return nil, nil
	}
	for i := range entries {
		s.inbox.note(&entries[i])
	}
	out, err := s.inbox.Next(now)
	if err == nil {
		err = s.share(s.inbox, out)
	}
	return out, err
}

// look lists what is marked needs a person for, and the keys that this may have been said of before.
func (f *inboxFold) look(now clock.Instant) (keys []string, items []status.Item) {
	if !f.seen {
		return slices.Sorted(maps.Keys(f.Inbox.Open)), f.Attention(now)
	}
	if f.everyHost {
		for name := range f.Plan.Hosts { // order-free: it fills a set
			mark(&f.hosts, name)
		}
	}
	hosts := slices.Sorted(maps.Keys(f.hosts))
	for _, name := range hosts {
		keys = append(keys, plan.KindHost+"/"+name)
		delete(f.due, plan.KindHost+"/"+name)
	}
	items = f.ofHosts(items, hosts)
	if f.fleet || f.everyHost {
		maps.DeleteFunc(f.due, func(key string, _ clock.Instant) bool { return strings.HasPrefix(key, plan.KindRollout+"/") })
		items = f.ofFleet(items, now)
		for key, o := range f.Inbox.Open { // order-free: Next sorts them
			if o.Kind == plan.KindRollout || o.Kind == warning.KindSource || o.Kind == warning.KindExpiry {
				keys = append(keys, key)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.nodes)) {
		keys = append(keys, drift.KindNode+"/"+name)
		delete(f.due, drift.KindNode+"/"+name)
		for key, o := range f.Inbox.Open { // order-free: Next sorts them
			if o.Kind == drift.KindDrift && o.Cause == name {
				keys = append(keys, key)
			}
		}
		items = append(items, f.State.Nodes.NodeItems(name)...)
		for _, object := range f.State.Nodes.ObjectsOf(name) {
			mark(&f.objects, object)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(f.objects)) {
		keys = append(keys, key)
		delete(f.due, key)
		items = appendItem(items, f.State.Nodes.ObjectItem(key, now))
	}
	for _, name := range slices.Sorted(maps.Keys(f.sessions)) {
		keys = append(keys, session.KindSession+"/"+name)
		items = f.ofSession(items, name, now)
	}
	return keys, items
}

func appendItem(items []status.Item, i *status.Item) []status.Item {
	if i != nil {
		items = append(items, *i)
	}
	return items
}

// Listed is the inbox as people see it, with the server's own items. Hosts that the newest release
// does not declare are on their way out and need no person.
func (s *State) Listed(roster map[string]fleet.RosterHost, own []status.Item, now clock.Instant) []status.InboxItem {
	items := slices.DeleteFunc(s.Attention(now), func(i status.Item) bool {
		return i.Kind == plan.KindHost && !plan.Declares(roster, i.Name)
	})
	return s.Inbox.List(append(items, own...), now)
}

// Attention lists what needs a person, of all that is folded from the log, also what does so only
// from a later instant on.
func (s *State) Attention(now clock.Instant) (items []status.Item) {
	items = s.ofFleet(s.ofHosts(nil, s.Plan.HostNames()), now)
	for _, name := range s.Nodes.NodeNames() {
		items = append(items, s.Nodes.NodeItems(name)...)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Nodes.Objects)) {
		items = appendItem(items, s.Nodes.ObjectItem(key, now))
	}
	for _, name := range session.Names(s.Rows.List(engine.Filter{Kind: session.KindSession})) {
		items = s.ofSession(items, name, now)
	}
	return items
}

func (s *State) ofSession(items []status.Item, name string, now clock.Instant) []status.Item {
	if !s.Troubles.Any(name) {
		return items
	}
	return appendItem(items, session.Item(s.Rows, name, now.Time()))
}

func (s *State) ofHosts(items []status.Item, names []string) []status.Item {
	for _, name := range names {
		items = appendItem(items, s.Plan.HostItem(name))
	}
	return items
}

func (s *State) ofFleet(items []status.Item, now clock.Instant) []status.Item {
	for _, name := range s.Plan.ChannelNames() {
		items = appendItem(items, s.Plan.RolloutItem(name, now))
	}
	return append(items, s.Plan.Warnings.AttentionItems()...)
}
