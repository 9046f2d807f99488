package warning

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Warnings are what people were warned of and what is not over, as the log has it.
type Warnings struct {
	Sources map[string]Source `json:"sources,omitempty"`
	// Expiries are by the key of their item.
	Expiries map[string]Warned `json:"expiries,omitempty"`
}

// Warned is a warning about what ends or fills up, since an instant.
type Warned struct {
	Level Level         `json:"level"`
	Since clock.Instant `json:"since"`
	// Message and Next are those of the item; empty in a snapshot from before they were kept.
	Message string `json:"message,omitempty"`
	Next    string `json:"next,omitempty"`
}

// Warn folds an event; others than those of sources and expiries change nothing.
func (s *Warnings) Warn(at clock.Instant, ev event.Event) {
	switch ev := ev.(type) {
	case event.SourceFailed:
		s.source(ev.Source, func(x *Source) { x.Fetch = &SourceTrouble{Cause: ev.Cause, Detail: ev.Detail, At: at} })
	case event.VerifyFailed:
		if name, ok := strings.CutPrefix(ev.Actor, sourceActor); ok { // else somebody pushed it, and was told
			s.source(name, func(x *Source) { x.Verify = &SourceTrouble{Cause: ev.Check, Detail: ev.Detail, At: at} })
		}
	case event.SourceRecovered:
		s.source(ev.Source, func(x *Source) {
			switch ev.What {
			case SourceFetch:
				x.Fetch = nil
			case SourceVerify:
				x.Verify = nil
			}
		})
	case event.ExpiryWarned:
		if s.Expiries == nil {
			s.Expiries = map[string]Warned{}
		}
		key := ev.Kind + "/" + ev.Name
		s.Expiries[key] = Warned{Level: Level(ev.Level), Since: cmp.Or(s.Expiries[key].Since, at), Message: ev.Message, Next: ev.Next}
	case event.ExpiryCleared:
		delete(s.Expiries, ev.Kind+"/"+ev.Name)
	}
}

// source changes what is known of a source; of one that is well nothing is.
func (s *Warnings) source(name string, change func(*Source)) {
	x := s.Sources[name]
	change(&x)
	if x == (Source{}) {
		delete(s.Sources, name)
		return
	}
	if s.Sources == nil {
		s.Sources = map[string]Source{}
	}
	s.Sources[name] = x
}

// maxEvents bounds what one look adds to the log; the next one adds the rest.
const maxEvents = 100

// ExpiryNews returns what newly ends or fills up, what got worse, and what is well
// again. A warning is repeated only when it gets worse, and ends when the thing is
// clearly well, or gone.
func (s *Warnings) ExpiryNews(items []Item) []event.Event {
	var news []event.Event
	there := map[string]bool{}
	for i := range items {
		item := &items[i]
		there[item.Key()] = true
		known, warned := s.Expiries[item.Key()]
		switch {
		case item.Level != OK && (!warned || item.Level.Worse(known.Level)):
			news = append(news, event.ExpiryWarned{Kind: string(item.Kind), Name: item.Name, Level: string(item.Level), Ends: item.Ends, Message: item.Message, Next: item.Next})
		case warned && item.Recovered:
			news = append(news, event.ExpiryCleared{Kind: string(item.Kind), Name: item.Name, Since: known.Since, Reason: "it was renewed, or has room again"})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.Expiries)) {
		if !there[key] {
			kind, name, _ := strings.Cut(key, "/")
			news = append(news, event.ExpiryCleared{Kind: kind, Name: name, Since: s.Expiries[key].Since, Reason: "it is gone"})
		}
	}
	return news[:min(len(news), maxEvents)]
}
