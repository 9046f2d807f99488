package warning

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Source is what is wrong with a place where releases are kept. A source of which
// there is nothing to say is in no state.
type Source struct {
	// Fetch says why nothing can be fetched, Verify why what was fetched is not
	// accepted; nil when that is well.
	Fetch  *SourceTrouble `json:"fetch,omitempty"`
	Verify *SourceTrouble `json:"verify,omitempty"`
}

// SourceTrouble is one thing that is wrong, since At.
type SourceTrouble struct {
	Cause  string        `json:"cause"`
	Detail string        `json:"detail"`
	At     clock.Instant `json:"at"`
}

// What of a source can be in trouble.
const (
	SourceFetch  = "fetch"
	SourceVerify = "verify"
)

// sourceActor begins the name under which a source acts.
const sourceActor = "source:"

// SourceActor is the name under which a source acts in the log.
func SourceActor(source string) string { return sourceActor + source }

// SourceReport is what one look at a source showed.
type SourceReport struct {
	Source string
	// Unfetched is why nothing came, or nil.
	Unfetched *SourceTrouble
	// Refused is why what came was not accepted, or nil.
	Refused *SourceTrouble
	// Verified says that what is there verified, now or earlier.
	Verified bool
	// Gone says that it is no source any more.
	Gone bool
}

// SourceNews returns what a report adds to the log: each trouble once until its
// cause changes, and its end. Fetching and verifying are told apart, so that a
// network that comes and goes does not repeat what is known of the content.
func (s *Warnings) SourceNews(r SourceReport) []event.Event {
	known := s.Sources[r.Source]
	var news []event.Event
	over := func(what string, t *SourceTrouble, reason string) {
		if t != nil {
			news = append(news, event.SourceRecovered{Source: r.Source, What: what, Since: t.At, Reason: reason})
		}
	}
	switch {
	case r.Gone:
		over(SourceFetch, known.Fetch, "it is no source any more")
		over(SourceVerify, known.Verify, "it is no source any more")
		return news
	case r.Unfetched != nil:
		if known.Fetch == nil || known.Fetch.Cause != r.Unfetched.Cause {
			news = append(news, event.SourceFailed{Source: r.Source, Cause: r.Unfetched.Cause, Detail: r.Unfetched.Detail})
		}
		return news
	}
	over(SourceFetch, known.Fetch, "it was reached again")
	switch {
	case r.Refused != nil:
		if known.Verify == nil || known.Verify.Cause != r.Refused.Cause || known.Verify.Detail != r.Refused.Detail {
			news = append(news, event.VerifyFailed{What: "release", Check: r.Refused.Cause, Detail: r.Refused.Detail, Actor: SourceActor(r.Source)})
		}
	case r.Verified:
		over(SourceVerify, known.Verify, "what is there verifies")
	}
	return news
}
