package event

import "github.com/steadyfleet/steady/internal/core/clock"

// ExpiryWarned says that something ends soon, has ended or is nearly full: once
// when it gets that far, and once more when it gets worse. Kind and Level are those
// of package expiry, Name whose it is.
type ExpiryWarned struct {
	Kind    string        `json:"kind"`
	Name    string        `json:"name,omitempty"`
	Level   string        `json:"level"`
	Ends    clock.Instant `json:"ends,omitempty"`
	Message string        `json:"message"`
	Next    string        `json:"next"`
}

// ExpiryCleared says that it was renewed, has room again, or is gone. Since is when
// the warning began.
type ExpiryCleared struct {
	Kind   string        `json:"kind"`
	Name   string        `json:"name,omitempty"`
	Since  clock.Instant `json:"since"`
	Reason string        `json:"reason"`
}

// EventType names of warnings.
func (ExpiryWarned) EventType() string  { return "expiry.warned" }
func (ExpiryCleared) EventType() string { return "expiry.cleared" }

func init() { register(ExpiryWarned{}, ExpiryCleared{}) }
