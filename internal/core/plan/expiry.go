package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/expiry"
	"github.com/steadyfleet/steady/internal/core/override"
)

// WarnedExpiry is a warning that stands, since an instant.
type WarnedExpiry struct {
	Level expiry.Level  `json:"level"`
	Since clock.Instant `json:"since"`
}

// ExpiryFacts lists what of the state ends or fills up.
func (s *State) ExpiryFacts() []expiry.Fact {
	var out []expiry.Fact
	for _, name := range s.ChannelNames() {
		c := s.Channels[name]
		if s.Timestamp.IssuedAt != 0 {
			out = append(out, expiry.Fact{Kind: expiry.Timestamp, Name: name, Since: s.Timestamp.IssuedAt, Ends: s.Timestamp.IssuedAt.Add(c.FreshnessWindow)})
		}
		if r := s.Rollouts[cmp.Or(c.Active, c.Latest)]; r != nil && r.Plan != nil {
			for i := range r.Plan.Header.Windows {
				w := &r.Plan.Header.Windows[i]
				out = append(out, expiry.Fact{Kind: expiry.Window, Name: w.Name + " of channel " + name, Since: w.Zone.From, Ends: w.Zone.Until})
			}
		}
	}
	for _, name := range s.HostNames() {
		h := s.Hosts[name]
		if h.Incarnation != 0 && h.NotAfter != 0 && h.Standing() == "" {
			out = append(out, expiry.Fact{Kind: expiry.HostCertificate, Name: name, Since: h.IssuedAt, Ends: h.NotAfter})
		}
		if h.Freeze != nil && h.Freeze.Until != 0 {
			out = append(out, expiry.Fact{Kind: expiry.Freeze, Name: name, Ends: h.Freeze.Until})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.Operators)) {
		if t := s.Operators[id]; t.Expires != 0 {
			out = append(out, expiry.Fact{Kind: expiry.OperatorToken, Name: t.Name + " (" + id + ")", Since: t.CreatedAt, Ends: t.Expires})
		}
	}
	return append(out, expiry.Fact{Kind: expiry.Overrides, Used: int64(len(s.Overrides.Newest)), Limit: override.Max})
}

// ChangesExpiry reports whether an event changes what ExpiryFacts lists of
// timestamps, certificates, tokens and freezes: whoever folds these alone gets the same.
func ChangesExpiry(ev event.Event) bool {
	switch ev.(type) {
	case event.RootTrusted, event.ReleaseAccepted, event.TimestampAccepted, event.HostEnrolled, event.CertificateRenewed, event.HostRevoked,
		event.HostDecommissioned, event.HostForked, event.HostFrozen, event.HostUnfrozen, event.OperatorTokenAdded, event.OperatorTokenRevoked:
		return true
	}
	return false
}

// ExpiryNow is the instant to judge ExpiryFacts by: never behind what was signed
// and what the log shows since.
func (s *State) ExpiryNow(now clock.Instant) clock.Instant { return max(now, s.floor()) }

// maxExpiryEvents bounds what one look adds to the log; the next one adds the rest.
const maxExpiryEvents = 100

// NoteExpiries records what newly ends or fills up, what got worse, and what is well
// again. A warning is repeated only when it gets worse, and ends when the thing is
// clearly well, or gone.
func NoteExpiries(s *State, items []expiry.Item, now clock.Instant) ([]event.Entry, error) {
	d := &decider{s: s, now: now}
	there := map[string]bool{}
	for i := range items {
		item := &items[i]
		there[item.Key()] = true
		known, warned := s.Expiries[item.Key()]
		switch {
		case len(d.entries) >= maxExpiryEvents:
		case item.Level != expiry.OK && (!warned || item.Level.Worse(known.Level)):
			d.add("", event.ExpiryWarned{Kind: string(item.Kind), Name: item.Name, Level: string(item.Level), Ends: item.Ends, Message: item.Message, Next: item.Next})
		case warned && item.Recovered:
			d.add("", event.ExpiryCleared{Kind: string(item.Kind), Name: item.Name, Since: known.Since, Reason: "it was renewed, or has room again"})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Expiries)) {
		if !there[key] && len(d.entries) < maxExpiryEvents {
			kind, name, _ := strings.Cut(key, "/")
			d.add("", event.ExpiryCleared{Kind: kind, Name: name, Since: s.Expiries[key].Since, Reason: "it is gone"})
		}
	}
	return d.entries, d.err
}

// foldWarning keeps what people are warned of until it is over.
func (s *State) foldWarning(at clock.Instant, ev event.Event) {
	s.Sources = FoldSources(s.Sources, at, ev)
	switch ev := ev.(type) {
	case event.ExpiryWarned:
		if s.Expiries == nil {
			s.Expiries = map[string]WarnedExpiry{}
		}
		key := ev.Kind + "/" + ev.Name
		s.Expiries[key] = WarnedExpiry{Level: expiry.Level(ev.Level), Since: cmp.Or(s.Expiries[key].Since, at)}
	case event.ExpiryCleared:
		delete(s.Expiries, ev.Kind+"/"+ev.Name)
	}
}
