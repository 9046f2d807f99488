package warning

import (
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/status"
)

// Kinds of items of this package.
const (
	KindSource = "source"
	KindExpiry = "expiry"
)

// Words of a source.
const (
	SourceWell    = "reachable"
	SourceFailing = "unreachable" // nothing can be fetched
	SourceRefused = "refused"     // what was fetched is not accepted
)

// Summary is how a source of releases is: the zero Source is well.
func (x Source) Summary() status.Summary {
	trouble := func(word string, t *SourceTrouble) status.Summary {
		reason := prose.Reason(t.Detail)
		if t.Cause != word {
			reason = prose.Clauses(t.Cause, reason)
		}
		return status.Summary{Word: word, Level: status.Critical, Reason: reason, Since: t.At, Who: status.Releaser, Next: []status.Remedy{status.Do(status.SourceShow)}}
	}
	switch {
	case x.Verify != nil:
		return trouble(SourceRefused, x.Verify)
	case x.Fetch != nil:
		return trouble(SourceFailing, x.Fetch)
	}
	return status.Summary{Word: SourceWell, Level: status.OK}
}

var statusLevels = map[Level]status.Level{OK: status.OK, Warning: status.Warning, Critical: status.Critical}

// fills are the kinds that fill up; the others end.
var fills = map[Kind]bool{Disk: true, Log: true, Overrides: true, Outbox: true}

func (i *Item) word() string {
	switch {
	case i.Level == OK:
		return string(OK)
	case fills[i.Kind] && i.Level == Critical:
		return "full"
	case fills[i.Kind]:
		return "fills up"
	case i.Level == Critical:
		return "ended"
	}
	return "ends soon"
}

// Summary is how something is that ends or fills up, since an instant.
func (i *Item) Summary(since clock.Instant) status.Summary {
	out := status.Summary{Word: i.word(), Level: statusLevels[i.Level], Reason: i.Warning(), Since: since}
	if out.Level.NeedsPerson() {
		out.Who, out.Next = status.ServerOwner, []status.Remedy{status.Do(status.Expiries)}
	}
	return out
}

// AttentionItems lists what of sources, and of what ends or fills up, needs a person.
func (s *Warnings) AttentionItems() (out []status.Item) {
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		x := s.Sources[name]
		item := status.Item{Kind: KindSource, Name: name, Summary: x.Summary()}
		if x.Verify != nil {
			item.Cause = x.Verify.Cause
		}
		if item.Level.NeedsPerson() {
			out = append(out, item)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Expiries)) {
		w := s.Expiries[key]
		kind, name, _ := strings.Cut(key, "/")
		i := Item{Kind: Kind(kind), Name: name, Level: w.Level, Message: w.Message, Next: w.Next}
		if w.Message == "" {
			i.Message, i.Next = "the "+kind+" of "+name+" ends or fills up", "steady status --ends lists it"
		}
		out = append(out, status.Item{Kind: KindExpiry, Name: strings.TrimSuffix(key, "/"), Summary: i.Summary(w.Since)})
	}
	return out
}
