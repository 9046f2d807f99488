package operator

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/status"
)

// Source is one place where the server looks for releases. Instants are zero
// before their first time.
type Source struct {
	Name        string        `json:"name"`
	LastChecked clock.Instant `json:"lastLook,omitempty"`
	LastSuccess clock.Instant `json:"lastSuccess,omitempty"` // what was there verified
	LastError   string        `json:"lastError,omitempty"`   // why the last look was no success
	// Version and Ref are of the release that it last brought.
	Version uint64 `json:"version,omitempty"`
	Ref     string `json:"ref,omitempty"`
	// Unfetched and Refused are the alerts that stand.
	Unfetched *SourceTrouble `json:"unfetched,omitempty"`
	Refused   *SourceTrouble `json:"refused,omitempty"`
	Summary   status.Summary `json:"summary"`
}

// SourceTrouble is one alert about a source.
type SourceTrouble struct {
	Cause  string        `json:"cause"`
	Detail string        `json:"detail"`
	Since  clock.Instant `json:"since"`
}
