package event

import "github.com/steadyfleet/steady/internal/core/clock"

// SourceFailed says that nothing could be fetched from a place where releases are
// kept, once per cause. What arrives from there and does not verify is a
// VerifyFailed.
type SourceFailed struct {
	Source string `json:"source"`
	Cause  string `json:"cause"`
	Detail string `json:"detail"`
}

// SourceRecovered says that a trouble with a source is over. What is "fetch" or
// "verify", Since when it began.
type SourceRecovered struct {
	Source string        `json:"source"`
	What   string        `json:"what"`
	Since  clock.Instant `json:"since"`
	Reason string        `json:"reason"`
}

// EventType names of sources' events.
func (SourceFailed) EventType() string    { return "source.failed" }
func (SourceRecovered) EventType() string { return "source.recovered" }

func init() { register(SourceFailed{}, SourceRecovered{}) }
