package status

import (
	"cmp"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Inbox is what of the whole product needs a person, since when, and who knows of it, as a fold over
// the log. What needs a person now is computed from the folds of hosts, rollouts, nodes, sessions,
// sources and expiries; the log has when that began and ended, and acknowledgements.
type Inbox struct {
	// Open are the items that are open, by key.
	Open map[string]*OpenItem `json:"open"`
}

// OpenItem is an item that the log has as open.
type OpenItem struct {
	event.AttentionOpened
	Since clock.Instant `json:"since"`
	// Ack is the acknowledgement; nil while there is none.
	Ack *Ack `json:"ack,omitempty"`
}

// Ack is a person's word that they know of an item.
type Ack struct {
	By    string        `json:"by"`
	At    clock.Instant `json:"at"`
	Until clock.Instant `json:"until,omitempty"` // zero: as long as its cause stays the same
	Note  string        `json:"note"`
}

// Counts reports whether the acknowledgement still counts.
func (a *Ack) Counts(now clock.Instant) bool {
	return a != nil && (a.Until == 0 || !a.Until.Reached(now))
}

// NewInbox returns the state before the first event.
func NewInbox() *Inbox { return &Inbox{Open: map[string]*OpenItem{}} }

// RestoreInbox completes a state that was decoded from a snapshot; nil is one from before there was an inbox.
func RestoreInbox(s *Inbox) *Inbox {
	if s == nil || s.Open == nil {
		return NewInbox()
	}
	return s
}

// Apply folds an event; others than those of the inbox change nothing.
func (s *Inbox) Apply(at clock.Instant, ev event.Event) {
	switch ev := ev.(type) {
	case event.AttentionOpened:
		s.Open[key(ev.OnItem)] = &OpenItem{AttentionOpened: ev, Since: at}
	case event.AttentionClosed:
		delete(s.Open, key(ev.OnItem))
	case event.AttentionAcknowledged:
		if o := s.Open[key(ev.OnItem)]; o != nil {
			o.Ack = &Ack{By: ev.Actor, At: at, Until: ev.Until, Note: ev.Note}
		}
	}
}

func key(o event.OnItem) string { return o.Kind + "/" + o.Name }

// Next is what the log does not have yet of some keys: want are the items that they have now, of
// which each needs a person already. A key without an item is closed.
func (s *Inbox) Next(keys []string, want []Item) (out []event.OnAttention) {
	items := make(map[string]*Item, len(want))
	for i := range want {
		items[want[i].Key()] = &want[i]
	}
	keys = slices.AppendSeq(keys, maps.Keys(items)) // order-free: sorted below
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		switch open, item := s.Open[k], items[k]; {
		case item == nil && open != nil:
			out = append(out, event.AttentionClosed{OnItem: open.OnItem, Word: open.Word, Since: open.Since})
		case item != nil && (open == nil || open.Word != item.Word || open.Cause != item.Cause):
			out = append(out, event.AttentionOpened{OnItem: event.OnItem{Kind: item.Kind, Name: item.Name}, Word: item.Word, Level: string(item.Level), Cause: item.Cause, Reason: item.Reason})
		}
	}
	return out
}

// InboxItem is one item of the inbox as people see it.
type InboxItem struct {
	Item
	Ack *Ack `json:"ack,omitempty"`
}

// List is the inbox: items that need a person now, with since when and who knows of them, as the log
// has that. The worst come first, the oldest of one level before others, and those that a person
// knows of last.
func (s *Inbox) List(items []Item, now clock.Instant) []InboxItem {
	out := []InboxItem{}
	for _, i := range items {
		if !i.Due(now) {
			continue
		}
		x := InboxItem{Item: i}
		if o := s.Open[i.Key()]; o != nil && o.Word == i.Word && o.Cause == i.Cause {
			x.Since = cmp.Or(x.Since, o.Since)
			if o.Ack.Counts(now) {
				x.Ack = o.Ack
			}
		}
		out = append(out, x)
	}
	slices.SortFunc(out, order)
	return out
}

func order(a, b InboxItem) int {
	rank := func(x InboxItem) int { return -slices.Index(Levels, x.Level) }
	known := func(x InboxItem) int {
		if x.Ack != nil {
			return 1
		}
		return 0
	}
	return cmp.Or(known(a)-known(b), rank(a)-rank(b), cmp.Compare(a.Since, b.Since), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// Needed are the items that no person knows of.
func Needed(list []InboxItem) []InboxItem {
	i := slices.IndexFunc(list, func(x InboxItem) bool { return x.Ack != nil })
	if i < 0 {
		return list
	}
	return list[:i]
}

// Acknowledge decides on a person's word that they know of an open item.
func (s *Inbox) Acknowledge(list []InboxItem, k string, until clock.Instant, note, actor string, now clock.Instant) (event.OnAttention, error) {
	i := slices.IndexFunc(list, func(x InboxItem) bool { return x.Key() == k })
	switch {
	case i < 0:
		return nil, &Refusal{Unknown: true, Message: k + " does not need a person; steady attention lists what does"}
	case s.Open[k] == nil:
		return nil, &Refusal{Message: k + " cannot be acknowledged: " + list[i].Reason}
	case until != 0 && until.Reached(now):
		return nil, &Refusal{Message: "the acknowledgement of " + k + " would have ended already"}
	}
	return event.AttentionAcknowledged{OnItem: event.OnItem{Kind: list[i].Kind, Name: list[i].Name}, Until: until, Note: note, Actor: actor}, nil
}

// Refusal reports why nothing is acknowledged.
type Refusal struct {
	Unknown bool // there is no such item
	Message string
}

func (r *Refusal) Error() string { return r.Message }
